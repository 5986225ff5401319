"""The same transcript is paid the same, whoever asks: data making, our training and evaluation, TRL, verl, slime."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.transcripts import PRESETS, Case, cases
from tests.support.truths import score_messages
from tests.support.turns import kg_score, text_of
from tests.training.tiny import preset
from trailforge.protocols import GRAPH_R1, R_SEARCH, REACT
from trailforge.protocols.transcripts import split_text
from trailforge.rewards import MSearcherConstants, score_answer
from trailforge.rewards.dynasearcher import PAPER
from trailforge.rewards.episode import REWARD_PRESETS, reward_preset
from trailforge.rewards.r_search import answer_reward, r_search_reward
from trailforge.schemas import RewardModel, SoughtDocument, to_dict
from trailforge.training.adapters import slime, trl, verl
from trailforge.training.trl.rl import make_pay

CASES = cases()


@dataclass
class Sample:
    """What slime's has of use here."""

    response: str
    response_length: int
    label: dict[str, Any]
    metadata: dict[str, Any]


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def direct(case: Case) -> float:
    return score_messages(case.messages, case.truth, tokens=case.tokens).total


def transcript(case: Case) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in case.turns]


def as_text(case: Case, *, marks: bool) -> str:
    """As a chat template writes it from the agent's first word on; verl's text has lost the marks, slime's has not."""
    start, end = ("<|im_start|>", "<|im_end|>") if marks else ("", "")
    said = []
    for message in case.turns:
        if message.role == "tool":
            said.append(f"{end}\n{start}user\n{message.content}{end}\n{start}assistant\n")
        else:
            said.append(message.content)
    return "".join(said) + end


def while_data_is_made(case: Case) -> float:
    """By what makes and filters the rows of each data set."""
    golds = case.truth.target
    if case.protocol == "r_search":
        answer = answer_reward(
            R_SEARCH.answer_of(case.messages), correct_options=case.truth.correct_options, golds=golds
        )
        format, dag = R_SEARCH.format_reward(case.messages), R_SEARCH.plan_reward(case.messages) or 0.0
        return r_search_reward(format=format, dag=dag, answer=answer).total
    if case.protocol == "react":
        correct = score_answer(REACT.answer_of(case.messages), golds).f1
        length = -min(max(case.tokens - 12_288, 0), 4_096) / 4_096
        return correct + length if not REACT.validate(case.messages, strict=True) else min(-1.0, correct + length - 0.2)
    assert case.run is not None
    if case.protocol == "kg_search":
        supporting = [SoughtDocument(id=title, title=title) for title in case.truth.support_titles]
        return kg_score(case.run, golds=golds, supporting=supporting, hops=case.truth.num_hops, constants=PAPER).total
    answer = score_answer(case.run.answer, golds)
    if case.protocol == "search_r1":
        return answer.exact_match
    format = GRAPH_R1.format_reward(case.messages)
    return -1.0 + format + (answer.f1 if format == 1.0 else 0.0)


def test_the_cases_are_fifty_and_of_all_sorts() -> None:
    assert Counter(case.protocol for case in CASES) == dict.fromkeys(PRESETS, 10)
    for protocol in PRESETS:
        totals = {round(direct(case), 6) for case in CASES if case.protocol == protocol}
        assert len(totals) >= (2 if protocol == "search_r1" else 4), protocol
    assert 3 <= sum(case.hides_author for case in CASES) <= 15


@every_case
def test_as_while_data_is_made(case: Case) -> None:
    assert direct(case) == pytest.approx(while_data_is_made(case), abs=1e-9)


@every_case
def test_training_and_evaluation(case: Case) -> None:
    """Which pay by the training preset, whatever the question names."""
    paid_by = REWARD_PRESETS[PRESETS[case.protocol]]
    length = paid_by.constants.max_tokens if isinstance(paid_by.constants, MSearcherConstants) else 1500
    recipe = replace(preset(rl={"max_tokens": length}), protocol=case.protocol, reward=paid_by)
    truth = replace(case.truth, reward_preset="none")
    row: Any = SimpleNamespace(question="", reward_model=SimpleNamespace(ground_truth=truth))
    episode: Any = SimpleNamespace(messages=case.messages, ids=[0] * case.tokens, run=None)
    (found,) = make_pay(recipe)([(row, episode)])
    assert found.total == pytest.approx(direct(case), abs=1e-9)


