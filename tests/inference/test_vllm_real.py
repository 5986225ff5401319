"""A real vLLM on this machine's CPU, started by our code, asked all that the generators ask: `make test-vllm`.

The model is the embedded one, in float32. It is too small to be right, so what is asserted is shape, never wording.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.end_to_end.support import trailforge
from tests.inference.support import chat, completion, config
from tests.inference.test_servers import is_running
from tests.inference.test_vllm_server import free_port
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.inference import ModelClient, Sampling, ask_json
from trailforge.inference.packaged import SMOLLM2
from trailforge.inference.vllm.server import VllmConfig, VllmServer, server_environment, vllm_arguments
from trailforge.pipelines.runs.config import server_config
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.presets import load_preset
from trailforge.schemas import ContextOverflow, ProviderError

ENVIRONMENT = os.environ.get("TRAILFORGE_VLLM", "")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(2700),
    pytest.mark.skipif(
        not ENVIRONMENT, reason="make test-vllm builds vLLM's environment and names it in TRAILFORGE_VLLM"
    ),
]

ROOT = Path(__file__).parents[2]
WINDOW = 1024
NAME = SMOLLM2.name
SHORT = Sampling(max_tokens=8)
WARM = Sampling(max_tokens=8, temperature=1.0)
CAPITAL = "What is the capital of France?"


@pytest.fixture(scope="module")
def server() -> Iterator[VllmServer]:
    """Ready, and gone without a trace afterwards."""
    section = VllmConfig(
        model=f"{ENVIRONMENT}/smollm2",
        environment=ENVIRONMENT,
        start="module",
        port=free_port(),
        dtype="float32",
        structured_outputs="xgrammar",
        max_model_len=WINDOW,
        max_num_seqs=16,
        extra_args=("--enforce-eager", "--disable-uvicorn-access-log"),
        variables=("VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=2"),
        ready_within_s=600.0,
    )
    with VllmServer(section, NAME) as running:
        pids = _session_of(running)
        assert len(pids) > 1  # server and engine are processes of their own
        yield running
    assert not [pid for pid in pids if is_running(pid)]


def _session_of(server: VllmServer) -> list[int]:
    """All processes that the server's supervisor has started, and theirs."""
    found, fresh = list[int](), [server.pid]
    while fresh:
        listed = (Path(f"/proc/{pid}/task/{pid}/children").read_text().split() for pid in fresh)
        fresh = [int(pid) for pids in listed for pid in pids]
        found += fresh
    return found


@pytest.fixture
async def client(server: VllmServer) -> AsyncIterator[ModelClient]:
    opened = ModelClient(config(server.base_url, model=NAME, dialect="vllm", timeout_s=300.0))
    yield opened
    await opened.aclose()


