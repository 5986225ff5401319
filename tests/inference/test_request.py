"""Requests: what their keys and sampling seeds depend on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import chat, completion, reply_to
from trailforge.inference import ChatTurn, Request, Sampling
from trailforge.inference.provider import chat_message
from trailforge.inference.provider.endpoint import Endpoint
from trailforge.inference.provider.wire import pack
from trailforge.inference.request import family_of
from trailforge.schemas import ToolCall

BASE = completion("Who?", sampling=Sampling(temperature=0.5))
CHANGED: dict[str, Any] = {
    "omit": ("seed",),
    "model": "another-model",
    "prompt": "Whom?",
    "sampling": Sampling(temperature=0.6),
    "json_schema": '{"type": "object"}',
    "grammar": 'root ::= "yes"',
    "sample": 1,
    "seed": 1,
    "extra_body": '{"top_k": 1}',
    "redo": 1,
    "tools": "[]",
}
SAMPLING_CHANGED: dict[str, Any] = {
    "top_k": 20,
    "repetition_penalty": 1.05,
    "temperature": 0.7,
    "top_p": 0.9,
    "max_tokens": 1,
    "stop": ("\n",),
}

# Few values, so that equal requests are drawn as well; some look alike, so that a key that runs them together shows.
texts = st.sampled_from(
    ["", "a", "b", "a b", "ü", "\ud800", '[["user", "a"]]', '"prompt": null', "\x7f", "0"]
) | st.text(max_size=3)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=texts)
turns = st.builds(ChatTurn, role=st.sampled_from(["user", "assistant"]), content=texts) | st.builds(
    ChatTurn,
    role=st.sampled_from(["assistant", "tool"]),
    content=texts,
    reasoning=texts,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=texts,
)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0, 1.0, 1, 0.7]),
    top_p=st.sampled_from([1.0, 1, 0.9]),
    max_tokens=st.integers(1, 2),
    stop=st.sampled_from([(), ("a",), ("b",), ("a", "b"), ("a b",)]),
)
requests = st.builds(
    Request,
    model=st.sampled_from(["a", "b"]),
    prompt=texts | st.lists(turns, max_size=2).map(tuple),
    sampling=samplings,
    json_schema=st.sampled_from([None, "", "{}"]),
    grammar=st.sampled_from([None, "", "{}"]),
    sample=st.integers(0, 1),
    seed=st.integers(0, 1),
    extra_body=st.sampled_from(["", "{}"]),
    redo=st.integers(0, 1),
    omit=st.sampled_from([(), ("seed",)]),
    tools=st.sampled_from(["", "[]"]),
    purpose=st.sampled_from(["", "answer", "split"]),
    priority=st.integers(0, 1),
)
UNKEYED = {"purpose": "", "is_turn": False, "priority": 0, "conversation": None}


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Request, Request]:
    """Two requests that differ in no field, in one or in two."""
    one, other = draw(requests), draw(requests)
    taken = draw(st.lists(st.sampled_from(dataclasses.fields(Request)), max_size=2))
    changes = {field.name: getattr(other, field.name) for field in taken if field.name != "sampling"}
    if len(changes) < len(taken):
        name = draw(st.sampled_from(dataclasses.fields(Sampling))).name
        changes["sampling"] = dataclasses.replace(one.sampling, **{name: getattr(other.sampling, name)})
    return one, dataclasses.replace(one, **changes)


@given(neighbours())
def test_keys_are_equal_exactly_when_all_but_purpose_and_priority_is(pair: tuple[Request, Request]) -> None:
    one, other = pair
    same = dataclasses.replace(one, **UNKEYED) == dataclasses.replace(other, **UNKEYED)
    assert (one.key == other.key) is same


@given(requests)
def test_keys_ledger_and_server_get_the_whole_prompt_though_each_turn_is_written_once(request_: Request) -> None:
    """What a turn keeps of its JSON is joined; it has to be what all written anew would be."""
    content = request_.content
    assert request_.key == hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    assert request_.family == family_of(content)
    kept = zstandard.decompress(pack(request_, reply_to(request_))).decode("utf-8", "surrogatepass")
    assert kept.startswith(json.dumps({"request": content}, ensure_ascii=False)[:-1])
    free = dataclasses.replace(request_, json_schema=None)  # an empty one is no JSON
    sent = Endpoint("http://localhost/v1", model="m", dialect="openai", timeout_s=1.0)._body(free)
    if not isinstance(request_.prompt, str):
        messages = json.dumps([chat_message(turn) for turn in request_.prompt], ensure_ascii=False)
        assert f'"messages": {messages}'.encode("utf-8", "replace") in sent


def test_a_chat_with_tools_is_sent_in_these_very_bytes() -> None:
    """As it was when all of a body was written at once: what stands for turns and tools is found in no other place."""
    calls = (ToolCall(id="c0", name="open", arguments='{"page": "é"}'),)
    turns = (
        ChatTurn(role="user", content='Where is "tools": null?'),
        ChatTurn(role="assistant", content="", reasoning="ö", tool_calls=calls),
        ChatTurn(role="tool", content="\ud800", tool_call_id="c0"),
    )
    tools = '[{"type":"function","function":{"name":"open","parameters":{"default":null}}}]'
    extra = '{"a": {"tools": null, "messages": null}}'
    request_ = Request(model="m", prompt=turns, sampling=Sampling(max_tokens=64), tools=tools, extra_body=extra)
    assert request_.key == "bd1b81ba1d8ffb83d256f00691b38f528f1dd00985a33a03011a4cb9d09cce1a"
    expected = (
        '{"model": "m", "temperature": 0.0, "top_p": 1.0, "max_tokens": 64, "seed": 198293531, "messages": ['
        '{"role": "user", "content": "Where is \\"tools\\": null?"}, '
        '{"role": "assistant", "content": "", "reasoning_content": "ö", "tool_calls": [{"id": "c0", '
        '"type": "function", "function": {"name": "open", "arguments": "{\\"page\\": \\"é\\"}"}}]}, '
        '{"role": "tool", "content": "?", "tool_call_id": "c0"}], '
        '"tools": [{"type": "function", "function": {"name": "open", "parameters": {"default": null}}}], '
        '"a": {"tools": null, "messages": null}}'
    )
    assert (
        Endpoint("http://localhost/v1", model="m", dialect="openai", timeout_s=1.0)._body(request_) == expected.encode()
    )


def test_extra_parameters_may_hold_other_messages() -> None:
    endpoint = Endpoint("http://localhost/v1", model="m", dialect="openai", timeout_s=1.0)
    for messages in ([], None, [{"messages": None}]):
        sent = json.loads(endpoint._body(chat(extra_body=json.dumps({"messages": messages}))))
        assert sent["messages"] == messages


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Request) if f.name not in UNKEYED])
def test_every_field_of_a_request_changes_its_key(field: str) -> None:
    changed = dataclasses.replace(BASE, **{field: CHANGED[field]})
    assert changed.key != BASE.key
    assert changed.sampling_seed != BASE.sampling_seed


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Sampling)])
def test_every_field_of_the_sampling_changes_the_key(field: str) -> None:
    sampling = dataclasses.replace(BASE.sampling, **{field: SAMPLING_CHANGED[field]})
    assert dataclasses.replace(BASE, sampling=sampling).key != BASE.key


def test_a_temperature_of_0_is_one_of_0_0() -> None:
    """A preset may spell it either way."""
    whole, decimal = Sampling(temperature=0, top_p=1), Sampling(temperature=0.0, top_p=1.0)
    assert dataclasses.replace(BASE, sampling=whole).key == dataclasses.replace(BASE, sampling=decimal).key


def test_purpose_and_priority_do_not_change_the_key() -> None:
    assert dataclasses.replace(BASE, purpose="answer", priority=3).key == BASE.key


def test_a_text_and_a_turn_with_the_same_words_are_two_calls() -> None:
    assert completion("Who?").key != chat("Who?").key


def test_who_says_a_turn_is_part_of_the_key() -> None:
    asked = chat(prompt=(ChatTurn(role="system", content="Who?"),))
    assert asked.key != chat(prompt=(ChatTurn(role="user", content="Who?"),)).key


def test_the_order_of_turns_is_part_of_the_key() -> None:
    first, second = ChatTurn(role="user", content="a"), ChatTurn(role="user", content="b")
    assert chat(prompt=(first, second)).key != chat(prompt=(second, first)).key


def test_the_key_of_a_known_request_never_changes() -> None:
    """Else every ledger there is would be worthless; with such a change the ledger's format goes up by one."""
    known = Request(
        model="m",
        prompt=(ChatTurn(role="user", content="Größe?"),),
        sampling=Sampling(temperature=0.7, top_p=0.9, max_tokens=8, stop=("\n",)),
        json_schema="{}",
        sample=2,
        seed=3,
    )
    assert known.key == "cc610b99861bb64a0dafb9d927bea217bef4b18a6947003a4d74fa787bda8a4d"


