"""Bundles of abstracts and posts with a strong model's replies: what production prompts and filters make of them.

The replies were given by people who saw the prompts alone. Selection is left out: it wants an encoder, and it rejected
none of the questions. The plans of the episodes search all documents of the run.

- `strong_model_bundles`: five bundles of 250 abstracts, at two questions a bundle and two draws of an episode, without
  an editor.
- `strong_model_edited`: 26 bundles by lot of those that the preset makes of 1,831 abstracts, 362 posts and 217 reports,
  with an editor. Who wrote, who edited, who read and who answered from memory of before 2019 were four. The writers'
  replies are of a run whose prompt told them less of wording.
- `bundle_questions` (`tests/recorded`): eight bundles of releases of the US Congress of April 2026, those of two runs
  that a draft came of. Whoever replied judged the rows later, too: all four accepted questions need both documents and
  have one answer, two are natural and two fairly so; all four rejections are right. A fifth, the same as one of them
  with options, is left out.
- `read_bundles` (`tests/recorded`): eight bundles of releases of 2021 and of papers. One wrote, one edited and read,
  one answered from memory, and one saw questions without documents; a strict reader judged the rows afterwards.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.strong_model import StrongModel, read_recording
from trailforge.filters.answers import names_two_sides
from trailforge.filters.bundles import judge_unread
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.planned_episodes import EpisodeContext, planner_of
from trailforge.generators.document_bundles.stages.episodes import episode_of
from trailforge.generators.document_bundles.stages.questions import questions_of
from trailforge.generators.document_bundles.write import BundleContext, draft_row
from trailforge.inference import Request
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import load_preset
from trailforge.retrieval import open_tools
from trailforge.schemas import Bundle, BundleInput, BundleQuestion, SourceDocument

FOLDER = Path(__file__).parent
RELEASES = Path(__file__).parents[2] / "recorded" / "bundle_questions.json.gz"
"""{"runs": [{"documents": {id: fields}, "bundles" and "questions" as below}, …]}"""
READ = RELEASES.with_name("read_bundles.json.gz")
"""{"documents": {id: fields}, "bundles" and "questions" as below, "rejected_in_error": {uid: a draft}}"""
RECORDING = FOLDER / "strong_model_bundles.json.gz"
"""{"documents": ids in the data set, "bundles": {uid: ids}, "questions" and "episodes": [[purpose, what was asked,
number of the draw, reply, thoughts], …]}"""


def what_is_asked(request: Request) -> str:
    """What a prompt asks but for its fixed text: titles of the documents shown, the question, the plan, the answer."""
    assert not isinstance(request.prompt, str)
    turns = [turn.content for turn in request.prompt]
    if request.purpose == "write":
        return "\n".join(_titles(turns[0]))
    if request.purpose == "read":
        return "\n".join([*_titles(turns[0]), turns[0].rpartition("\nQuestion: ")[2]])
    if request.purpose == "mend":
        return turns[0].rpartition("\nQuestion: ")[2].partition("\n\nWrite another question ")[0]
    if request.purpose == "asked":
        return turns[0].partition("\nQuestion: ")[2].partition("\n\nIt trains ")[0]
    if request.purpose == "review":
        return turns[0].partition("\nQuestion (")[2].partition("\n\nQuotes ")[0]
    if request.purpose == "closed_book":
        return turns[0].rpartition("\nQuestion: ")[2]
    if request.purpose == "grade":
        return "\n".join(re.findall(r"^(?:Question|Reference answer|Answer): .*$", turns[0], re.MULTILINE))
    if request.purpose == "thought":
        return turns[0].partition("\nQuestion: ")[2].partition("\n\nReply ")[0]
    question = turns[1].partition(" Put the final answer")[0]
    if request.purpose == "plan":
        return question
    return "\n".join([question, turns[2], *re.findall(r"^Title: .*$", turns[3], re.MULTILINE)])


def _titles(shown: str) -> list[str]:
    return re.findall(r"^\[\d+\] (.*) \((?:Academic|News), .*\)$", shown, re.MULTILINE)


def production_config() -> BundleRunConfig:
    """The preset of today."""
    return read_config(BundleRunConfig, load_preset("r-search", "document_bundles"), source="r-search")


def edited_config() -> BundleRunConfig:
    """The preset of recordings that asked nobody but an editor beside its readers."""
    config = production_config()
    filters = replace(config.filters, asked=False, halves=False)
    return replace(config, writer=replace(config.writer, questions_per_bundle=3, mends=0), filters=filters)


def earlier_config() -> BundleRunConfig:
    """The preset, but for the questions of a bundle and the draws of the recording, which knew no editor.

    Draws ended with the first that is kept and clean, whatever words of titles its queries have; nobody was asked to
    word the thought of one that ended them. Without documents, questions with options were asked no more often than
    others.
    """
    config = production_config()
    writer, episodes = (
        replace(config.writer, questions_per_bundle=2, mends=0),
        replace(
            config.episodes,
            samples=2,
            most_gold=1.0,
            thoughts=replace(config.episodes.thoughts, source="templates"),
        ),
    )
    filters = replace(config.filters, review=False, asked=False, halves=False, most_known_kept=1)
    return replace(config, writer=writer, episodes=episodes, filters=filters)


@pytest.fixture(scope="module")
def recording() -> dict[str, Any]:
    return read_recording(RECORDING)


@pytest.fixture(scope="module")
def documents(data_dir: Path, recording: dict[str, Any]) -> dict[str, SourceDocument]:
    """By id in the data set, in the order of the run."""
    abstracts = read_abstracts(data_dir)
    return {name: abstracts[name] for name in recording["documents"]}


def read_abstracts(data_dir: Path) -> dict[str, SourceDocument]:
    """All of them, by id in the data set."""
    return {
        row["id"]: SourceDocument(
            id=f"{row['primary_category']}:{row['id']}",
            source=row["primary_category"],
            kind="academic",
            title=row["title"],
            text=row["abstract"],
            published=row["listed_date"],
        )
        for row in _rows_of_file(data_dir / "arxiv" / "arxiv_2025_04_06.jsonl.gz")
    }


def read_news(data_dir: Path) -> dict[str, SourceDocument]:
    """Posts and reports, each a source by itself."""
    return {
        row["id"]: SourceDocument(
            id=f"{source}:{row['id']}",
            source=source,
            kind="news",
            title=row["title"],
            text=row["text"],
            published=row["date"],
            is_own_source=True,
        )
        for name, source in (("digitalgov_2010_2025", "Digital.gov"), ("wikinews_2019_2020", "Wikinews"))
        for row in _rows_of_file(data_dir / "news" / f"{name}.jsonl.gz")
    }


def _rows_of_file(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def bundle_of(uid: str, documents: Sequence[SourceDocument]) -> BundleInput:
    bundle = Bundle(
        uid=uid,
        document_ids=tuple(document.id for document in documents),
        sources=tuple(document.source for document in documents),
        cohesion=0.0,
        theme="",
    )
    return BundleInput(id=uid, bundle=bundle, documents=tuple(documents))


async def questions_by(
    model: StrongModel, recording: dict[str, Any], documents: dict[str, SourceDocument], config: BundleRunConfig
) -> list[ItemResult]:
    context, bundles = context_of(model, config), bundles_of(recording, documents)
    return [await questions_of(bundle, context, config) for bundle in bundles]


def context_of(model: StrongModel, config: BundleRunConfig) -> BundleContext:
    return BundleContext(
        run_id="r",
        model=config.model.name,
        preset="r-search",
        seed=config.seed,
        prices=config.model.prices,
        config=config.writer,
        client=model,
        judge=config.judge,
    )


def bundles_of(recording: dict[str, Any], documents: dict[str, SourceDocument]) -> list[BundleInput]:
    return [bundle_of(uid, [documents[name] for name in names]) for uid, names in recording["bundles"].items()]


async def episodes_by(
    model: StrongModel,
    questions: Sequence[BundleQuestion],
    documents: dict[str, SourceDocument],
    config: BundleRunConfig,
) -> list[ItemResult]:
    context = EpisodeContext(
        run_id="r",
        seed=config.seed,
        config=config.episodes,
        tools=open_tools(config.tools, list(documents.values())),
        planner=planner_of(config.episodes, {document.kind for document in documents.values()}),
        judge=config.judge,
        model=config.model.name,
        client=model,
    )
    return [await episode_of(question, context, config) for question in questions]


def rows_of(results: Sequence[ItemResult], table: str) -> list[Any]:
    return [row for result in results for row in result.rows[table]]


async def test_the_questions_of_a_strong_model(recording: dict[str, Any], documents: dict[str, SourceDocument]) -> None:
    model = StrongModel(recording["questions"], what_is_asked)
    results = await questions_by(model, recording, documents, earlier_config())
    assert model.check_all_used() == {"write": 5, "read": 17, "closed_book": 10, "grade": 7}
    accepted, rejected = rows_of(results, "candidates"), rows_of(results, "rejected")
    assert Counter(row.type for row in accepted) == {"factual": 2, "causal": 1, "single_choice": 1}
    assert Counter((row.stage, row.reason) for row in rejected) == {
        ("filter", "closed_book"): 1,  # two of three draws know why, from the names alone
        ("write", "no_question"): 1,  # vision transformers for cells and for plants: nothing else joins them
    }


async def test_the_episodes_of_a_strong_model(recording: dict[str, Any], documents: dict[str, SourceDocument]) -> None:
    written = await questions_by(
        StrongModel(recording["questions"], what_is_asked), recording, documents, earlier_config()
    )
    model = StrongModel(recording["episodes"], what_is_asked)
    results = await episodes_by(model, rows_of(written, "candidates"), documents, earlier_config())
    assert model.check_all_used() == {"plan": 4, "answer": 4, "grade": 1}
    episodes = rows_of(results, "episodes")
    assert [(row.origin, row.thoughts, row.evidence_found, row.reward.total) for row in episodes] == [
        ("policy", "templates", 1.0, 1.0),  # its own guesses what is in the papers
        *[("policy", "model", 1.0, 1.0)] * 3,
    ]
    assert not rows_of(results, "rejected"), "each first draw is clean"


async def test_an_edited_run_of_a_strong_model(data_dir: Path) -> None:
    recording = read_recording(FOLDER / "strong_model_edited.json.gz")
    documents = read_abstracts(data_dir) | read_news(data_dir)
    model = StrongModel(recording["questions"], what_is_asked)
    results = await questions_by(model, recording, documents, edited_config())
    assert model.check_all_used() == {"write": 26, "review": 19, "closed_book": 12, "read": 25, "grade": 2}
    accepted, rejected = rows_of(results, "candidates"), rows_of(results, "rejected")
    assert Counter(row.type for row in accepted) == {"factual": 8}
    assert Counter(row.reason for row in rejected) == {"no_question": 10, "poor_question": 10, "closed_book": 1}
    written = "".join(reply for purpose, _, _, reply, *_ in recording["questions"] if purpose == "write")
    assert sum(row.question not in written for row in accepted) == 7, "all but one in the editor's words"


async def test_questions_over_releases_are_taken_and_turned_away_as_a_reader_judged_them() -> None:
    accepted, rejected, calls = [], [], Counter[str]()
    for run in read_recording(RELEASES)["runs"]:
        documents = {id: SourceDocument(id=id, kind="news", **fields) for id, fields in run["documents"].items()}
        model = StrongModel(run["questions"], what_is_asked)
        results = await questions_by(model, run, documents, edited_config())
        calls += model.check_all_used()
        accepted += rows_of(results, "candidates")
        rejected += [(row.reason, row.detail) for row in rows_of(results, "rejected")]
    assert calls == {"write": 8, "review": 8, "closed_book": 9, "read": 16, "grade": 2}
    assert [row.answer for row in accepted] == [
        "John Curtis",
        "Chris Coons and Jack Reed",  # a reader's "Chris Coons, Jack Reed" is right without a judge
        "Critical Connections: Preserving Mobility for Rural Economies",
        "Chuck Schumer",
    ]
    whys = ["Klobuchar, Kaine and Warnock", "one_document: Document 2", "outdated data", "personal defense lawyer"]
    reasons = ["fewer_documents_suffice", "poor_question", "fewer_documents_suffice", "closed_book"]
    assert [reason for reason, _ in rejected] == reasons
    assert [why in detail for why, (_, detail) in zip(whys, rejected, strict=True)] == [True] * 4


async def test_questions_over_releases_and_papers_that_a_strict_reader_judged() -> None:
    recording = read_recording(READ)
    model = StrongModel(recording["questions"], what_is_asked)
    results = await questions_by(model, recording, documents_of(recording), production_config())
    calls = {"write": 8, "mend": 5, "review": 11, "asked": 11, "closed_book": 28, "read": 29, "grade": 1}
    assert model.check_all_used() == calls
    would_train_on = {
        "Hawai‘i": "yes",
        "Marilyn Strickland's": "weakly",  # two rounded figures of districts that nobody compares
        "88.64": "no",  # a riddle: "whichever of the treebanks …", which its judge is told of only since
        "180 hours": "weakly",  # its description fits the workshop of the next year as well
    }
    assert [row.answer for row in rows_of(results, "candidates")] == list(would_train_on)
    whys = [  # the reader found each of them right
        ("unasked_question", "Michigan's 7th and Massachusetts's 3rd have nothing to do with each other"),
        ("unasked_question", "The building in which she said it is a detail"),
        ("closed_book", "10 of 10 draws know it"),
        ("fewer_documents_suffice", "D07-1066 give it: '49'"),
        ("fewer_documents_suffice", "D07-1066 give it: '30 categories'"),
        ("fewer_documents_suffice", "W08-1007 give it: '75.60 (TüBa-D/Z)'"),
        ("unasked_question", "no_way_in: That sparsified covariance matrices"),
    ]
    rejected = rows_of(results, "rejected")
    assert sorted(row.reason for row in rejected) == sorted(reason for reason, _ in whys)
    for reason, why in whys:
        assert sum(row.reason == reason and why in row.detail for row in rejected) == 1, why


async def test_drafts_that_a_rule_rejected_in_error_are_not_rejected_by_rules_any_more() -> None:
    """As `calculated`, for the 10 of a district's name, and `answer_given_away`, in a comparison."""
    recording, config = read_recording(READ), production_config()
    documents, context = documents_of(recording), context_of(StrongModel([], what_is_asked), config)
    rows = []
    for bundle in bundles_of(recording, documents):
        if draft := recording["rejected_in_error"].get(bundle.id):
            rows.append(draft_row(draft, 0, bundle, context))
            verdicts = judge_unread(rows[-1], bundle.bundle, documents, since=config.filters.since)
            assert [verdict.reason for verdict in verdicts if not verdict.keep] == []
    assert [row.answer for row in rows] == ["the 10th", "the Jackson Police Department"]
    assert all(map(names_two_sides, rows)), "a reader guesses right half of the time"


def documents_of(recording: dict[str, Any]) -> dict[str, SourceDocument]:
    return {id: SourceDocument(id=id, **fields) for id, fields in recording["documents"].items()}
