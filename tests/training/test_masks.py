"""Loss masks: the agent's tokens and the ends of its turns, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.training.tiny import trained_runs
from trailforge.schemas import ChatMessage, InvalidInput, Role, TextSpan
from trailforge.training.masks import (
    END,
    IGNORED,
    START,
    escape_special,
    masked_tokens,
    pieces,
    prepare_tokenizer,
    prompt_ids,
    render,
    teach,
)

AWKWARD = st.sampled_from(
    ["", "\n", "\n\n", " ", "a", "assistant", "<think>", "</search>", "<|", "|>", "é", "😀", "\r\n "]
)
TEXTS = st.lists(AWKWARD | st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=5).map("".join)


@cache
def chatml() -> Any:
    """Asked for late: those that collect tests without running them do without its library."""
    tokenizer: Any = tiny_tokenizer()
    prepare_tokenizer(tokenizer)
    return tokenizer


@st.composite
def conversations(draw: st.DrawFn) -> tuple[tuple[ChatMessage, ...], tuple[bool, ...]]:
    """Any number of turns of any role with any text, and flags on some of the agent's."""
    roles: list[Role] = draw(st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), min_size=1, max_size=8))
    messages = tuple(ChatMessage(role=role, content=draw(TEXTS)) for role in roles)
    return messages, tuple(role == "assistant" and draw(st.booleans()) for role in roles)


def message(role: Role, content: str) -> ChatMessage:
    """A turn."""
    return ChatMessage(role=role, content=content)


EPISODE = (
    message("system", "Rules."),
    message("user", "Who directed the film?"),
    message("assistant", "<think>I search.</think><search>director of the film</search>"),
    message("tool", "<tool_response>\n1. (The film) The film was directed by Ada.\n</tool_response>"),
    message("assistant", "<think>Ada did.</think>\n<answer>Ada</answer>"),
)


def decoded(runs: Sequence[Sequence[int]]) -> list[str]:
    """Texts of runs of tokens."""
    return [chatml().decode(run) for run in runs]


@given(conversations())
def test_trained_tokens_are_the_agents_turns_and_their_ends(
    case: tuple[tuple[ChatMessage, ...], tuple[bool, ...]],
) -> None:
    """Nothing of another turn or of a heading, nothing missing; all tokens together are the conversation."""
    messages, train = case
    masked = masked_tokens(chatml(), messages, train)
    assert decoded(trained_runs(masked)) == [m.content + END for m, flag in zip(messages, train, strict=True) if flag]
    assert chatml().decode(masked.input_ids) == render(messages)
    assert all(label in (IGNORED, token) for token, label in zip(masked.input_ids, masked.labels, strict=True))
    assert sum(masked.mask) == sum(map(len, trained_runs(masked)))


@given(conversations())
def test_the_template_renders_the_same(case: tuple[tuple[ChatMessage, ...], tuple[bool, ...]]) -> None:
    """Jinja and Python agree on every conversation, with and without the heading of the next turn."""
    messages = case[0]
    chat = [{"role": m.role, "content": m.content} for m in messages]
    for heading in (False, True):
        rendered = chatml().apply_chat_template(chat, tokenize=False, add_generation_prompt=heading)
        assert rendered == render(messages, add_generation_prompt=heading)


@pytest.mark.parametrize("train", [None, (False, False, False, False, True)])
def test_markers_of_the_template_give_the_same_mask(train: tuple[bool, ...] | None) -> None:
    """What transformers makes of the markers, flags in the messages included, token by token."""
    flags = train or tuple(m.role == "assistant" for m in EPISODE)
    chat = [{"role": m.role, "content": m.content, "train": f} for m, f in zip(EPISODE, flags, strict=True)]
    theirs = chatml().apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
    ours = masked_tokens(chatml(), EPISODE, train)
    assert list(theirs["input_ids"]) == ours.input_ids
    assert list(theirs["assistant_masks"]) == ours.mask


def test_a_rollouts_tokens_are_the_training_tokens() -> None:
    """Prompt as the server gets it, then the turn by itself: what training sees has the same ids."""
    whole = masked_tokens(chatml(), EPISODE).input_ids
    prompt = prompt_ids(chatml(), EPISODE[:4])
    assert whole[: len(prompt)] == prompt
    assert chatml().decode(prompt).endswith(f"</tool_response>{END}\n{START}assistant\n")


def test_a_tool_turn_is_a_user_turn_as_it_stands() -> None:
    """Its tags are the protocol's and stand once; no system prompt is added; the first thought stays."""
    text = render(EPISODE[1:])
    assert text.startswith(f"{START}user\nWho")
    assert text.count("<tool_response>") == 1 and f"{START}user\n<tool_response>" in text
    assert text.count("<think>") == 2


@pytest.mark.parametrize(
    ("messages", "train", "problem"),
    [
        (EPISODE, (True, False, True, False, True), "message 0, a turn of system"),
        (EPISODE, (True,), "1 flags for 5 messages"),
    ],
)
def test_flags_that_fit_no_agent_are_refused(
    messages: tuple[ChatMessage, ...], train: tuple[bool, ...], problem: str
) -> None:
    """Before any token is made."""
    with pytest.raises(InvalidInput, match=problem):
        list(pieces(messages, train))


