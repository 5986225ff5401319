"""Thoughts in replies: where they are, and what is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inference.support import answer, chat, config, model_server, reply_to
from trailforge.inference import Meter, ModelClient, Reply, Request
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.reasoning import ThoughtReader, drop_thoughts, split_turn
from trailforge.protocols.episodes import turn_text
from trailforge.schemas import MalformedReply, ProviderError

THOUGHTFUL = "<think>\nLang, or Murnau?\n</think>\n\nLang"
FROM_THE_PROMPT = THOUGHTFUL.removeprefix("<think>")
"""As a model goes on whose chat template opens the thought."""
QUOTING = (
    "<think> is a tag. Answer: Paris",
    "<think> and </think> are tags. Answer: Paris",
    "It writes\n</think>\nAnswer: Paris",
)


def asked(number: int) -> Request:
    return chat(f"Question {number}?")


def read_all(texts: list[str]) -> list[str]:
    """What becomes of replies to different requests, one after the other."""
    reader, found = ThoughtReader("separate"), []
    for number, text in enumerate(texts):
        try:
            found.append(reader.read(asked(number), reply_to(asked(number), text)).text)
        except (MalformedReply, ProviderError) as error:
            found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("text", [THOUGHTFUL, FROM_THE_PROMPT, "<think>never ended"])
def test_a_model_whose_replies_hold_thoughts_that_nobody_declared_ends_the_run(text: str) -> None:
    assert read_all([text] * 3) == ["MalformedReply", "MalformedReply", "ProviderError"]


@pytest.mark.parametrize("text", QUOTING)
def test_replies_that_quote_tags_cost_their_items_and_never_the_run(text: str) -> None:
    """They do not add up either, where most replies are ordinary; one that is read again is one."""
    assert read_all([text]) == ["MalformedReply"]
    assert read_all(["Lang"] * 5 + [text] * 5) == ["Lang"] * 5 + ["MalformedReply"] * 5
    reader = ThoughtReader("separate")
    for _ in range(4):
        with pytest.raises(MalformedReply, match=r"model\.reasoning: inline"):
            reader.read(asked(0), reply_to(asked(0), text))


def test_replies_within_a_schema_have_no_room_for_thoughts_and_prove_nothing() -> None:
    reader = ThoughtReader("separate")
    for number in range(3):
        bound = chat(f"Question {number}?", json_schema="{}")
        reader.read(bound, reply_to(bound, "{}"))
    for number in range(2):
        with pytest.raises(MalformedReply):
            reader.read(asked(number), reply_to(asked(number), THOUGHTFUL))
    with pytest.raises(ProviderError):
        reader.read(asked(2), reply_to(asked(2), THOUGHTFUL))


async def test_the_mended_run_pays_for_nothing_again(tmp_path: Path) -> None:
    async with model_server() as server:
        server.replies = [answer(THOUGHTFUL)]
        client, meter = ModelClient(config(server.url), SqliteLedger(tmp_path / "l.sqlite")), Meter()
        with pytest.raises(MalformedReply):
            await client.complete(chat(), meter)
        await client.aclose()
        assert meter.calls == 1  # it was paid
        client = ModelClient(config(server.url, reasoning="inline"), SqliteLedger(tmp_path / "l.sqlite"))
        reply = await client.complete(chat())
        await client.aclose()
    assert (reply.text, reply.reasoning, server.calls) == ("Lang", "Lang, or Murnau?", 1)


@pytest.mark.parametrize(
    ("text", "thoughts", "left"),
    [
        ("Lang", "", "Lang"),
        ("  Lang\n", "", "  Lang\n"),
        ("so\n</think>\n\nLang", "so", "Lang"),
        ("so </think> \nLang", "so", "Lang"),
        ("<think>so</think>Lang", "so", "Lang"),
        ("<think></think>Lang", "", "Lang"),
        ("<think>never ended", "never ended", ""),
        *((text, "", text) for text in ("R1 writes <think> and </think>, as we know. Lang", "so</think>Lang")),
    ],
)
def test_inline_reasoning_is_split_off_at_its_end_mark(text: str, thoughts: str, left: str) -> None:
    reply = drop_thoughts(reply_to(chat(), text))
    assert (reply.reasoning, reply.text) == (thoughts, left)


@pytest.mark.parametrize("text", ['{"evidence": "ends with </think> and then"}', "The tag <think> opens a thought."])
def test_a_reply_may_quote_the_tags_of_thoughts(text: str) -> None:
    assert read_all([text] * 3) == [text] * 3


def test_thoughts_that_came_apart_leave_the_reply_alone() -> None:
    reply = reply_to(chat(), "<think> is what the text says", reasoning="It was Lang.")
    assert ThoughtReader("separate").read(chat(), reply) == reply


# Turns of agents


@pytest.mark.parametrize(
    "text", [THOUGHTFUL, "Sure. <think>a</think><search>b", "a</think><search>b", "<think>a</think><think>b</think> c "]
)
def test_an_agents_turn_comes_as_it_was_sent(text: str) -> None:
    reply = reply_to(chat(is_turn=True), text)
    assert ThoughtReader("separate").read(chat(is_turn=True), reply) == reply
    assert chat(is_turn=True).key == chat().key


def turn(text: str) -> Reply:
    return split_turn(reply_to(chat(is_turn=True), text))


@pytest.mark.parametrize(
    ("text", "thought", "left"),
    [
        ("a\n</think>\n<search>b", "a\n", "\n<search>b"),  # the template opened it
        ("<think>a</think><search>b ", "a", "<search>b "),
        ("a\n</think>\n<think>b</think>c", "a\n", "\n<think>b</think>c"),
    ],
)
def test_an_inline_thought_at_the_start_of_a_turn_is_as_one_that_came_apart(text: str, thought: str, left: str) -> None:
    request = chat(is_turn=True)
    reply = ThoughtReader("inline").read(request, reply_to(request, text))
    assert (reply.reasoning, reply.text) == (thought, left)


@pytest.mark.parametrize(
    "text",
    ["Sure. <think>a</think><search>b", "<think>I give up.</think>", "<think></think><search>b", "<think>a", "a"],
)
def test_other_inline_turns_stay_whole(text: str) -> None:
    assert (turn(text).text, turn(text).reasoning) == (text, "")


@pytest.mark.parametrize("text", ["<think>a\n</think>\n<search>b ", "<think> a</think>b\n"])
def test_put_together_an_inline_turn_is_what_the_model_and_its_template_wrote(text: str) -> None:
    assert turn_text(turn(text)) == turn_text(turn(text.removeprefix("<think>"))) == text


# Replies that say nothing beside their thoughts or tool calls


def silent(text: str, **changes: object) -> tuple[Request, Reply]:
    request = chat(text, is_turn=text.endswith("!"))
    return request, reply_to(request, "", **changes)


@pytest.mark.parametrize(
    ("changes", "mend"),
    [
        ({"reasoning": "It is Lang."}, "start it without its reasoning parser"),
        ({"finish_reason": "tool_calls"}, "start the server without its tool parser"),
    ],
)
def test_when_all_replies_are_empty_the_third_or_the_end_says_what_to_do(changes: dict[str, str], mend: str) -> None:
    reader = ThoughtReader("separate")
    reader.read(*silent("a", **changes))
    with pytest.raises(ProviderError, match=f"every reply so far \\(1\\) has an empty text .*{mend}"):
        reader.check()
    reader.read(*silent("b!", **changes))
    with pytest.raises(ProviderError, match=mend):
        reader.read(*silent("c", **changes))


def test_one_reply_with_a_text_shows_that_the_others_are_the_models_own() -> None:
    reader, request = ThoughtReader("separate"), chat("first")
    reader.read(request, reply_to(request, "Fritz Lang"))
    for number in range(9):
        reader.read(*silent(f"{number}", reasoning="It is Lang."))
    reader.check()


def test_cut_and_wholly_empty_replies_say_nothing_about_the_server() -> None:
    reader = ThoughtReader("separate")
    for number in range(9):
        reader.read(*silent(f"{number}", reasoning="It is", finish_reason="length"))
        reader.read(*silent(f"empty {number}"))
    reader.check()
