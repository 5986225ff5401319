"""What a model answers decides: what it knows, what it needs, and how often a guess would have been as good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from tests.support.bundle_questions import BUNDLE, PAPER, STREET, FakeReader, choice, question
from trailforge.filters.answers import AnswerJudgeOptions, AnswerScorer
from trailforge.filters.bundle_readings import (
    BundleFilterConfig,
    MeasuredQuestion,
    closed_book,
    closed_book_draws,
    fewer_documents_suffice,
    guess_rate,
    hits_needed,
    judge_question,
    not_answerable,
    right_draws_needed,
    smaller_sets,
)
from trailforge.inference.judge import Judged
from trailforge.schemas import BundleInput, BundleQuestion, InvalidInput, SourceDocument, Verdict

BOTH = ("news:1", "arxiv:2")
ITEM = BundleInput(id=BUNDLE.uid, bundle=BUNDLE, documents=(STREET, PAPER))
SINGLE = choice("B", options=4, kind="single_choice")
TWO_SIDED = question(question="Who designed the turbine of the Orkney mill, Mara or Ida?", answer="Mara")
MULTIPLE = choice("A", "B", "C")


class ScriptedReader:
    """Says what a table says of a set of documents, draw by draw; the last again and again."""

    def __init__(self, **says: Sequence[str | None]) -> None:
        """`memory`, `news`, `arxiv`, `both`: replies."""
        self._says = says
        self.asked: list[str] = []

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """The next reply."""
        name = {0: "memory", 2: "both"}.get(len(documents)) or documents[0].source
        self.asked.append(name)
        return self._says[name][min(sample, len(self._says[name]) - 1)]


def asked(row: BundleQuestion, reader: FakeReader | ScriptedReader, **config: object) -> MeasuredQuestion:
    return MeasuredQuestion(row=row, reader=reader, config=BundleFilterConfig(**config), scorer=AnswerScorer())  # type: ignore[arg-type]


async def read_by(reader: FakeReader) -> list[Verdict]:
    """Verdicts of the filters that read documents, on the sound question."""
    verdicts = await judge_question(question(), ITEM, reader, BundleFilterConfig())
    return [verdict for verdict in verdicts if verdict.reason in ("not_answerable", "fewer_documents_suffice")]


async def test_a_sound_question_passes_and_the_cheapest_is_asked_first() -> None:
    reader = FakeReader(*BOTH)
    verdicts = await judge_question(question(), ITEM, reader, BundleFilterConfig())
    assert [v.reason for v in verdicts if not v.keep] == []
    assert [v.reason for v in verdicts][-3:] == ["closed_book", "fewer_documents_suffice", "not_answerable"]
    assert reader.asked == [(), (), ("arxiv:2",), ("news:1",), BOTH], "and the last hop's document before the others"


async def test_a_known_question_is_read_from_no_document() -> None:
    reader = FakeReader(*BOTH, knows=range(3))
    (*_, last) = await judge_question(question(), ITEM, reader, BundleFilterConfig())
    assert (last.reason, last.keep, last.score) == ("closed_book", False, 1.0) and reader.asked == [(), ()]


@pytest.mark.parametrize(
    ("says", "keep", "score", "draws"),
    [
        (["x", "y", "University of Bergen"], True, 0.0, 2),
        (["University of Bergen", "y", "UNKNOWN"], True, 0.333333, 3),
        (["University of Bergen", "y", "at the University of Bergen"], False, 0.666667, 3),
        (["University of Bergen"], False, 1.0, 2),
        ([None, "x", "y"], True, 0.0, 3),
        ([None, None, "x"], False, 0.0, 3),
        ([None, "University of Bergen", "y"], False, 0.5, 3),
        (["UNKNOWN", "University of Bergen"], True, 0.0, 1),
    ],
)
async def test_half_of_the_draws_that_know_it_reject_and_draws_stop_once_that_is_decided(
    says: list[str | None], keep: bool, score: float, draws: int
) -> None:
    reader = ScriptedReader(memory=says)
    verdict = await closed_book(asked(question(), reader))
    assert (verdict.keep, verdict.score, len(reader.asked)) == (keep, score, draws)
    assert ("no verdict" in verdict.detail) == (None in says and not keep)


@pytest.mark.parametrize(
    ("row", "says", "keep", "draws"),
    [
        (SINGLE, ["C"], True, 2),
        (SINGLE, ["B", "C"], True, 3),
        (SINGLE, ["B", "B", "UNKNOWN"], True, 4),
        (SINGLE, ["B", "C", "B"], False, 5),
        (SINGLE, ["UNKNOWN", "B"], True, 1),
        (SINGLE, ["B"], False, 4),
        (MULTIPLE, ["A, B, C"], False, 2),
        (MULTIPLE, ["A, B"], True, 2),
        (choice("A", "C", "D", "E"), ["A, C, E"], True, 2),
    ],
)
async def test_of_options_more_right_draws_are_asked_for(
    row: BundleQuestion, says: list[str], keep: bool, draws: int
) -> None:
    reader = ScriptedReader(memory=says)
    verdict = await closed_book(asked(row, reader))
    assert (verdict.keep, len(reader.asked)) == (keep, draws)


@pytest.mark.parametrize("chance", [0.0, 1 / 31, 0.2, 0.25, 0.5])
def test_of_what_a_model_knows_in_seven_of_ten_draws_no_more_than_a_third_stays(chance: float) -> None:
    """By the draws themselves: every sequence of right and wrong ones, as often as it comes."""
    config = BundleFilterConfig()
    draws = closed_book_draws(chance, config)
    needed = hits_needed(draws, chance, config)

    def found(right: float) -> float:
        ways = Counter(sum(hits) for hits in product((0, 1), repeat=draws))
        return sum(
            count * right**hits * (1 - right) ** (draws - hits) for hits, count in ways.items() if hits >= needed
        )

    assert found(0.7 + 0.3 * chance) >= 2 / 3 and found(chance) <= config.most_chance
    assert draws == 3 or hits_needed(3, chance, config) == 3


def test_draws_are_as_many_as_is_said_where_that_is_wanted() -> None:
    assert closed_book_draws(0.25, BundleFilterConfig(most_known_kept=1)) == 3
    assert closed_book_draws(0.25, BundleFilterConfig(closed_book_samples=0)) == 0


async def test_without_draws_nothing_is_asked() -> None:
    reader = FakeReader(*BOTH)
    assert (await closed_book(asked(question(), reader, closed_book_samples=0))).keep and reader.asked == []


@pytest.mark.parametrize(
    ("needed", "reason", "score"),
    [
        (BOTH, None, 1.0),
        (("news:1",), "fewer_documents_suffice", 1.0),
        (("else:3",), "not_answerable", 0.0),
    ],
)
async def test_all_documents_suffice_and_no_single_one_does(
    needed: tuple[str, ...], reason: str | None, score: float
) -> None:
    verdicts = await read_by(FakeReader(*needed))
    assert [v.reason for v in verdicts if not v.keep] == ([reason] if reason else [])
    assert verdicts[-1].score == score


async def test_reading_stops_at_the_first_set_that_suffices() -> None:
    reader = FakeReader("arxiv:2")
    assert not (await fewer_documents_suffice(asked(question(), reader), [STREET, PAPER])).keep
    assert reader.asked == [("arxiv:2",)] * 2


async def test_one_right_reply_from_fewer_documents_may_be_a_guess() -> None:
    reader = ScriptedReader(news=["UNKNOWN"], arxiv=["University of Bergen", "University of Oslo"])
    verdict = await fewer_documents_suffice(asked(question(), reader), [STREET, PAPER])
    assert verdict.keep and verdict.score == 0.5 and reader.asked == ["arxiv", "arxiv", "news"]
    assert not (await fewer_documents_suffice(asked(question(), reader, right_reads=1), [STREET, PAPER])).keep


@pytest.mark.parametrize(
    ("row", "memory", "both", "alone", "reasons", "reads"),
    [
        (SINGLE, "C", ["B"], ["C"], [], 2 + 3),
        (SINGLE, "C", ["B", "B", "C"], ["C"], ["not_answerable"], 2 + 3),
        (SINGLE, "C", ["B"], ["B", "B", "UNKNOWN"], [], 6 + 3),
        (SINGLE, "C", ["B"], ["B"], ["fewer_documents_suffice"], 3),
        (TWO_SIDED, "Ida", ["Mara"], ["Ida"], [], 2 + 6),
        (TWO_SIDED, "Ida", ["Mara"], ["Mara"], ["fewer_documents_suffice"], 6),
        (MULTIPLE, "A", ["A, B, C"], ["A, B, C", "A"], [], 4 + 2),
        (MULTIPLE, "A", ["A, B, C", "A, B"], ["A"], ["not_answerable"], 2 + 2),
        # Who says that it does not know guesses from all documents no more; from fewer it is asked to.
        (SINGLE, "UNKNOWN", ["B"], ["C"], [], 2 + 2),
        (SINGLE, "UNKNOWN", ["B"], ["B", "UNKNOWN"], [], 4 + 2),
        (TWO_SIDED, "UNKNOWN", ["Mara"], ["UNKNOWN"], [], 2 + 2),
        (TWO_SIDED, "UNKNOWN", ["Mara"], ["Mara"], ["fewer_documents_suffice"], 6),
    ],
)
async def test_what_a_guess_could_be_is_read_again(
    row: BundleQuestion, memory: str, both: list[str], alone: list[str], reasons: list[str], reads: int
) -> None:
    reader = ScriptedReader(memory=[memory], both=both, news=alone, arxiv=alone)
    verdicts = await judge_question(row, ITEM, reader, BundleFilterConfig())
    assert [v.reason for v in verdicts if not v.keep] == reasons
    assert len([name for name in reader.asked if name != "memory"]) == reads


async def test_verdicts_carry_how_right_the_replies_were() -> None:
    reader = ScriptedReader(both=["A, B, C, D"], news=["A, B, D"], arxiv=["D"])
    whole = await not_answerable(asked(MULTIPLE, reader), [STREET, PAPER])
    assert not whole.keep and whole.score == pytest.approx(6 / 7)
    part = await fewer_documents_suffice(asked(MULTIPLE, reader), [STREET, PAPER])
    assert part.keep and part.score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("needed", "cut", "reason", "detail"),
    [
        (BOTH, BOTH, "not_answerable", "no verdict: the reading was cut"),
        (BOTH, ("news:1",), "fewer_documents_suffice", "no verdict: the reading was cut of news:1"),
        (("arxiv:2",), ("news:1",), "fewer_documents_suffice", "give it"),
    ],
)
async def test_a_reading_that_was_cut_shows_nothing(
    needed: tuple[str, ...], cut: tuple[str, ...], reason: str, detail: str
) -> None:
    verdicts = await read_by(FakeReader(*needed, cut=[cut]))
    (rejecting,) = [verdict for verdict in verdicts if not verdict.keep]
    assert rejecting.reason == reason and detail in rejecting.detail


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ({"both": 1.0, "news": 0.4, "arxiv": 0.7}, None),
        ({"both": 0.7, "news": 0.4, "arxiv": 0.4}, "not_answerable"),
        ({"both": 1.0, "news": 0.95, "arxiv": 0.4}, "fewer_documents_suffice"),
        ({"both": None, "news": 0.4, "arxiv": 0.4}, "not_answerable"),
    ],
)
async def test_explanations_are_judged(scores: dict[str, float | None], reason: str | None) -> None:
    async def judge(judged: Judged) -> float | None:
        return scores[judged.answer]

    scorer = AnswerScorer(judge=judge, options=AnswerJudgeOptions(free_answers=True))
    reader = ScriptedReader(memory=["UNKNOWN"], both=["both"], news=["news"], arxiv=["arxiv"])
    row = question(type="causal", answer="The blades turn even in slow water", key_facts=("slow water",))
    verdicts = await judge_question(row, ITEM, reader, BundleFilterConfig(), scorer)
    assert [v.reason for v in verdicts if not v.keep] == ([reason] if reason else [])


async def test_half_known_explanations_are_not_known_but_their_score_says_it() -> None:
    """Of two key facts the model knows one at each draw."""
    facts = ("blades turn in slow water", "drawn in 1911")
    row = question(type="causal", answer=" and ".join(facts), key_facts=facts)
    memory = ["The blades turn in slow water"]
    reader = ScriptedReader(memory=memory, both=[row.answer], news=["UNKNOWN"], arxiv=["UNKNOWN"])
    verdicts = {verdict.reason: verdict for verdict in await judge_question(row, ITEM, reader, BundleFilterConfig())}
    assert all(verdict.keep for verdict in verdicts.values())
    assert verdicts["closed_book"].score == 0.5


@pytest.mark.parametrize("facts", [(), ("slow water", "magnets lose their force in salt water")])
async def test_an_explanation_is_rejected_unasked_without_key_facts_or_with_one_it_does_not_say(
    facts: tuple[str, ...],
) -> None:
    row = question(type="causal", answer="The blades turn even in slow water", key_facts=facts)
    verdicts = await judge_question(
        row, ITEM, ScriptedReader(memory=[], both=[], news=[], arxiv=[]), BundleFilterConfig()
    )
    assert [verdict.reason for verdict in verdicts if not verdict.keep] == ["no_key_facts"]
    assert verdicts[-1].reason == "stale_document"


def test_every_single_document_is_tried_and_every_set_that_lacks_one_where_that_is_asked_for() -> None:
    four = [replace(STREET, id=str(n)) for n in range(4)]
    sets = [tuple(d.id for d in part) for part in smaller_sets(four, leave_one_out=True)]
    assert sorted(sets) == sorted({*((str(n),) for n in range(4)), ("0", "1", "2"), ("0", "1", "3"), ("0", "2", "3"),
                                   ("1", "2", "3")})  # fmt: skip
    assert [len(smaller_sets(four[:n], leave_one_out=True)) for n in (1, 2, 3)] == [0, 2, 6]
    assert [len(smaller_sets(four[:n])) for n in (1, 2, 3, 4)] == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("correct", "replies", "reads", "keep"),
    [
        ("ACDE", ["A, C, E", "A, C, E"], ["arxiv", "news"], True),  # a part of the key is wrong for an agent, too
        ("ABC", ["A, B, D"], ["arxiv", "news"], True),
        ("ACDE", ["A, C, D, E", "A, C, E"], ["arxiv", "arxiv", "news"], True),
        ("ACDE", ["A, C, D, E"], ["arxiv", "arxiv"], False),
        ("BE", ["B, E"], ["arxiv", "arxiv"], False),
    ],
)
async def test_one_document_suffices_where_its_reader_has_all_right_options_and_no_other(
    correct: str, replies: list[str], reads: list[str], keep: bool
) -> None:
    reader = ScriptedReader(arxiv=replies, news=["UNKNOWN"])
    verdict = await fewer_documents_suffice(asked(choice(*correct), reader), (STREET, PAPER))
    assert (verdict.keep, reader.asked) == (keep, reads)


def test_a_guess_between_two_sides_is_right_half_of_the_time() -> None:
    sides = "Which model has fewer parameters, FUSION or snnTrans-DHZ?"
    assert [guess_rate(question(question=sides, answer=side)) for side in ("snnTrans-DHZ", "FUSION", "DHZ")] == [
        0.5, 0.5, 0,
    ]  # fmt: skip
    listed = "Which yard got most from the fund of 2021, Visby, Kalmar or the Ystad yard?"
    answers = ("Visby", "Kalmar", "Ystad yard", "Malmö")
    assert [guess_rate(question(question=listed, answer=side)) for side in answers] == [0.5, 0.5, 0.5, 0]


@pytest.mark.parametrize(
    ("row", "one_in", "draws"),
    [
        (question(), None, 1),
        (SINGLE, 4, 3),
        (choice("B", options=5, kind="single_choice"), 5, 3),
        (choice("A", "B", "C", options=5), 10 + 10 + 5, 2),
        (MULTIPLE, 15 + 20 + 15 + 6, 1),
        (choice("A", "B", "C", options=7), 21 + 35 + 35 + 21, 1),
    ],
)
def test_a_guess_is_right_as_often_as_there_are_sets_to_choose(
    row: BundleQuestion, one_in: int | None, draws: int
) -> None:
    chance = guess_rate(row)
    assert chance == (1 / one_in if one_in else 0.0)
    assert right_draws_needed(chance, 0.02) == draws


@pytest.mark.parametrize(
    ("samples", "chance", "needed"),
    [(3, 0.0, 2), (3, 0.25, 3), (4, 0.25, 4), (5, 0.25, 4), (3, 1 / 56, 2), (2, 0.25, 2)],
)
def test_known_is_what_is_right_more_often_than_a_guesser_gets(samples: int, chance: float, needed: int) -> None:
    assert hits_needed(samples, chance, BundleFilterConfig()) == needed


@pytest.mark.parametrize(
    "wrong", [{"known_rate": 0.0}, {"most_chance": 1.5}, {"closed_book_samples": -1}, {"right_reads": 0}]
)
def test_settings_that_decide_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="has to be"):
        BundleFilterConfig(**wrong)  # type: ignore[arg-type]