def test_the_key_of_a_request_with_tools_never_changes() -> None:
    call = ToolCall(id="c1", name="search", arguments='{"query": "Größe"}')
    known = chat(
        prompt=(
            ChatTurn(role="user", content="Who?"),
            ChatTurn(role="assistant", content="", reasoning="I look.", tool_calls=(call,)),
            ChatTurn(role="tool", content="1. …", tool_call_id="c1"),
        ),
        tools="[]",
    )
    assert known.key == "da5f712fc36b5a38f56c9bbb572c3caa672a6e023f43d4b72471f48c488d56f9"


def test_what_shows_whether_a_server_answers_keeps_calls_and_their_answers_together() -> None:
    call = ToolCall(id="c1", name="search", arguments="{}")
    asked = chat(
        prompt=(
            ChatTurn(role="user", content="Who?"),
            ChatTurn(role="assistant", content="Hm", tool_calls=(call,)),
            ChatTurn(role="tool", content="secret", tool_call_id="c1"),
        ),
        tools="[]",
    )
    control = asked.control()
    assert control.tools == "[]" and isinstance(control.prompt, tuple)
    assert [(turn.tool_calls, turn.tool_call_id) for turn in control.prompt] == [((), ""), ((call,), ""), ((), "c1")]
    assert "secret" not in str(control.prompt)


