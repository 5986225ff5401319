"""Files of the version before are read; a class may be renamed, and no file changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from tests.schemas.test_arrow import RECORDS
from trailforge.pipelines.runs.finish import MANIFEST, read_manifest
from trailforge.retrieval.backends import PLAIN
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleQuestion,
    ContrastivePair,
    InvalidInput,
    KgQuestion,
    KgTrajectory,
    Manifest,
    PreferenceRow,
    Question,
    RlRow,
    SearchEpisode,
    SearchTree,
    SftRow,
    SourceDocument,
    Trajectory,
    from_stored,
    is_read,
    iter_parquet,
    read_columns,
    read_parquet,
    stored_name,
    version_of,
    write_parquet,
)
from trailforge.schemas.agent_episode import AgentEpisode, AgentTrajectory
from trailforge.schemas.versions import CALLED_PLAIN, Earlier, migration, rename_back_end

BEFORE = Path(__file__).parent / "before"
"""Files that were written by the version before, and stay as they are."""
OBSERVATIONS = BEFORE / "observation-1.0.parquet"
"""Of a record `id`, `text`, `note`, `schema_version`, with two rows."""


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    """What no list of names can say: a text becomes its words."""
    text = row.pop("text")
    return migration(removed=("note",))(row) | {"words": text.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """`Observation` of today: called otherwise, `text` is `body`, `note` went, `language` came."""

    STORED_AS: ClassVar[str] = "Observation"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {
        "1.0": migration(renamed={"text": "body"}, added={"language": "de"}, removed=("note",))
    }

    id: str
    body: str
    language: str
    seen: int = 1
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The same, migrated by a function."""

    STORED_AS: ClassVar[str] = "Observation"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": _cut}

    id: str
    words: tuple[str, ...]
    schema_version: str = SCHEMA_VERSION


NOW = [Sighting(id="a", body="two words", language="de"), Sighting(id="b", body="", language="de")]


def test_every_reader_reads_a_file_of_the_version_before() -> None:
    stored = pq.read_table(OBSERVATIONS)
    assert stored.schema.metadata[b"trailforge.version"] == b"1.0" and "text" in stored.column_names
    assert read_parquet(OBSERVATIONS, Sighting) == NOW
    assert [row for batch in iter_parquet(OBSERVATIONS, Sighting) for row in batch] == NOW
    assert read_columns(OBSERVATIONS, Sighting, ["body", "seen"]).to_pylist() == [
        {"body": "two words", "seen": 1},
        {"body": "", "seen": 1},
    ]
    assert [row.words for row in read_parquet(OBSERVATIONS, Words)] == [("two", "words"), ()]


def test_what_is_written_again_is_of_now(tmp_path: Path) -> None:
    write_parquet(tmp_path / "now.parquet", Sighting, read_parquet(OBSERVATIONS, Sighting))
    assert pq.read_schema(tmp_path / "now.parquet").metadata[b"trailforge.version"] == b"1.1"
    assert read_parquet(tmp_path / "now.parquet", Sighting) == NOW
    assert read_columns(tmp_path / "now.parquet", Sighting, ["language"]).to_pylist() == [{"language": "de"}] * 2


def test_json_of_the_version_before_is_read_and_of_no_other() -> None:
    stored = {"id": "a", "text": "two words", "note": "x", "schema_version": "1.0"}
    assert from_stored(Sighting, stored, source="f") == NOW[0]
    for version, mend in (("0.9", "make it again"), ("1.2", "upgrade trailforge"), (None, "make it again")):
        with pytest.raises(InvalidInput, match=rf"f: Observation .*reads 1.0, 1.1: {mend}"):
            from_stored(Sighting, stored | {"schema_version": version}, source="f")
    with pytest.raises(InvalidInput, match="expected an object"):
        from_stored(Sighting, [stored], source="f")


def test_a_migration_that_does_not_fit_the_file_names_it_and_the_field(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pq.read_table(OBSERVATIONS).drop_columns(["text"]), path)
    with pytest.raises(InvalidInput, match="missing in Sighting") as caught:
        read_parquet(path, Sighting)
    assert caught.value.field == "body" and caught.value.file == path


def test_only_the_name_and_the_versions_that_are_read_pass() -> None:
    assert is_read(Sighting, "Observation", "1.1") and is_read(Sighting, "Observation", "1.0")
    assert not is_read(Sighting, "Sighting", "1.1") and not is_read(Sighting, "Observation", "0.9")


