"""A judge behind HTTP as a part of the reward: the same totals on every path, each answer paid for once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support import model_server
from tests.support.transcripts import Case, cases
from tests.support.truths import choice, score_messages
from tests.support.turns import answer_turn, plan_turn
from tests.training.tiny import FACTS, Scripted, documents, preset, rl_rows, training_set
from trailforge.inference.judge import JudgeConfig, Judged, ThreadSafeJudge, open_thread_safe_judge
from trailforge.presets import load_training_preset
from trailforge.protocols import R_SEARCH, nl_dag
from trailforge.protocols.environment import Environment
from trailforge.protocols.transcripts import read_transcript
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.schemas import (
    InvalidInput,
    MalformedReply,
    OutputError,
    PlanNode,
    ProviderError,
    RlRow,
    ServerUnavailable,
    to_dict,
)
from trailforge.training.adapters import slime, trl, verl
from trailforge.training.config import TrainPreset, load_train_preset
from trailforge.training.score_file import score_episodes
from trailforge.training.scoring import ToScore, scorer_of
from trailforge.training.trl.rl import make_pay, train_rl

CASES = [case for case in cases() if case.protocol == "r_search"]
QUESTION = "Where was he born?"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A judge that likes short answers, a tenth of a second each."""
    with model_server.running(judge=1, latency=0.1) as url:
        yield url


@pytest.fixture
def recipe(server: str, tmp_path: Path) -> Iterator[Path]:
    """R-Search's preset with that judge and a ledger of its own."""
    path = tmp_path / "judged.yaml"
    judge = {"url": server, "model": "scripted", "ledger": str(tmp_path / "verdicts.sqlite")}
    path.write_text(yaml.safe_dump(load_training_preset("r-search") | {"judge": judge}))
    yield path
    scorer_of.cache_clear()


def calls(server: str) -> int:
    """That the judge has answered."""
    return model_server.stats(server)["calls"]


def expected(case: Case) -> float:
    """By hand: the answer's part is one over its words where a judge is asked."""
    answer = read_transcript(case.messages, "r_search").answer
    judge = None if case.truth.correct_options else round(1 / max(1, len(answer.split())), 3)
    return score_messages(case.messages, case.truth, tokens=case.tokens, judge=judge).total


def told(case: Case) -> ToScore:
    return ToScore(messages=case.messages, truth=case.truth, question=QUESTION, tokens=case.tokens)


def transcript(case: Case) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in case.turns]


def by_trl(recipe: Path) -> list[float]:
    return trl.reward_function(str(recipe))(
        prompts=[""] * len(CASES),
        completions=[transcript(case) for case in CASES],
        ground_truth=[json.dumps(asdict(case.truth)) for case in CASES],
        question=[QUESTION] * len(CASES),
    )


def by_verl(recipe: Path) -> list[float]:
    """Whose reward loop calls the function on threads."""

    async def all_at_once() -> list[dict[str, float]]:
        return await asyncio.gather(*(asyncio.to_thread(one, case) for case in CASES))

    def one(case: Case) -> dict[str, float]:
        extra = {"question": QUESTION, "transcript": transcript(case)}
        return verl.compute_score("run", "", to_dict(case.truth), extra, preset=str(recipe))

    return [found["score"] for found in asyncio.run(all_at_once())]


def by_slime(recipe: Path) -> list[float]:
    arguments = SimpleNamespace(reward_preset=str(recipe))

    async def all_at_once() -> list[float]:
        return await asyncio.gather(*(slime.reward(arguments, sample) for sample in samples))

    samples: list[Any] = [
        SimpleNamespace(
            response="",
            response_length=case.tokens,
            label={"style": "rule", "ground_truth": to_dict(case.truth)},
            metadata={"question": QUESTION, "transcript": transcript(case)},
        )
        for case in CASES
    ]
    return asyncio.run(all_at_once())


def by_training(recipe: Path) -> list[float]:
    """And by evaluation, which pays in the same way."""
    played: list[Any] = [
        (
            SimpleNamespace(question=QUESTION, reward_model=SimpleNamespace(ground_truth=case.truth)),
            SimpleNamespace(messages=case.messages, ids=[0] * case.tokens, run=None),
        )
        for case in CASES
    ]
    return [reward.total for reward in make_pay(load_train_preset(str(recipe)))(played)]