def post(server: VllmServer, path: str, **body: Any) -> dict[str, Any]:
    """What our client does not ask for: several choices, log probabilities."""
    request = urllib.request.Request(
        f"{server.base_url}/{path}",
        json.dumps({"model": NAME, "max_tokens": 6} | body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=800) as reply:
        return json.loads(reply.read())


def text_of(choice: dict[str, Any]) -> str:
    """Of a chat's choice or a completion's."""
    return choice["text"] if "text" in choice else choice["message"]["content"]


PARSES = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
known = vars(make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:]))
print(json.dumps({name: str(value) for name, value in known.items()}))
"""


def test_vllm_knows_every_option_of_the_production_preset(tmp_path: Path) -> None:
    section, name = server_config(
        load_preset("msearcher", "mcts_trajectories"), source="msearcher", record=MctsRunConfig
    )
    words = [f"{ENVIRONMENT}/bin/python", "-c", PARSES, *vllm_arguments(section, name)]
    done = subprocess.run(words, cwd=tmp_path, env=server_environment(()), capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    known = json.loads(done.stdout.splitlines()[-1])
    assert (known["model_tag"], known["served_model_name"]) == (name, f"['{name}']")
    assert (known["tensor_parallel_size"], known["max_model_len"]) == ("2", "32768")
    assert (known["enable_prefix_caching"], known["reasoning_parser"]) == ("True", "deepseek_r1")
    assert "backend='xgrammar'" in known["structured_outputs_config"]
    assert known["disable_uvicorn_access_log"] == "True"


async def test_the_model_is_served_under_the_name_that_calls_use(client: ModelClient) -> None:
    assert await client.check() == [NAME]


async def test_a_chat_is_answered_and_counted(client: ModelClient) -> None:
    reply = await client.complete(chat(CAPITAL, model=NAME, sampling=SHORT))
    assert reply.text and reply.reasoning == "" and reply.finish_reason in ("stop", "length")
    assert reply.prompt_tokens > 5 and 0 < reply.completion_tokens <= 8


async def test_a_completion_ends_before_its_stop_text(client: ModelClient) -> None:
    sampling = Sampling(max_tokens=16, stop=("five", "\n"))
    reply = await client.complete(
        completion("One, two, three, four, five, six. One, two, three,", model=NAME, sampling=sampling)
    )
    assert "five" not in reply.text and reply.finish_reason == "stop"


SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "minLength": 1, "maxLength": 12}},
    "required": ["word"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("ask", [chat, completion])
async def test_a_schema_binds_chats_and_completions(client: ModelClient, ask: Any) -> None:
    request = ask("Give me a word as JSON:", model=NAME, sampling=Sampling(max_tokens=64))
    value = await ask_json(client, request, SCHEMA)
    assert list(value) == ["word"] and 1 <= len(value["word"]) <= 12


@pytest.mark.parametrize("ask", [chat, completion])
async def test_a_grammar_binds_chats_and_completions(client: ModelClient, ask: Any) -> None:
    reply = await client.complete(ask(CAPITAL, model=NAME, sampling=WARM, grammar='root ::= "seven" | "eleven"'))
    assert reply.text in ("seven", "eleven")


async def test_a_regular_expression_binds_by_way_of_extra_body(server: VllmServer) -> None:
    extra = json.dumps({"structured_outputs": {"regex": "19[0-9]{2}"}})
    client = ModelClient(config(server.base_url, model=NAME, dialect="vllm", extra_body=extra, timeout_s=300.0))
    reply = await client.complete(completion("The year was", model=NAME, sampling=WARM))
    await client.aclose()
    assert re.fullmatch("19[0-9]{2}", reply.text)


async def test_a_draw_comes_out_the_same_again_and_other_draws_differ(client: ModelClient) -> None:
    async def draw(sample: int) -> str:
        return (await client.complete(chat(CAPITAL, model=NAME, sampling=WARM, sample=sample))).text

    first = [await draw(sample) for sample in range(4)]
    assert len(set(first)) > 1
    assert [await draw(sample) for sample in range(4)] == first


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_several_choices_come_in_one_reply_and_are_all_counted(server: VllmServer, path: str) -> None:
    prompt = {"messages": [{"role": "user", "content": CAPITAL}]} if "chat" in path else {"prompt": "The"}
    one, again = (post(server, path, n=3, temperature=1.0, seed=7, **prompt) for _ in range(2))
    texts = [text_of(choice) for choice in one["choices"]]
    assert len(texts) == 3 and len(set(texts)) > 1
    assert texts == [text_of(choice) for choice in again["choices"]]
    assert 6 < one["usage"]["completion_tokens"] <= 18


def test_the_log_probabilities_of_chats_and_completions_have_these_shapes(server: VllmServer) -> None:
    chatted = post(
        server, "chat/completions", messages=[{"role": "user", "content": CAPITAL}], logprobs=True, top_logprobs=2
    )
    token = chatted["choices"][0]["logprobs"]["content"][0]
    assert token["logprob"] <= 0 and len(token["top_logprobs"]) >= 2
    completed = post(server, "completions", prompt=CAPITAL, logprobs=2)["choices"][0]["logprobs"]
    assert len(completed["tokens"]) == len(completed["token_logprobs"]) == len(completed["top_logprobs"])
    assert all(value <= 0 for value in completed["token_logprobs"])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (completion, WINDOW - 1),  # with the space at its end it fills the window to the last token
        (completion, WINDOW),
        (completion, 200_000),
        (chat, WINDOW),
        (chat, 200_000),
    ],
)
async def test_a_prompt_that_leaves_no_room_is_one_items_error(client: ModelClient, ask: Any, words: int) -> None:
    with pytest.raises(ContextOverflow, match="too long for the model"):
        await client.complete(ask("word " * words, model=NAME, sampling=SHORT))


async def test_a_reply_that_reaches_the_windows_end_is_cut_there(client: ModelClient) -> None:
    reply = await client.complete(completion("word " * (WINDOW - 10), model=NAME, sampling=Sampling(max_tokens=500)))
    assert reply.prompt_tokens + reply.completion_tokens <= WINDOW


async def test_asking_for_more_than_the_window_is_an_error_of_the_run(client: ModelClient) -> None:
    with pytest.raises(ProviderError, match=f"max_tokens={WINDOW + 1} cannot be greater than max_model_len") as caught:
        await client.complete(completion("word", model=NAME, sampling=Sampling(max_tokens=WINDOW + 1)))
    assert not isinstance(caught.value, ContextOverflow)


async def test_another_models_name_is_refused(client: ModelClient) -> None:
    with pytest.raises(ProviderError, match="not found; check the URL"):
        await client.complete(chat(CAPITAL, model="another", sampling=SHORT))


async def test_the_figures_move_and_shared_beginnings_are_found_again(server: VllmServer, client: ModelClient) -> None:
    before = server.metrics()
    shared = "The river is long and the city is old. " * 60
    for ending in ("Its name is", "Its bridge is"):
        await client.complete(completion(shared + ending, model=NAME, sampling=SHORT))
    after = server.metrics()
    assert after.generation_tokens > before.generation_tokens and after.prompt_tokens > before.prompt_tokens + 1000
    assert after.prefix_cache_hits >= before.prefix_cache_hits + 256
    assert (after.running, after.waiting) == (0, 0) and after.prefix_cache_hit_rate


def test_trajectories_are_searched_for_and_the_run_verifies(server: VllmServer, tmp_path: Path) -> None:
    preset = load_preset("demo", "mcts_trajectories")
    preset["model"] |= {"url": server.base_url, "dialect": "vllm"}
    preset["generator"]["search"] |= {"max_rounds": 3, "max_calls": 16, "oracle_rollouts": 2}
    preset["retrieval"] = {"kind": "bm25"}
    path = tmp_path / "demo_on_vllm.yaml"
    path.write_text(yaml.safe_dump(preset))
    questions = ROOT / "sample_data" / "musique_style_questions.jsonl"
    words = ["mcts-trajectories", "--questions", questions, "--preset", path, "--limit", 2, "--out", tmp_path / "run"]
    done = trailforge(*words, timeout_s=800)
    assert done.code == 0, done.err
    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None and manifest.calls > 4 and manifest.completion_tokens > 0
    assert trailforge("verify", tmp_path / "run").code == 0