def test_a_manifest_of_the_version_before_is_read_as_one_of_now(tmp_path: Path) -> None:
    stored = (BEFORE / "manifest-1.1.json").read_bytes()
    (tmp_path / MANIFEST).write_bytes(stored)
    found = read_manifest(tmp_path)
    assert found is not None and json.loads(stored)["schema_version"] == "1.1" and "card" not in json.loads(stored)
    assert found.card == () and found.schema_version == version_of(Manifest) and found.calls == 4


def test_a_manifest_without_roles_is_read_with_those_of_its_data_set(tmp_path: Path) -> None:
    stored = (BEFORE / "manifest-1.2.json").read_bytes()
    (tmp_path / MANIFEST).write_bytes(stored)
    found = read_manifest(tmp_path)
    assert found is not None and json.loads(stored)["schema_version"] == "1.2"
    assert [(each.table, each.role, each.protocol) for each in found.schema_versions] == [
        ("inputs", "questions", "react")
    ]


def test_a_manifest_of_before_purposes_were_counted_is_read_without_them(tmp_path: Path) -> None:
    stored = (BEFORE / "manifest-1.3.json").read_bytes()
    (tmp_path / MANIFEST).write_bytes(stored)
    found = read_manifest(tmp_path)
    assert found is not None and json.loads(stored)["schema_version"] == "1.3"
    assert found.calls_by_purpose == () and found.calls == 4 and found.schema_versions[0].role == "questions"


def test_each_version_that_is_still_read_has_a_stored_file() -> None:
    """Whoever raises a version keeps a file of the one before here; that is what proves its migration."""
    for record in RECORDS:
        for version in getattr(record, "EARLIER", ()):
            name, _, number = f"{stored_name(record)} {version}".rpartition(" ")
            assert list(BEFORE.glob(f"{name.split()[-1].lower()}-{number}.*")), f"{name} {number}"
        for path in BEFORE.glob(f"{stored_name(record).lower()}-*.parquet"):
            assert read_parquet(path, record)


def test_stored_names_are_declared_by_each_record_and_unique() -> None:
    assert all("STORED_AS" in vars(record) for record in RECORDS)
    assert len({stored_name(record) for record in RECORDS}) == len(RECORDS)