def test_another_process_finds_the_same_key_and_seed() -> None:
    script = (
        "import pickle, sys; request = pickle.load(sys.stdin.buffer); "
        "sys.stdout.write(f'{request.key} {request.sampling_seed}')"
    )
    fresh = dataclasses.replace(BASE)  # pickled without a key that was worked out before
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(fresh),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={"PYTHONHASHSEED": "7"},
    )
    assert done.stdout.decode() == f"{BASE.key} {BASE.sampling_seed}"


@given(requests)
def test_the_sampling_seed_fits_every_server_and_is_always_the_same(request_: Request) -> None:
    again = dataclasses.replace(request_, purpose="another")
    assert request_.sampling_seed == again.sampling_seed
    assert 0 <= request_.sampling_seed < 2**31


def test_every_draw_of_a_prompt_has_a_seed_of_its_own() -> None:
    seeds = {dataclasses.replace(BASE, sample=sample).sampling_seed for sample in range(1000)}
    assert len(seeds) == 1000


def test_every_run_has_other_seeds() -> None:
    seeds = {dataclasses.replace(BASE, seed=seed).sampling_seed for seed in range(1000)}
    assert len(seeds) == 1000


@pytest.mark.parametrize("reason", ["length", "max_tokens", "content_filter", "error", "abort"])
def test_a_reply_that_the_model_did_not_end_is_no_answer(reason: str) -> None:
    """The last two also in ledgers of versions that kept them."""
    reply = reply_to(BASE, finish_reason=reason)
    assert reply.is_cut and reply.answer is None


@pytest.mark.parametrize("reason", ["stop", "", "eos", "tool_calls"])
def test_a_reply_that_the_model_ended_is_an_answer(reason: str) -> None:
    assert reply_to(BASE, finish_reason=reason).answer == "Fritz Lang"
