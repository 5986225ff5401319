"""Servers of RL frameworks that say what a script says, token by token; and what the episodes with them have to be."""

from __future__ import annotations

import base64
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from tests.support import finished_runs as made
from tests.support.turns import answer_turn, plan_turn
from tests.training.tiny import SAMPLE
from trailforge.protocols import PROTOCOLS, R_SEARCH, nl_dag
from trailforge.protocols.transcripts import Spoken
from trailforge.protocols.turns import Search, Turn
from trailforge.retrieval.kg import build_kg, open_source
from trailforge.schemas import PlanNode
from trailforge.training.masks import observation_ids

LOGPROB = -0.25
ANSWER = "Kourou"
"""What every agent answers."""
_PLAN = nl_dag.SearchPlan(nodes=(PlanNode(node_id="A", query="Webb launched", tool="General"),), edges=())


def searched(home: Path) -> dict[str, Any]:
    """Settings of a search over the documents and the graph of the sample, which all protocols can do."""
    build_kg(open_source(SAMPLE / "kg"), home / "kg")
    run = made.bundles_run(home / "run")
    limits = {"top_k": 2, "max_observation_tokens": 300, "max_searches": 3}
    return {
        "documents": [str(run)],
        "kind": "bm25",
        "encoder": "minilm",
        "kg": str(home / "kg"),
        "kg_filter": "first",
        **limits,
    }


def says(protocol: str, text: str) -> str:
    """The agent's next turn: it searches once and answers."""
    grammar = PROTOCOLS[protocol]
    has_result = f"</{grammar.result_tag}><|im_end|>" in text
    if protocol == R_SEARCH.name:
        return answer_turn(R_SEARCH, "", ANSWER) if has_result else plan_turn("a", _PLAN)
    if has_result:
        return grammar.render_turn(Turn(thought="b", answer=ANSWER))
    search = Search(query="Webb launched", entities=("Marie Curie",), relations=("place of birth",))
    return grammar.render_turn(Turn(thought="a", search=search))


def spelled(tokenizer: Any, text: str) -> list[int]:
    """As no tokenizer would: a token for each letter."""
    return [token for letter in text for token in tokenizer.encode(letter, add_special_tokens=False)]


def expected(tokenizer: Any, messages: Sequence[Spoken]) -> tuple[list[int], list[int]]:
    """Ids and mask after the prompt, of turns that were spelled and whose ends were put there."""
    ids: list[int] = []
    mask: list[int] = []
    for message in messages[2:]:
        if message.role == "assistant":
            letters = spelled(tokenizer, message.content)
            new, trained = [*letters, tokenizer.eos_token_id], [1] * len(letters) + [0]
        else:
            new = observation_ids(tokenizer, message.content)
            trained = [0] * len(new)
        ids, mask = ids + new, mask + trained
    return ids, mask


@dataclass
class FakeSampler:
    """Samples what the script says, and some tokens past the stop string, as servers do that look for it rarely."""

    tokenizer: Any
    protocol: str
    beyond: str = "\n\nand"
    asked: list[list[int]] = field(default_factory=list)

    def sample(self, ids: Sequence[int]) -> list[int]:
        """The continuation."""
        self.asked.append(list(ids))
        text = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        return spelled(self.tokenizer, says(self.protocol, text) + self.beyond)


class FakeServerManager:
    """As verl's, of which `generate` alone is used. No dataclass: hydra would make a configuration of it."""

    def __init__(self, sampler: FakeSampler) -> None:
        self.sampler = sampler
        self.requests: list[dict[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], **options: Any) -> Any:
        """Tokens, and their log-probabilities where they are asked for."""
        self.requests.append({"request_id": request_id, **options})
        ids = self.sampler.sample(prompt_ids)
        wanted = options["sampling_params"]["logprobs"]
        return SimpleNamespace(
            token_ids=ids,
            log_probs=[LOGPROB] * len(ids) if wanted else None,
            extra_fields={"min_global_steps": len(self.requests), "max_global_steps": len(self.requests)},
        )


@dataclass
class FakeRouter:
    """As SGLang's router, with `/generate` alone. `fails`: states of HTTP that it answers with first."""

    sampler: FakeSampler
    finish: str = "stop"
    fails: list[int] = field(default_factory=list)
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    port: int = 0
    weight_version: str = "default"

    async def answer(self, request: web.Request) -> web.Response:
        """One continuation."""
        body = await request.json()
        self.bodies.append(body)
        if self.fails:
            return web.Response(status=self.fails.pop(0), text="busy")
        ids = self.sampler.sample(body["input_ids"])
        told = {"finish_reason": {"type": self.finish}, "output_token_logprobs": [[LOGPROB, i, None] for i in ids]}
        told["weight_version"] = self.weight_version
        if (body["sampling_params"].get("custom_params") or {}).get("return_top_p_token_ids"):
            told |= nucleus(ids)
        return web.json_response({"text": "not read", "meta_info": told})


def nucleus(ids: Sequence[int]) -> dict[str, Any]:
    """What top-p left for each token: itself and the next one; as SGLang sends it."""
    kept, ends = [each for token in ids for each in (token, token + 1)], [2 * n for n in range(len(ids) + 1)]
    coded = [base64.b64encode(array("i", numbers).tobytes()).decode() for numbers in (kept, ends)]
    return dict(zip(("top_p_token_ids", "top_p_token_offsets"), coded, strict=True))


@asynccontextmanager
async def router(sampler: FakeSampler, **options: Any) -> AsyncIterator[FakeRouter]:
    """A router that listens on loopback."""
    fake = FakeRouter(sampler, **options)
    app = web.Application()
    app.router.add_post("/generate", fake.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.port = runner.addresses[0][1]
    try:
        yield fake
    finally:
        await runner.cleanup()