def test_renaming_a_class_changes_no_file(tmp_path: Path) -> None:
    renamed = make_dataclass("Asked", [], bases=(Question,), frozen=True, kw_only=True)
    values: dict[str, Any] = {"id": "q", "question": "Who?", "answer": "A"}
    write_parquet(tmp_path / "a", Question, [Question(**values)])
    write_parquet(tmp_path / "b", renamed, [renamed(**values)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_parquet(tmp_path / "b", Question) == [Question(**values)]


@pytest.mark.parametrize(
    ("name", "record", "added"),
    [
        (
            "trajectory",
            Trajectory,
            {"thoughts": "templates", "judge_score": None, "follows_gold": None, "spans": (), "error_source": None},
        ),
        ("searchtree", SearchTree, {}),
        ("sftrow", SftRow, {"spans": (), "error_source": None}),
        ("bundlequestion", BundleQuestion, {"aliases": (), "key_facts": (), "as_of": ""}),
        ("sourcedocument", SourceDocument, {"is_own_source": False}),
    ],
)
def test_rows_of_runs_before_are_read_with_what_they_did_not_say(
    name: str, record: type, added: dict[str, object]
) -> None:
    row = read_parquet(BEFORE / f"{name}-1.0.parquet", record)[0]
    assert getattr(row, "schema_version", version_of(record)) == version_of(record)
    assert {field: getattr(row, field) for field in added} == added


def test_links_before_do_not_say_what_their_documents_share() -> None:
    (item,) = read_parquet(BEFORE / "bundleinput-1.3.parquet", BundleInput)
    (link,) = item.bundle.links
    assert link.cosine == 0.5 and link.names == ("norlin",)
    assert link.shared is None and link.copied is None
    (bundle,) = read_parquet(BEFORE / "bundle-1.2.parquet", Bundle)
    assert bundle.links == (link,) and bundle.askable == 3


@pytest.mark.parametrize(
    ("record", "version"),
    [
        *((Trajectory, "1.2"), (SftRow, "1.1"), (BundleQuestion, "1.1"), (SearchEpisode, "1.1")),
        *((KgTrajectory, "1.1"), (KgQuestion, "1.0")),
    ],
)
def test_rows_before_do_not_say_what_found_their_passages(record: type, version: str) -> None:
    path = BEFORE / f"{stored_name(record).lower()}-{version}.parquet"
    assert "retriever" not in str(pq.read_schema(path).field("provenance").type)
    assert {row.provenance.retriever for row in read_parquet(path, record)} == {""}


def test_episodes_of_agents_before_were_of_no_training() -> None:
    rows = read_parquet(BEFORE / "agentepisode-1.0.parquet", AgentEpisode)
    (verified,) = read_parquet(BEFORE / "agenttrajectory-1.0.parquet", AgentTrajectory)
    assert len(rows) == 2 and {row.schema_version for row in rows} == {version_of(AgentEpisode)}
    assert {row.training for row in (*rows, verified.episode)} == {None}


def test_rows_before_searched_what_is_called_plain_now() -> None:
    """A paper's name stood for what was built without a model."""
    for version in ("1.0", "1.1"):
        rows = read_parquet(BEFORE / f"agentepisode-{version}.parquet", AgentEpisode)
        stored = pq.read_table(BEFORE / f"agentepisode-{version}.parquet", columns=["backend"])["backend"].to_pylist()
        assert [row.backend for row in rows] == [CALLED_PLAIN.get(name, name) for name in stored] and stored
    for version in ("1.0", "1.1", "1.2"):
        episode = {"backend": "graph_rag", "question": "q"}
        renamed = AgentTrajectory.EARLIER[version]({"uid": "u", "episode": episode})
        assert renamed == {"uid": "u", "episode": episode | {"backend": "graph_rag_plain"}}
    assert rename_back_end({"backend": "dense", "index": "i"}) == {"backend": "dense", "index": "i"}
    of_an_index = {"backend": "raptor", "index": "i"}
    assert rename_back_end(of_an_index)["backend"] == "raptor or raptor_plain", "it is not known who built it"
    for version in ("1.0", "1.1"):
        assert ContrastivePair.EARLIER[f"AgentPair {version}"]({"backend": "raptor"}) == {"backend": "raptor_plain"}
    assert CALLED_PLAIN == PLAIN


def test_episodes_before_had_thoughts_of_the_model_where_the_model_drew_them() -> None:
    told, drawn = read_parquet(BEFORE / "searchepisode-1.0.parquet", SearchEpisode)
    assert (told.origin, told.thoughts, told.scored_by) == ("oracle", "templates", "words")
    assert (drawn.origin, drawn.thoughts, drawn.schema_version) == ("policy", "model", version_of(SearchEpisode))


def test_mistakes_before_were_provoked_where_the_rollout_tells() -> None:
    rows = read_parquet(BEFORE / "trajectory-1.3.parquet", Trajectory)
    assert [(row.uid, row.error_source) for row in rows] == [
        ("u1", None),
        ("u2", "provoked"),  # its answer was drawn again
        ("u3", "provoked"),  # its query was put in other words
        ("u4", None),  # nothing is known of a plain one
    ]
    assert {row.schema_version for row in rows} == {version_of(Trajectory)}
    assert not any(step.is_provoked for row in rows for step in row.steps)
    assert {row.error_source for row in read_parquet(BEFORE / "sftrow-1.2.parquet", SftRow)} == {None}


def test_a_tree_before_has_no_thoughts_and_no_kept_prefix() -> None:
    (tree,) = read_parquet(BEFORE / "searchtree-1.0.parquet", SearchTree)
    assert {(rollout.base, rollout.judge_score) for rollout in tree.rollouts} == {(None, None)}
    assert {step.reasoning for rollout in tree.rollouts for step in rollout.steps} == {""}
    (tree,) = read_parquet(BEFORE / "searchtree-1.1.parquet", SearchTree)
    assert {step.from_memory for rollout in tree.rollouts for step in rollout.steps} == {False}


def test_pairs_before_do_not_say_whether_they_part_at_the_fault() -> None:
    (stored,) = read_parquet(BEFORE / "preferencerow-1.0.parquet", PreferenceRow)
    (pair,) = read_parquet(BEFORE / "agentpair-1.0.parquet", ContrastivePair)
    assert stored.parts_at_fault is pair.parts_at_fault is None
    assert stored.shows_fault, "its worse end is one turn"


def test_pairs_of_agents_and_of_graphs_before_are_read_as_the_one_record_of_now() -> None:
    (of_agent,) = read_parquet(BEFORE / "agentpair-1.1.parquet", ContrastivePair)
    (of_graph,) = read_parquet(BEFORE / "contrastivepair-1.0.parquet", ContrastivePair)
    assert {of_agent.schema_version, of_graph.schema_version} == {version_of(ContrastivePair)}
    assert (of_agent.agent, of_agent.protocol, of_agent.backend) == ("search_r1", "search_r1", "bm25")
    assert of_agent.provenance is not None and of_agent.provenance.call_keys and of_agent.bad_answer
    assert of_agent.good_reward is of_agent.bad_reward is None and of_agent.origin == "policy"
    assert of_graph.good_reward is not None and of_graph.provenance is None and of_graph.bad_answer == ""
    told = [pair.preference("d", "kg_search") for pair in (of_agent, of_graph)]
    assert [(row.protocol, row.parts_at_fault) for row in told] == [
        ("search_r1", of_agent.parts_at_fault),
        ("kg_search", True),
    ]
    assert all(row.chosen != row.rejected and row.chosen[0].role == "assistant" for row in told)


def test_a_record_reads_another_ones_rows_in_the_versions_that_it_names_alone() -> None:
    assert is_read(ContrastivePair, "AgentPair", "1.1") and not is_read(ContrastivePair, "AgentPair", "2.0")
    assert not is_read(ContrastivePair, "ContrastivePair", "1.1") and not is_read(Question, "AgentPair", "1.1")
    with pytest.raises(InvalidInput, match="holds AgentPair rows, expected Question"):
        read_parquet(BEFORE / "agentpair-1.1.parquet", Question)


def test_questions_before_do_not_tell_given_golds_from_a_graphs_names() -> None:
    (row,) = read_parquet(BEFORE / "rlrow-1.2.parquet", RlRow)
    truth = row.reward_model.ground_truth
    assert (truth.num_golds, truth.num_given) == (1, 0) and truth.given == truth.golds == ("Vienna",)


def test_questions_and_episodes_before_have_no_options() -> None:
    (asked,) = read_parquet(BEFORE / "question-1.1.parquet", Question)
    (verified,) = read_parquet(BEFORE / "agenttrajectory-1.2.parquet", AgentTrajectory)
    rows = [*read_parquet(BEFORE / "agentepisode-1.1.parquet", AgentEpisode), verified.episode]
    assert {(row.options, row.correct_options, row.answer_set) for row in (asked, *rows)} == {((), (), ())}
    assert asked.kind == "text" and {row.scores.answer_in_text for row in rows} == {None}


def test_questions_before_do_not_say_how_hard_an_agent_found_them() -> None:
    (row,) = read_parquet(BEFORE / "rlrow-1.3.parquet", RlRow)
    assert row.known_share == 0.25 and (row.pass_rate, row.attempts, row.measured_by) == (None, None, "")


def test_episodes_before_do_not_say_what_searches_asked_and_keep_their_back_end() -> None:
    (verified,) = read_parquet(BEFORE / "agenttrajectory-1.3.parquet", AgentTrajectory)
    for row in (*read_parquet(BEFORE / "agentepisode-1.2.parquet", AgentEpisode), verified.episode):
        assert (row.backend, row.index, row.costs.others) == ("hippo_rag", "i", ())


def test_episodes_and_rows_before_have_no_tools() -> None:
    (verified,) = read_parquet(BEFORE / "agenttrajectory-1.4.parquet", AgentTrajectory)
    for row in (*read_parquet(BEFORE / "agentepisode-1.3.parquet", AgentEpisode), verified.episode):
        assert row.browse is None and row.costs.cached_tokens is None and row.messages
    (sft,) = read_parquet(BEFORE / "sftrow-1.4.parquet", SftRow)
    assert sft.native is None and sft.messages


def test_conversations_before_were_all_right() -> None:
    (row,) = read_parquet(BEFORE / "sftrow-1.4.parquet", SftRow)
    assert row.right_by == "judge" and not row.is_wrong
