"""A key in the URL of a server: refused wherever one is given, with the mend, and repeated nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from trailforge.cli import app
from trailforge.evaluation.corpora import read_source
from trailforge.flows.configuration import configuration_of
from trailforge.inference import ClientConfig
from trailforge.inference.provider.urls import check_server_url, find_key, find_key_in_text, without_keys
from trailforge.inference.thread_safe import ServedModel
from trailforge.pipelines.dataset import resolve
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.config import ModelConfig, read_config
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.retrieval import RetrievalConfig
from trailforge.retrieval.encoders.embeddings import split_served
from trailforge.retrieval.service.client import connect
from trailforge.schemas import InvalidInput, TrailforgeError, to_dict
from trailforge.training.trl.rl import VllmOptions

SECRET = "hunter2hunter2"
HOLDING = [
    *(
        f"http://{user}@host:8000/v1"
        for user in (f"user:{SECRET}", SECRET, f":{SECRET}", f"u:a,{SECRET}", f"u:a/{SECRET}")
    ),
    *(f"http://{user}@host/v1" for user in (f"u:a#{SECRET}", f"u:a?{SECRET}", f"u@x:{SECRET}", f"u:%40{SECRET}")),
    f"user:{SECRET}@host/v1",
    f"//user:{SECRET}@host/v1",
    f"HTTPS://user:{SECRET}@host",
    *(
        f"https://host/v1?{name}={SECRET}"
        for name in (
            *("api_key", "api-key", "apikey", "apiKey", "API_KEY", "api%5Fkey", "key", "k", "token", "access_token"),
            *("auth", "authorization", "password", "pwd", "pass", "client_secret", "subscription-key", "X-API-Key"),
            *("Ocp-Apim-Subscription-Key", "sig", "X-Amz-Signature", "code", "jwt", "api-version=1&key", "a=b;token"),
        )
    ),
    f"https://host/v1#api_key={SECRET}",
    f"https://host/v1?x=sk-{SECRET}",
    f"https://host/v1?sk-{SECRET}",
    f"https://host/sk-{SECRET}/v1",
    f"https://host/v1?x={SECRET}{SECRET}{SECRET}",
    f"http://one:8000/v1, http://user:{SECRET}@two:8000/v1",
    f"http://one:8000/v1,http://two:8000/v1?token={SECRET}",
]
FREE = [
    "http://127.0.0.1:8000/v1",
    "https://name.openai.azure.com/openai/deployments/gpt-4o?api-version=2024-10-21",
    "https://gateway.example/v1/account/workers-ai/@cf/meta/llama-3",
    "http://[::1]:8000/@cf",
    "http://10.0.0.5:8000/v1#Qwen/Qwen3-Embedding-0.6B",
    "http://10.0.0.5:8990/?corpus=wiki",
    "https://host/v1?tenant=550e8400-e29b-41d4-a716-446655440000&route=eu-2&max_tokens=5",
    "http://one:8000/v1,http://two:8000/v1",
    "embedded",
    "checkpoints/run@7:best",
]


@pytest.mark.parametrize("url", HOLDING)
def test_a_key_is_found_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput, match="set TRAILFORGE_API_KEY") as refused:
        check_server_url(url, "url")
    assert SECRET not in str(refused.value) and refused.value.field == "url"


@pytest.mark.parametrize("url", FREE)
def test_what_is_no_key_passes(url: str) -> None:
    check_server_url(url, "url")
    assert without_keys(url) == url


@pytest.mark.parametrize(
    ("give", "mend"),
    [
        (lambda url: ModelConfig(url=url), "TRAILFORGE_API_KEY"),
        (lambda url: ClientConfig(base_url=url, model="m"), "TRAILFORGE_API_KEY"),
        (lambda url: ServedModel(url=url, model="m"), "TRAILFORGE_API_KEY"),
        (lambda url: split_served(f"{url}#m"), "TRAILFORGE_API_KEY"),
        (lambda url: RetrievalConfig(kind="dense", encoder=f"{url}#m"), "TRAILFORGE_API_KEY"),
        (lambda url: RetrievalConfig(kind=url), "without one"),
        (lambda url: RetrievalConfig(scope="corpus", corpus_index=url), "without one"),
        (lambda url: RetrievalConfig(kind="web", web_url=url), "TAVILY_API_KEY"),
        (lambda url: EnvironmentConfig(kind="web", web_url=url), "TAVILY_API_KEY"),
        (connect, "without one"),
        (lambda url: read_source(f"live={url}", {}), "without one"),
        (lambda url: read_source(url, {}), "without one"),
        (lambda url: VllmOptions(server=url), "without one"),
        (lambda url: configuration_of(load_dataset("mcts_trajectories"), "demo", url), "TRAILFORGE_API_KEY"),
    ],
)
@pytest.mark.parametrize("url", [f"http://u:{SECRET}@host/v1", f"http://host/v1?api_key={SECRET}"])
def test_every_place_refuses_one(give: Callable[[str], Any], mend: str, url: str) -> None:
    with pytest.raises(InvalidInput, match=mend) as refused:
        give(url)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["mcts-trajectories", "--questions", "q.jsonl", "--preset", "demo", "--out", "o", "--model"],
        ["preview", "mcts-trajectories", "--questions", "q.jsonl", "--preset", "demo", "--model"],
        ["kg-trajectories", "--questions", "q.jsonl", "--kg", ".", "--out", "o", "--retrieval"],
        ["evaluate", "q.jsonl", "--agent", "react", "--backend", "bm25", "--out", "e", "--model"],
        ["evaluate", "q.jsonl", "--agent", "react", "--backend", "bm25", "--out", "e", "--judge"],
        ["evaluate", "q.jsonl", "--agent", "kg_search", "--backend", "bm25", "--out", "e", "--kg"],
        ["evaluate", "q.jsonl", "--agent", "react", "--out", "e", "--backend"],
        ["index", "build", "c.jsonl", "--backend", "hippo_rag", "--out", "i", "--model"],
        ["index", "build", "c.jsonl", "--backend", "dense", "--out", "i", "--encoder"],
        ["serve-search", "--web", "--web-url"],
        ["serve-search"],
        ["doctor", "--model"],
    ],
)
@pytest.mark.parametrize("url", [f"http://u:{SECRET}@127.0.0.1:9/v1", f"http://127.0.0.1:9/v1?api_key={SECRET}"])
def test_no_command_takes_or_shows_one(
    arguments: list[str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text('{"id": "a", "question": "Who?", "answer": "Ann"}\n')
    Path("c.jsonl").write_text('{"id": "a", "title": "T", "text": "Ann it is."}\n')
    given = f"{url}#m" if arguments[-1] in ("--judge", "--encoder") else url
    result = CliRunner().invoke(app, [*arguments, given])
    assert result.exit_code != 0 and isinstance(result.exception, TrailforgeError | typer.BadParameter | SystemExit)
    shown = f"{result.output} {result.exception}"
    assert SECRET not in shown and "holds a key" in shown, shown
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")]
    assert not kept


def test_a_run_of_before_is_read_without_its_key() -> None:
    dataset = load_dataset("mcts_trajectories")
    content = to_dict(configuration_of(dataset, "demo", "http://host/v1"))
    content["model"]["url"] = f"http://u:{SECRET}@host/v1?api_key={SECRET}&api-version=1,http://two/v1"
    read = read_config(resolve(dataset.config), without_keys(content), source="run.json")
    assert read.model.url == "http://host/v1?api-version=1,http://two/v1"


def test_a_text_is_searched_for_such_urls() -> None:
    config = '{"model": "{\\"url\\": \\"http://host/v1?api_key=' + SECRET + '\\"}"}'
    assert find_key_in_text(config) == "in the parameter apikey"
    assert find_key_in_text("See https://host/v1?api-version=1 and <https://example.org/page?id=4>.") is None


@given(st.text(alphabet="htp:/?#&;=@[]u1k.,% -", max_size=60).map("http://{}".format) | st.text(max_size=60))
def test_any_text_has_an_answer_and_a_form_without_a_key(text: str) -> None:
    found = find_key(text)
    assert found is None or isinstance(found, str)
    if found is None:
        assert without_keys(text) == text or "," in text
    elif text.startswith(("http://", "https://")):
        assert find_key(without_keys(text)) is None or "," in text