@every_case
def test_slime(case: Case) -> None:
    sample = Sample(
        response=as_text(case, marks=True),
        response_length=case.tokens,
        label=to_dict(RewardModel(style="rule", ground_truth=case.truth)),
        metadata={"transcript": transcript(case)} if case.hides_author else {},
    )
    assert asyncio.run(slime.reward(SimpleNamespace(), sample)) == pytest.approx(direct(case), abs=1e-9)
    named = SimpleNamespace(reward_preset=PRESETS[case.protocol], reward_protocol=case.protocol)
    assert asyncio.run(slime.reward(named, sample)) == pytest.approx(direct(case), abs=1e-9)


@every_case
def test_verl(case: Case) -> None:
    extra = {"index": 1, "response_tokens": case.tokens}
    known = {"transcript": transcript(case)} if case.hides_author else {}
    found = verl.compute_score("run", as_text(case, marks=False), to_dict(case.truth), extra | known)
    expected = score_messages(case.messages, case.truth, tokens=case.tokens)
    assert found.pop("score") == pytest.approx(expected.total, abs=1e-9)
    assert found == {name: pytest.approx(part or 0.0) for name, part in expected.parts.items()}


def test_trl() -> None:
    """In one batch, as TRL calls it: with the trainer's own keywords, and the columns of the data set as lists."""
    totals = trl.reward(
        prompts=[[to_dict(message) for message in case.messages[:2]] for case in CASES],
        completions=[transcript(case) for case in CASES],
        completion_ids=[[0] * case.tokens for case in CASES],
        ground_truth=[json.dumps(asdict(case.truth)) for case in CASES],
        trainer_state=None,
        log_extra=None,
        log_metric=lambda name, value: None,
    )
    assert totals == pytest.approx([direct(case) for case in CASES], abs=1e-9)


@pytest.mark.parametrize("protocol", PRESETS)
def test_trl_with_one_text_for_an_episode_and_a_preset_of_its_own(protocol: str) -> None:
    chosen = [case for case in CASES if case.protocol == protocol]
    logged: dict[str, float] = {}
    reward = trl.reward_function(PRESETS[protocol], protocol)
    totals = reward(
        prompts=[""] * len(chosen),
        completions=[as_text(case, marks=False) for case in chosen],
        completion_ids=[[0] * case.tokens for case in chosen],
        transcript=[transcript(case) if case.hides_author else None for case in chosen],
        reward_model=[{"style": "rule", "ground_truth": to_dict(case.truth)} for case in chosen],
        log_metric=logged.__setitem__,
    )
    assert totals == pytest.approx([direct(case) for case in chosen], abs=1e-9)
    rewards = [score_messages(case.messages, case.truth, tokens=case.tokens) for case in chosen]
    for name in rewards[0].parts:
        known = [part for each in rewards if (part := each.parts[name]) is not None]
        assert logged[f"reward/{name}"] == pytest.approx(sum(known) / len(known))


@every_case
def test_one_text_by_the_loops_own_segments(case: Case) -> None:
    if case.run is None or case.hides_author:
        return
    found = score_messages(split_text(text_of(case.run), case.truth.protocol), case.truth, tokens=case.tokens)
    assert found == score_messages(case.messages, case.truth, tokens=case.tokens)


def test_where_the_passages_are_known_titles_need_not_be_read() -> None:
    for case in CASES:
        if case.run is not None:
            titles = [passage.title for passage in case.run.passages]
            told = score_messages(case.messages, case.truth, tokens=case.tokens, retrieved_titles=titles)
            assert told == score_messages(case.messages, case.truth, tokens=case.tokens)


def test_presets_of_the_cases_are_known() -> None:
    assert {reward_preset(name).name for name in PRESETS.values()} == set(PRESETS.values())
