"""Verify a run of bundles: bundle its documents again, and apply again every filter that needs no model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from trailforge.filters.answers import AnswerScorer
from trailforge.filters.bundle_episodes import gold_in_episode, unfounded_thought
from trailforge.filters.bundles import judge_unread
from trailforge.generators import select_stage
from trailforge.generators.document_bundles import search_thoughts
from trailforge.generators.document_bundles.bundling.duplicates import exact_key
from trailforge.generators.document_bundles.bundling.measures import cohesion
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.episode_rows import derive_fields, episode_sft_row
from trailforge.generators.document_bundles.planned_episodes import against, planner_of
from trailforge.generators.document_bundles.stages import cleaning, episodes, grouping, questions, selection
from trailforge.generators.document_bundles.stages.selection import order_rows
from trailforge.generators.document_bundles.write import complexity_of
from trailforge.pipelines import INPUTS
from trailforge.pipelines.runs import RowChecks
from trailforge.protocols import R_SEARCH, one_line
from trailforge.protocols.nl_dag import SearchPlan
from trailforge.schemas import (
    AnswerScoredBy,
    Bundle,
    BundleInput,
    BundleQuestion,
    DocumentEmbedding,
    RejectedRow,
    SearchEpisode,
    SftRow,
    SourceDocument,
    SourceKind,
)

_NEAR = 1e-5
"""Cosines of the same float32 vectors, summed in another order."""


class BundleRowChecks(RowChecks):
    """Checks that each document is in one place, that bundles agree with their links, and that filters and order admit
    each question. Memory holds the vectors, and all bundles with their documents and questions.
    """

    config: BundleRunConfig

    def check(self) -> None:
        """Check the run and add what is found to the report."""
        self._id_of: dict[bytes, str] = {}
        self._vectors: dict[str, np.ndarray] = {}
        self._homes: dict[str, str] = {}
        self._kinds: set[SourceKind] = set()
        self._inputs: dict[str, BundleInput] = {}
        self._held: dict[str, SourceDocument] = {}
        self._candidates: dict[str, BundleQuestion] = {}
        for name in self.names():
            self.accepted["read"] += sum(1 for _ in self.rows(INPUTS, name, SourceDocument))
            self.accepted["near_duplicates"] += self._check_documents(name)
            self.accepted[grouping.EMBED] += self._check_embeddings(name)
        for name in self.names():
            self._check_bundles(name)
        for name in self.names():
            self._check_texts(name)
            self._check_leftovers(name)
            self.accepted["filter"] += self._check_candidates(name)
            self.count_rejected(name)
        self.accepted[select_stage.NAME] += self._check_order()
        self._check_episodes()
        self.check_books()

    def _check_documents(self, name: str) -> int:
        count = 0
        for document in self.rows(cleaning.TABLE, name, SourceDocument):
            count += 1
            self._kinds.add(document.kind)
            twin = self._id_of.setdefault(exact_key(document.title, document.text), document.id)
            if twin != document.id:
                self.problem(name, document.id, f"the same text as {twin}")
        return count

    def _check_embeddings(self, name: str) -> int:
        count = 0
        for row in self.rows(grouping.EMBEDDINGS, name, DocumentEmbedding):
            count += 1
            vector = np.array(row.vector, np.float32)
            if abs(float(np.linalg.norm(vector)) - 1) > 1e-3:
                self.problem(name, row.document_id, "its vector is not of length 1")
            self._vectors[row.document_id] = vector
        return count

    def _check_bundles(self, name: str) -> None:
        inputs = {item.id: item for item in self.rows(grouping.INPUTS, name, BundleInput)}
        self._inputs |= inputs
        self._held |= {document.id: document for item in inputs.values() for document in item.documents}
        for bundle in self.rows(grouping.TABLE, name, Bundle):
            self.accepted[grouping.NAME] += len(bundle.document_ids)
            for problem in self._bundle_problems(bundle, inputs.get(bundle.uid)):
                self.problem(name, bundle.uid, problem)

    def _bundle_problems(self, bundle: Bundle, item: BundleInput | None) -> Iterator[str]:
        if not 2 <= len(bundle.document_ids) <= 4:
            yield f"{len(bundle.document_ids)} documents"
            return
        if item is not None and len({document.origin for document in item.documents}) < 2:
            yield "one source"
        if item is not None and bundle.origins and bundle.origins != tuple(each.origin for each in item.documents):
            yield "its origins are not those of its documents"
        for document_id in bundle.document_ids:
            home = self._homes.setdefault(document_id, bundle.uid)
            if home != bundle.uid:
                yield f"its document {document_id} is in bundle {home} too"
        missing = [name for name in bundle.document_ids if name not in self._vectors]
        if missing:
            yield f"document {missing[0]} has no vector"
            return
        found = cohesion(np.stack([self._vectors[name] for name in bundle.document_ids]))
        if abs(found - bundle.cohesion) > _NEAR:
            yield f"cohesion {bundle.cohesion}, its vectors say {found:.6f}"
        if item is None or item.bundle != bundle or _named(item) != (bundle.document_ids, bundle.sources):
            yield "its documents are not what questions were made of"

    def _check_texts(self, name: str) -> None:
        """What questions were made of are the documents of the run."""
        for document in self.rows(cleaning.TABLE, name, SourceDocument):
            if self._held.get(document.id, document) != document:
                self.problem(name, document.id, "it is not the document that questions were made of")

    def _check_leftovers(self, name: str) -> None:
        for row in self.rows("rejected", name, RejectedRow):
            if row.stage == grouping.NAME and row.uid in self._homes:
                self.problem(name, row.uid, f"rejected as {row.reason}, and in bundle {self._homes[row.uid]}")

    def _check_candidates(self, name: str) -> int:
        count = 0
        for row in self.rows(questions.TABLE, name, BundleQuestion):
            count += 1
            self._candidates[row.uid] = row
            for problem in self._candidate_problems(row, self._inputs.get(row.bundle_id)):
                self.problem(name, row.uid, problem)
        return count

    def _candidate_problems(self, row: BundleQuestion, item: BundleInput | None) -> Iterator[str]:
        if item is None:
            yield f"its bundle {row.bundle_id!r} is not there"
            return
        documents = {document.id: document for document in item.documents}
        verdicts = judge_unread(row, item.bundle, documents, since=self.config.filters.since)
        against = [verdict for verdict in verdicts if not verdict.keep]
        for verdict in against:
            yield f"filter {verdict.reason} rejects it: {verdict.detail}"
        failed = [score.name for score in row.filters if not score.passed]
        if failed:
            yield f"its row says that {failed[0]} rejects it"
        if any(verdict.reason == "invalid_plan" for verdict in against):
            return  # a plan without an order has no depth
        known = next((score.score for score in row.filters if score.name == "closed_book"), 0.0)
        if row.complexity != complexity_of(row, item.documents, known):
            yield f"complexity {row.complexity} is not what follows from the row"

    def _check_order(self) -> int:
        """The selected questions are candidates, in the order of their curriculum."""
        rows = [row for name in self.names() for row in self.rows(selection.TABLE, name, BundleQuestion)]
        for row in rows:
            if not _is_from(row, self._candidates.get(row.uid)):
                self.problem(selection.TABLE, row.uid, "it is not what the filters left in `candidates/`")
        if rows != order_rows(rows, self.config.selection.stages):
            self.problem(selection.TABLE, "curriculum", "the rows are not in the order of their complexity and stage")
        return len(rows)

    def _check_episodes(self) -> None:
        """Rewards from the conversations, and SFT rows from the episodes."""
        is_web = self.config.tools.kind == "web"
        self._planner = planner_of(self.config.episodes, None if is_web else self._kinds)
        asked = {row.uid: row for name in self.names() for row in self.rows(selection.TABLE, name, BundleQuestion)}
        for name in self.names():
            for episode in self.rows(episodes.TABLE, name, SearchEpisode):
                self.accepted[episodes.NAME] += 1
                self.accepted[episodes.DRAW] += 1
                for problem in self._episode_problems(episode, asked.get(episode.question_id)):
                    self.problem(name, episode.uid, problem)
            made = map(episode_sft_row, self.stored_rows(episodes.TABLE, name, SearchEpisode))
            differs, missing = "this SFT row is not what its episode gives", "this SFT row of an episode is missing"
            self.check_made(episodes.SFT, name, made, SftRow, differs, missing)

    def _episode_problems(self, episode: SearchEpisode, row: BundleQuestion | None) -> Iterator[str]:
        if row is None:
            yield f"its question {episode.question_id!r} is not there"
            return
        verdict = against(episode, row, self.config.episodes)
        if verdict is not None:
            yield f"filter {verdict.reason} rejects it: {verdict.detail}"
        score, by = self._score_of(episode, row)
        made = dict(derive_fields(episode.messages, row, score))
        made["gold_in_queries"] = gold_in_episode(episode, row, most=1.0).score
        different = next((name for name, value in made.items() if getattr(episode, name) != value), None)
        if different:
            yield f"{different} is not what follows from its question and conversation"
        elif episode.messages[:2] != self._planner.opening(episode.question):
            yield "its conversation asks another question, or by other rules"
        elif by != episode.scored_by:
            yield f"its answer is scored by {episode.scored_by}, and should be by {by}"
        elif problem := self._thought_problem(episode, row):
            yield problem

    def _score_of(self, episode: SearchEpisode, row: BundleQuestion) -> tuple[float, AnswerScoredBy]:
        """Of its answer, and what says so. A judge is not asked again: what it said stands in the row."""
        answer = R_SEARCH.answer_of(episode.messages)
        if episode.origin == "oracle":
            return float(answer == one_line(row.asked().golds[0])), "options" if row.options else "matching"
        score, by = asyncio.run(AnswerScorer().score(row, answer))
        is_free, judge = row.type == "causal", self.config.judge
        is_judged = judge.free_answers if is_free else judge.near_misses
        if episode.scored_by == "judge" and is_judged and not score:
            return episode.reward.answer, "judge"
        return score or 0.0, by

    def _thought_problem(self, episode: SearchEpisode, row: BundleQuestion) -> str | None:
        """It is what the templates say; of a gold plan also what the filter of worded thoughts keeps."""
        plan = SearchPlan(nodes=episode.plan_nodes, edges=episode.plan_edges)
        if episode.thoughts == "templates":
            seed = f"{episode.provenance.seed}:{row.uid}"
            is_told = episode.thought == search_thoughts.think(row, plan, seed=seed)
            return None if is_told else "its thought is not what the templates say"
        if episode.origin == "policy":
            return None
        verdict = unfounded_thought(episode.thought, row, plan, max_words=self.config.episodes.thoughts.max_words)
        return None if verdict.keep else f"filter {verdict.reason} rejects its thought: {verdict.detail}"


def _named(item: BundleInput) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids and sources of its documents."""
    return tuple(document.id for document in item.documents), tuple(document.source for document in item.documents)


def _is_from(row: BundleQuestion, candidate: BundleQuestion | None) -> bool:
    """Whether a selected question is this candidate, with a stage and the scores of the selection."""
    if candidate is None:
        return False
    count = len(candidate.filters)
    before = replace(row, curriculum_stage=candidate.curriculum_stage, filters=row.filters[:count])
    added = [score.name for score in row.filters[count:] if score.passed]
    return before == candidate and added == ["duplicate_question", "contaminated"]