@pytest.mark.parametrize("token", [START, END, "<|endoftext|>"])
def test_text_of_a_special_token_is_refused(token: str) -> None:
    """It would forge a turn, whoever wrote it."""
    with pytest.raises(InvalidInput, match="message 1 holds the special token"):
        masked_tokens(chatml(), [message("user", "q"), message("assistant", f"a{token}b")])


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
@pytest.mark.parametrize("token", ["</s>", "[INST]", "<unused_0>"])
def test_a_special_token_without_a_role_is_refused_too(token: str, role: Role) -> None:
    """A tokenizer lists those that only its template knows among the added ones alone."""
    tokenizer = tiny_tokenizer("</s>", "[INST]", "<unused_0>")
    prepare_tokenizer(tokenizer)
    assert token not in tokenizer.all_special_tokens
    turns = [message("user", "q"), message("assistant", "a"), message(role, f"b {token} c")]
    with pytest.raises(InvalidInput, match=f"message 2 holds the special token {re.escape(token)}"):
        masked_tokens(tokenizer, turns)
    masked_tokens(tokenizer, [*turns[:2], message(role, escape_special(tokenizer, turns[2].content))])


def test_a_tokenizer_without_chatml_is_refused_until_it_is_taught() -> None:
    """With what is missing, and the mend; a mark that is in the vocabulary but comes out in parts is missing too."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted({*pre_tokenizers.ByteLevel.alphabet(), END})
    plain = Tokenizer(models.BPE(vocab={text: number for number, text in enumerate(letters)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain)
    assert END in tokenizer.get_vocab() and len(tokenizer.encode(END)) > 1
    with pytest.raises(InvalidInput, match=r"no token <\|im_start\|> and <\|im_end\|>; .*train sft"):
        prepare_tokenizer(tokenizer)
    assert teach(tokenizer) == [START, END] and teach(tokenizer) == []
    prepare_tokenizer(tokenizer)
    runs = trained_runs(masked_tokens(tokenizer, EPISODE))
    assert [tokenizer.decode(run) for run in runs] == [m.content + END for m in EPISODE if m.role == "assistant"]


def test_a_tokenizer_that_changes_text_is_refused() -> None:
    """Here one that puts a space before each piece, as SentencePiece does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = [*pre_tokenizers.ByteLevel.alphabet()]
    spacing = Tokenizer(models.BPE(vocab={text: number for number, text in enumerate(letters)}, merges=[]))
    spacing.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    spacing.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=spacing)
    teach(tokenizer)
    with pytest.raises(InvalidInput, match="byte-level"):
        prepare_tokenizer(tokenizer)


@given(conversations(), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30), st.integers(1, 12)), max_size=4))
def test_of_parts_left_out_no_character_is_trained_and_all_others_are(
    drawn: tuple[tuple[ChatMessage, ...], tuple[bool, ...]], parts: list[tuple[int, int, int]]
) -> None:
    messages, train = drawn
    left_out = [TextSpan(message=number, kind="mistake", start=at, end=at + size) for number, at, size in parts]
    whole, masked = masked_tokens(chatml(), messages, train), masked_tokens(chatml(), messages, train, left_out)
    assert masked.input_ids == whole.input_ids
    turns = iter(zip(masked.input_ids, masked.labels, whole.labels, strict=True))
    for piece in pieces(messages, train):
        covered = bytearray()  # of each byte: is it trained?
        for _ in chatml().encode(piece.text, add_special_tokens=False):
            token, label, before = next(turns)
            assert label in (IGNORED, before)
            size = len(chatml().decode([token]).encode()) if token > 2 else 0
            covered += bytes([label != IGNORED]) * size
        if not piece.train or not piece.text.removesuffix(END).isascii():
            continue
        mine = [span for span in left_out if span.message == piece.message]
        for at, is_trained in enumerate(covered[: len(piece.text) - len(END)]):
            inside = any(span.start <= at < span.end for span in mine)
            assert not (inside and is_trained)


def test_a_masked_claim_takes_the_tokens_that_it_shares_with_its_neighbours_and_no_others() -> None:
    content = EPISODE[2].content
    start = content.index("search.")
    part = TextSpan(message=2, kind="mistake", start=start, end=start + len("search."))
    masked = masked_tokens(chatml(), EPISODE, unlearnt=[part])
    whole = masked_tokens(chatml(), EPISODE)
    lost = [token for token, label in zip(whole.labels, masked.labels, strict=True) if token != label]
    assert "search." in chatml().decode(lost)
    assert len(chatml().decode(lost)) <= len("search.") + 8
    assert trained_runs(masked)[-1] == trained_runs(whole)[-1]
    assert masked_tokens(chatml(), EPISODE, unlearnt=[TextSpan(message=3, kind="mistake", start=0, end=9)]) == whole


def test_a_tokenizer_that_does_not_know_where_its_tokens_stand_cannot_mask_parts() -> None:
    class Slow:
        all_special_tokens: Sequence[str] = ()
        added_tokens_decoder = MappingProxyType[int, Any]({})

        def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
            return chatml().encode(text, add_special_tokens=add_special_tokens)

        is_fast = False

        def __call__(self, text: str, **options: Any) -> Any:
            raise AssertionError("a slow tokenizer is asked for no offsets")

    part = TextSpan(message=2, kind="mistake", start=8, end=12)
    assert masked_tokens(Slow(), EPISODE) == masked_tokens(chatml(), EPISODE)
    with pytest.raises(InvalidInput, match="--mistakes train"):
        masked_tokens(Slow(), EPISODE, unlearnt=[part])