def by_file(recipe: Path) -> list[float]:
    scorer = scorer_of(str(recipe))
    path = recipe.with_name("episodes.jsonl")
    lines = [
        {"messages": transcript(case), "ground_truth": to_dict(case.truth), "question": QUESTION} for case in CASES
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert scorer.preset is not None
    return [row.reward.total for row in score_episodes(path, scorer.preset, judge=scorer.judge)]


def test_every_path_pays_the_same_and_asks_once(recipe: Path, server: str) -> None:
    totals = [expected(case) for case in CASES]
    before = calls(server)
    found = [reward.total for reward in scorer_of(str(recipe)).score([told(case) for case in CASES])]
    assert found == pytest.approx(totals) and len(set(totals)) >= 4
    answers = {
        read_transcript(case.messages, "r_search").answer for case in CASES if not case.truth.correct_options
    } - {""}
    assert calls(server) - before == len(answers) >= 2
    assert model_server.stats(server)["most_busy"] >= 2  # all at once
    for path in (by_trl, by_verl, by_slime, by_training, by_file):
        assert path(recipe) == pytest.approx(totals), path.__name__
    assert calls(server) - before == len(answers)


def test_threads_that_ask_at_once_share_a_desk(recipe: Path) -> None:
    """verl's reward loop is many threads; a judge each would be a client each, and `max_in_flight` for each."""
    config = load_train_preset(str(recipe)).judge
    assert config is not None
    start = threading.Barrier(8)

    def ask(number: int) -> ThreadSafeJudge:
        start.wait(timeout=120)
        return open_thread_safe_judge(config)

    with ThreadPoolExecutor(8) as threads:
        judges = list(threads.map(ask, range(8)))
    for shared in judges:
        shared.close()
    assert len(set(map(id, judges))) == 1


def test_another_process_finds_the_verdicts(recipe: Path, server: str) -> None:
    config = load_train_preset(str(recipe)).judge
    assert config is not None
    judged = Judged(question=QUESTION, answer="somewhere quite new", golds=CASES[0].truth.target)
    before = calls(server)
    for _ in range(2):
        shared = ThreadSafeJudge(config)
        assert shared.score(judged).result(timeout=120) == 0.333
        shared.close()
        shared.close()
    assert calls(server) - before == 1


def test_the_question_may_stand_in_the_conversation(recipe: Path) -> None:
    """As it was asked, without how to answer; without it a judge cannot be asked."""
    case = next(case for case in CASES if not case.truth.correct_options)
    scorer = scorer_of(str(recipe))
    asked = next(message.content for message in case.messages if message.role == "user")
    whole = replace(told(case), question=None)
    assert scorer.score([whole]) == scorer.score([replace(whole, question=R_SEARCH.question_of(asked))])
    assert R_SEARCH.question_of(R_SEARCH.user_turn("Who?")) == "Who?"
    with pytest.raises(InvalidInput, match="a judge has to know it") as refused:
        scorer.score([replace(whole, messages=case.turns)])
    assert refused.value.field == "question"


def test_failures_keep_their_kind(recipe: Path, server: str, tmp_path: Path) -> None:
    """A judge that refuses, that cannot keep to its form, that is not there: never a score."""
    scorer = scorer_of(str(recipe))
    open_case = next(case for case in CASES if not case.truth.correct_options)
    fresh = replace(told(open_case), question="Another question?")
    model_server.fail_next(server, {"status": 401, "body": {"error": {"message": "who are you?"}}})
    with pytest.raises(ProviderError, match="TRAILFORGE_API_KEY"):
        scorer.score([fresh])
    assert scorer.judge is not None
    curt = replace(scorer, judge=replace(scorer.judge, max_tokens=1))
    with pytest.raises(MalformedReply, match="judge"):
        curt.score([replace(fresh, question="A third?")])
    gone = replace(scorer.judge, url="http://127.0.0.1:9/v1")
    learnt = replace(_plan_recipe(recipe), judge=gone)
    rows = training_set(tmp_path / "set", rl=_plan_rows())
    with pytest.raises(ServerUnavailable):
        _trained(rows, learnt, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_choices_are_not_judged(recipe: Path, server: str) -> None:
    case = CASES[0]
    before = calls(server)
    truth = replace(choice(), protocol="r_search", reward_preset="r-search")
    chosen = replace(told(case), truth=truth)
    unasked = replace(chosen, messages=case.turns, question=None)  # nor does anybody have to know the question
    for found in scorer_of(str(recipe)).score([chosen, unasked]):
        assert found == score_messages(case.messages, truth)
    assert calls(server) == before


def test_training_is_paid_by_the_judge(recipe: Path, server: str, tiny_model: Path, tmp_path: Path) -> None:
    """What it decides is kept: a training does not go on with another rubric, but with another server."""
    rows = training_set(tmp_path / "set", rl=_plan_rows())
    learnt = _plan_recipe(recipe)
    _trained(rows, learnt, tiny_model, tmp_path / "out")
    figures = json.loads((tmp_path / "out" / "training.json").read_text())
    # Each group: half of the answers one word (1.0), half four (0.25); form and plan are right.
    assert figures["rewards"] == pytest.approx([0.5 + 0.5 * (1 + 0.25) / 2])
    rubric = tmp_path / "rubric.txt"
    rubric.write_text("{{question}} {{reference}}\nAnswer: {{answer}}\n\n")
    assert learnt.judge is not None
    others = replace(learnt, judge=replace(learnt.judge, rubric=str(rubric)))
    with pytest.raises(OutputError, match=r"other settings \(judge\)"):
        _trained(rows, others, tiny_model, tmp_path / "out", resume=True)
    moved = replace(learnt, judge=replace(learnt.judge, max_in_flight=3, timeout_s=9.0))
    _trained(rows, moved, tiny_model, tmp_path / "out", resume=True)


PLAN = nl_dag.SearchPlan(nodes=(PlanNode(node_id="A", query="Webb launched", tool="General"),), edges=())


def _plan_rows() -> list[RlRow]:
    return rl_rows("r_search")[:2]


def _plan_recipe(recipe: Path) -> TrainPreset:
    """A short training with R-Search's reward and the judge."""
    paid = load_train_preset(str(recipe))
    return replace(preset(), protocol="r_search", reward=paid.reward, judge=paid.judge)


def _answering(text: str, number: int) -> str:
    answer = next(fact[1] for fact in FACTS if fact[0] in text)
    if "Node A (" not in text:
        return plan_turn("a", PLAN)
    return answer_turn(R_SEARCH, "", answer.split()[0] if number % 2 else "four words of answer")


def _trained(rows: Path, learnt: TrainPreset, model: Path, out: Path, *, resume: bool = False) -> None:
    train_rl(
        rows,
        learnt,
        out,
        environment=Environment(plan_tools={"General": Bm25Retriever(documents())}, top_k=1),
        base_model=str(model),
        resume=resume,
        max_steps=1,
        open_generator=lambda trainer: Scripted(trainer.processing_class, _answering),
    )


@pytest.mark.parametrize(
    ("judge", "field", "problem"),
    [
        ({"url": "http://x/v1"}, "judge.model", "missing"),
        ({"url": " ", "model": "m"}, "judge.url", "empty"),
        ({"url": "http://x/v1", "model": "m", "max_tokens": 0}, "judge.max_tokens", "more than 0"),
        ({"url": "http://x/v1", "model": "m", "key": "secret"}, "judge.key", "unknown"),
    ],
)
def test_a_judge_that_cannot_be_is_named(tmp_path: Path, judge: dict[str, Any], field: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(load_training_preset("r-search") | {"judge": judge}))
    with pytest.raises(InvalidInput, match=problem) as refused:
        load_train_preset(str(path))
    assert refused.value.field == field
    path.write_text(yaml.safe_dump(load_training_preset("msearcher") | {"judge": {"url": "http://x", "model": "m"}}))
    with pytest.raises(InvalidInput, match="msearcher has no judge"):
        load_train_preset(str(path))


def test_a_rubric_needs_its_three_places(tmp_path: Path) -> None:
    path = tmp_path / "rubric.txt"
    config = JudgeConfig(url="http://x/v1", model="m", rubric=str(path))
    with pytest.raises(InvalidInput, match="cannot be read"):
        ThreadSafeJudge(config)
    path.write_text("{{question}} {{reference}}")
    with pytest.raises(InvalidInput, match=r"no place \{\{answer\}\}"):
        ThreadSafeJudge(config)
