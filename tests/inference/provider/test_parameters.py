"""How requests are written, and what of it is part of a call's key."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.inference.support import answer, chat, model_server
from tests.inference.test_client import client_of
from trailforge.inference import ClientConfig, Sampling
from trailforge.inference.provider.endings import read_ending
from trailforge.inference.provider.parameters import KNOWN, Parameters
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.schemas import InvalidInput, from_dict

ASKED = chat(sampling=Sampling(temperature=0.7, top_p=0.9, max_tokens=9, stop=("</a>",)))
USUAL = {"model", "messages", "temperature", "top_p", "max_tokens", "seed", "stop"}


async def sent(parameters: Parameters, tmp_path: Path) -> tuple[dict[str, Any], str]:
    """The body of a call, and the text of its reply."""
    async with model_server() as server:
        server.replies = [answer("Fritz</a>Lang")]
        async with client_of(server.url, tmp_path / "ledger.sqlite", parameters=parameters) as client:
            reply = await client.complete(ASKED)
            return server.bodies[-1], reply.text


@pytest.mark.parametrize("name", [name for name in KNOWN if name in USUAL])
async def test_every_parameter_can_be_left_out_and_renamed(name: str, tmp_path: Path) -> None:
    body, _ = await sent(Parameters(omit=(name,)), tmp_path / "omit")
    assert set(body) == USUAL - {name}
    body, _ = await sent(Parameters(rename={name: f"max_{name}"}), tmp_path / "rename")
    assert set(body) == USUAL - {name} | {f"max_{name}"}


async def test_a_null_of_extra_body_leaves_a_parameter_out() -> None:
    async with model_server() as server, client_of(server.url, extra_body='{"seed": null, "min_p": null}') as client:
        await client.complete(ASKED)
        assert set(server.bodies[-1]) == USUAL - {"seed"} | {"min_p"}  # what is none of ours is sent as it is
        rare = dataclasses.replace(ASKED.sampling, top_k=20, repetition_penalty=1.05)
        await client.complete(dataclasses.replace(ASKED, sampling=rare))
        assert (server.bodies[-1]["top_k"], server.bodies[-1]["repetition_penalty"]) == (20, 1.05)


async def test_a_stream_is_asked_for_with_its_usage_unless_that_is_left_out(tmp_path: Path) -> None:
    body, _ = await sent(Parameters(stream=True), tmp_path / "with")
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    body, _ = await sent(Parameters(stream=True, omit=("stream_options",)), tmp_path / "without")
    assert body["stream"] and "stream_options" not in body


async def test_without_stop_strings_replies_are_cut_here(tmp_path: Path) -> None:
    assert (await sent(Parameters(), tmp_path / "sent"))[1] == "Fritz</a>Lang"  # the server's matter
    assert (await sent(Parameters(omit=("stop",)), tmp_path / "left"))[1] == "Fritz"


async def test_a_parameter_left_out_is_part_of_the_key_and_the_form_on_the_wire_is_not(tmp_path: Path) -> None:
    async def keys(parameters: Parameters) -> str:
        async with model_server() as server, client_of(server.url, parameters=parameters) as client:
            return (await client.complete(ASKED)).key

    usual = await keys(Parameters())
    assert usual == ASKED.key
    for same in (
        Parameters(stream=True),
        Parameters(rename={"max_tokens": "max_completion_tokens"}),
        Parameters(stream=True, omit=("stream_options",)),
    ):
        assert await keys(same) == usual
    left_out = await keys(Parameters(omit=("seed", "top_p")))
    assert left_out != usual and left_out == await keys(Parameters(omit=("top_p", "seed", "stream_options")))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"omit": ("model",)}, "'model' is never sent; choose of temperature"),
        ({"rename": {"maxtokens": "max_completion_tokens"}}, "'maxtokens' is never sent"),
        ({"rename": {"seed": "top_p"}}, "two parameters would be called 'top_p'"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Parameters(**wrong)


def test_a_preset_says_it_and_a_run_of_the_usual_form_keeps_its_hash() -> None:
    said = {"parameters": {"stream": True, "omit": ["seed"], "rename": {"max_tokens": "max_completion_tokens"}}}
    config = from_dict(ModelConfig, said)
    assert config.parameters.left_out == ("seed",) and config.parameters.reply_settings == {"omit": ["seed"]}
    assert ModelConfig().parameters.reply_settings == {}
    assert ClientConfig(base_url="http://x/v1", model="m").parameters == ModelConfig().parameters
    assert hash(dataclasses.replace(config.parameters)) == hash(config.parameters)


async def test_a_declared_finish_reason_is_read_as_it_was_declared(tmp_path: Path) -> None:
    body = answer("Fritz")
    body["choices"][0]["finish_reason"] = "finished_ok"
    async with model_server() as server:
        server.always = lambda: body
        async with client_of(server.url) as client:
            assert (await client.complete(chat())).is_cut
            assert client.figures["unknown_endings"] == 1
        declared = Parameters(finish_reasons={"finished_ok": "whole"})
        async with client_of(server.url, parameters=declared) as client:
            assert not (await client.complete(chat())).is_cut
            assert client.figures["unknown_endings"] == 0


async def test_an_unknown_finish_reason_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    body = answer("Fritz")
    body["choices"][0]["finish_reason"] = "tired"
    async with model_server() as server:
        server.always = lambda: body
        async with client_of(server.url) as client:
            for number in range(4):
                await client.complete(chat(f"{number}"))
            assert client.figures["unknown_endings"] == 4
    assert [record.message.count("'tired'") for record in caplog.records if record.name == "trailforge"] == [1]


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        ("stop", "whole"), ("", "whole"), ("null", "whole"), ("STOP", "whole"), ("end_turn", "whole"), ("eos", "whole"),
        ("length", "cut"), ("MAX_TOKENS", "cut"), ("model_length", "cut"), ("content_filter", "cut"),
        ("SAFETY", "cut"), ("sensitive", "cut"), ("model_context_window_exceeded", "cut"), ("max_output", "cut"),
        ("insufficient_system_resource", "broken"), ("network_error", "broken"), ("abort", "broken"),
        ("tired", "unknown"), ("stopped?", "unknown"),
    ],
)  # fmt: skip
def test_a_finish_reason_says_how_a_reply_ended(reason: str, ending: str) -> None:
    assert read_ending(reason) == ending
