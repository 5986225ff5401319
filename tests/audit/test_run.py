"""`trailforge audit` from files to a folder, and what runs, evaluations and trainings make of it."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import world
from tests.support.model_server import running
from tests.support.scripted import ScriptedModel
from trailforge.audit.reading import read_question
from trailforge.audit.run import (
    AuditRequest,
    audit_questions,
    describe_request,
    estimate_reading,
    plan_searches,
    refuse_other_audit,
)
from trailforge.cli import app
from trailforge.evaluation.questions import read_asked, set_aside
from trailforge.flows.configuration import leave_out
from trailforge.flows.execute import RunRequest, check_inputs
from trailforge.generators.kg_questions.worlds import WorldConfig, make_world
from trailforge.inference import Meter, Request
from trailforge.inference.asker import Asker
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.config import RunConfig
from trailforge.pipelines.runs.intake import RunInputs, take_in_questions
from trailforge.pipelines.sources import read_questions
from trailforge.pipelines.sources.audited import (
    AUDIT,
    AUDITED_TABLE,
    NOT_AUDITED,
    AuditedQuestion,
    AuditManifest,
    read_audit,
    read_audited,
)
from trailforge.protocols import REACT
from trailforge.retrieval.kg import build_kg, open_source
from trailforge.schemas import (
    BudgetExceeded,
    Document,
    InvalidInput,
    NothingLeft,
    OutputError,
    Question,
    RejectedRow,
    SupportingDocument,
    read_parquet,
    to_dict,
)
from trailforge.schemas.text import count_tokens
from trailforge.training.sets.files import set_aside as set_aside_rows
from trailforge.training.sets.runs import asked_rows

SAMPLE_KG = Path(__file__).resolve().parents[2] / "sample_data" / "kg"


def audit(questions: Path, searched: Path | None, out: Path, **more: object) -> list[AuditedQuestion]:
    request = AuditRequest(questions=questions, searched=searched, **more)  # type: ignore[arg-type]
    asyncio.run(audit_questions(request, out, describe_request(request), None, lambda *_: None))
    return read_parquet(out / AUDITED_TABLE / "part-00000.parquet", AuditedQuestion)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Six questions of which the second lost the paragraph of its last hop, and the fourth is none."""
    rows = [to_dict(world.question(number, 2)) for number in range(6)]
    last = rows[1]["decomposition"][-1]["support_id"]
    rows[1]["paragraphs"] = [each for each in rows[1]["paragraphs"] if each["id"] != last]
    rows[1]["decomposition"][-1]["support_id"] = None
    del rows[3]["question"]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_an_audit_of_own_paragraphs_gives_each_row_one_reason(questions: Path, tmp_path: Path) -> None:
    rows = audit(questions, None, tmp_path / "audit")
    assert [row.reason for row in rows] == ["stated", "answer_not_stated", "stated", "invalid_row", "stated", "stated"]
    assert [row.can_be_answered for row in rows] == [True, False, True, False, True, True]
    assert rows[3].uid == "questions.jsonl:4" and "question" in rows[3].detail
    first = rows[0]
    assert all(first.quotes) and len({row.uid for row in rows}) == len(rows)
    assert {each.by for each in first.searches} == {"question", "sub_question", "best_wording"}
    assert all(len(each.ranks) == len(first.documents) == 2 for each in first.searches)
    report = (tmp_path / "audit" / "report.md").read_text()
    assert "4 of 6 questions" in report and "## By hops" in report and "## By kind" in report
    assert (tmp_path / "audit" / "plots" / "reasons.png").read_bytes().startswith(b"\x89PNG")
    manifest = read_audit(tmp_path / "audit")
    assert {each.reason: each.count for each in manifest.counts} == {
        "stated": 4, "answer_not_stated": 1, "invalid_row": 1,
    }  # fmt: skip


def test_the_command_audits_an_index_once_and_refuses_what_is_not_its_folder(questions: Path, tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, [str(each) for each in arguments], standalone_mode=False)
        if result.exception:
            raise result.exception
        return result.output

    corpus, index, out = (tmp_path / name for name in ("corpus.jsonl", "index", "audit"))
    paragraphs = {each.text: each for number in range(6) for each in world.question(number, 2).paragraphs}
    rows = ({"id": f"d{n}", "title": each.title, "text": text} for n, (text, each) in enumerate(paragraphs.items()))
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run("index", "build", corpus, "--out", index, "--backend", "bm25")
    assert "6 questions of questions.jsonl" in run("audit", questions, index, "--out", out)
    before = (out / AUDIT).read_bytes()
    run("audit", questions, index, "--out", out)
    assert (out / AUDIT).read_bytes() == before
    with pytest.raises(OutputError, match="other depth"):
        run("audit", questions, index, "--out", out, "--depth", 3)
    with pytest.raises(OutputError, match="holds no audit but other things"):
        run("audit", questions, index, "--out", tmp_path)
    dry = run("audit", questions, "--paragraphs", "--model", "http://127.0.0.1:9/v1", "--prices", "1,1", "--dry-run")
    assert "5 questions, 5 looked at: about 8 calls" in dry and "cost" in dry


def test_a_model_is_asked_with_the_documents_and_without(questions: Path, tmp_path: Path) -> None:
    """Of questions that can be answered by what is stated alone."""
    rows = audit(questions, None, tmp_path / "audit")
    golds = {row.question: row.golds[0] for row in rows if row.golds}
    answers = {rows[0].question: (golds[rows[0].question], "unknown"), rows[2].question: ("Nowhere", "unknown")}
    answers[rows[4].question] = golds[rows[4].question], golds[rows[4].question]

    def script(request: Request) -> str:
        prompt = str(request.prompt)
        asked = next(each for each in answers if each in prompt)
        return json.dumps({"answer": answers[asked]["documents below" not in prompt]})

    model = ScriptedModel(script)
    asker = Asker(client=model, model="m", style="chat", seed=0, meter=Meter())
    texts = (Document(id="0", title="T", text="Some text."),)
    read = [asyncio.run(read_question(rows[n], world.question(n, 2), texts, asker)) for n in (0, 2, 4)]
    assert [row.reason for row in read] == ["stated", "not_answered", "known_from_memory"]
    assert [row.can_be_answered for row in read] == [True, False, True]
    assert [row.is_right_with for row in read] == [True, False, True] and len(model.requests) == 6


def test_the_model_of_a_server_is_asked_through_the_ledger_up_to_the_cap(questions: Path, tmp_path: Path) -> None:
    """A judge's scripted verdict is no answer: nothing is decided by it, and the calls are kept."""
    served = ["--model-name", "scripted", "--out", str(tmp_path / "out")]
    with running(judge=1) as url:
        command = ["audit", str(questions), "--paragraphs", "--model", url, *served]
        capped = CliRunner().invoke(app, [*command, "--max-calls", "2"])
        assert isinstance(capped.exception, BudgetExceeded)
        assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "out" / "ledger" / "calls.sqlite").is_file()
    assert read_audit(tmp_path / "out").model == "scripted"
    rows = read_parquet(tmp_path / "out" / AUDITED_TABLE / "part-00000.parquet", AuditedQuestion)
    assert [row.answer_with for row in rows if row.can_be_answered] == [None] * 4


def test_a_run_leaves_out_what_cannot_be_answered_and_its_configuration_says_by_what(
    questions: Path, tmp_path: Path
) -> None:
    questions.write_text("".join(line for n, line in enumerate(questions.open()) if n != 3))
    rows = audit(questions, None, tmp_path / "audit")
    preset = tmp_path / "preset.yaml"
    preset.write_text("model: {name: scripted}\nretrieval: {kind: bm25}\n")
    dataset = load_dataset("mcts_trajectories")

    def request(audited: Path | None) -> RunRequest:
        return RunRequest(
            dataset=dataset.name, files=(questions,), out=tmp_path / "out", preset=str(preset), audited=audited
        )

    config, inputs = check_inputs(request(tmp_path / "audit"), dataset)
    settings = take_in_questions(inputs, tmp_path / "out", config)
    assert settings.items == 4
    (books,) = settings.books
    assert {each.reason: each.count for each in books.rejected} == {"answer_not_stated": 1} and books.balance == 0
    (aside,) = read_parquet(tmp_path / "out" / ".intake" / "rejected" / "part-inputs.parquet", RejectedRow)
    assert aside.uid == rows[1].question_id and aside.detail == rows[1].detail
    plain, _ = check_inputs(request(None), dataset)
    again = audit(questions, None, tmp_path / "other" / "place")
    assert [row.reason for row in again] == [row.reason for row in rows]
    moved, _ = check_inputs(request(tmp_path / "other" / "place"), dataset)
    assert config.hash != plain.hash and config.hash == moved.hash
    assert "audited" not in plain.row_settings()


def test_an_evaluation_asks_what_is_left_and_is_another_one(questions: Path, tmp_path: Path) -> None:
    audit(questions, None, tmp_path / "audit")
    asked = read_asked(questions)
    kept, aside = set_aside(asked, tmp_path / "audit")
    assert len(kept.questions) == 4 and [row.reason for row in aside] == ["answer_not_stated"]
    assert kept.sha256 != asked.sha256 and set_aside(asked, None) == (asked, [])


def test_a_training_asks_what_is_left(questions: Path, tmp_path: Path) -> None:
    """Of rows that were made of the same questions, whose targets have more names."""
    audit(questions, None, tmp_path / "audit")
    asked = [each for each in read_questions(questions) if isinstance(each, Question)]
    rows = list(asked_rows(questions, asked, REACT.name))
    kept, aside = set_aside_rows(rows, read_audited(tmp_path / "audit"))
    assert len(rows) == 5 and len(kept) == 4
    assert [(row.uid, row.reason, row.stage) for row in aside] == [(rows[1].uid, "answer_not_stated", "read")]
    assert set_aside_rows(rows, NOT_AUDITED) == (rows, [])


def test_a_data_set_without_questions_takes_no_audit(questions: Path, tmp_path: Path) -> None:
    audit(questions, None, tmp_path / "audit")
    inputs = RunInputs(dataset="document_bundles")
    with pytest.raises(InvalidInput, match="sets questions aside"):
        leave_out(RunConfig, inputs, (), tmp_path / "audit", print)  # type: ignore[type-var]


def test_an_audit_of_other_questions_or_a_changed_one_is_refused(questions: Path, tmp_path: Path) -> None:
    audit(questions, None, tmp_path / "audit")
    other = tmp_path / "other.jsonl"
    other.write_text('{"question": "Who?", "answer": "A"}\n')
    with pytest.raises(InvalidInput, match="none of these questions was audited"):
        set_aside(read_asked(other), tmp_path / "audit")
    with pytest.raises(InvalidInput, match="holds no audit"):
        read_audited(tmp_path)
    part = tmp_path / "audit" / AUDITED_TABLE / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidInput, match="was changed"):
        read_audited(tmp_path / "audit")


def test_nothing_left_is_said(questions: Path, tmp_path: Path) -> None:
    only = tmp_path / "only.jsonl"
    only.write_text(questions.read_text().splitlines()[1] + "\n")
    audit(only, None, tmp_path / "audit")
    with pytest.raises(InvalidInput, match="no question is left"):
        set_aside(read_asked(only), tmp_path / "audit")
    preset = tmp_path / "preset.yaml"
    preset.write_text("model: {name: scripted}\nretrieval: {kind: bm25}\n")
    dataset = load_dataset("mcts_trajectories")
    request = RunRequest(
        dataset=dataset.name, files=(only,), out=tmp_path / "o", preset=str(preset), audited=tmp_path / "audit"
    )
    config, inputs = check_inputs(request, dataset)
    with pytest.raises(NothingLeft, match="an audit did not set aside"):
        take_in_questions(inputs, tmp_path / "o", config)


def test_of_a_world_all_can_be_answered_and_then_all_but_what_lost_a_document(tmp_path: Path) -> None:
    build_kg(open_source(SAMPLE_KG), tmp_path / "kg")
    made, rest = tmp_path / "world", tmp_path / "rest.jsonl"
    make_world(tmp_path / "kg", made, WorldConfig(questions=80, hops=(1, 2, 3), comparisons=0.2, distractors=100))
    rows = audit(made / "questions.jsonl", made / "corpus.jsonl", tmp_path / "whole")
    assert {row.reason for row in rows} == {"stated", "derived"}
    assert {row.reason for row in rows if row.kind == "comparison"} == {"derived"}
    documents = (made / "corpus.jsonl").read_text().splitlines()
    gone = set(random.Random(1).sample(range(len(documents)), len(documents) // 10))
    titles = {json.loads(documents[number])["title"] for number in gone}
    rest.write_text("".join(f"{line}\n" for number, line in enumerate(documents) if number not in gone))
    asked = [json.loads(line) for line in (made / "questions.jsonl").open()]
    lost = {each["id"] for each in asked if titles & {document["title"] for document in each["supporting"]}}
    rows = audit(made / "questions.jsonl", rest, tmp_path / "less")
    assert lost and {row.question_id for row in rows if not row.can_be_answered} == lost


def test_the_answers_of_a_closed_world_are_stated_and_its_counts_derived(data_dir: Path, tmp_path: Path) -> None:
    world = data_dir / "qa_phantomwiki"
    rows = audit(world / "questions.jsonl.gz", world / "corpus.jsonl.gz", tmp_path / "audit")
    counts = [(row.reason, row.kind) for row in rows]
    assert sum(reason == "stated" for reason, _ in counts) == 130
    assert counts.count(("derived", "count")) == 70


@pytest.mark.slow
def test_of_questions_without_all_their_paragraphs_none_can_be_answered(data_dir: Path, tmp_path: Path) -> None:
    """In a third of the rows nothing says the answer: those that have no paragraph at all, and those whose paragraphs
    do not say it. By its README the answer stands, as words, in the paragraphs of 782 of 1,161 rows."""
    rows = audit(data_dir / "musique" / "musique_partial.jsonl.gz", None, tmp_path / "audit", depth=1)
    assert len(rows) == 1161 and not any(row.can_be_answered for row in rows)
    silent = sum(row.reason in ("answer_not_stated", "invalid_row") for row in rows)
    assert 379 <= silent <= 390


def test_a_model_is_shown_all_texts_that_may_answer_and_of_too_many_those_that_are_quoted_first(tmp_path: Path) -> None:
    """Of a question that annotates no document, all its paragraphs; what is wrong of a part of them decides nothing."""

    def asked_over(words: int) -> tuple[AuditedQuestion, str]:
        paragraphs = [
            Document(id=str(n), title=f"Town {n}", text=f"Town {n} is old. {'word ' * words}") for n in range(30)
        ]
        paragraphs[24] = Document(
            id="24", title="Ulm", text=f"{'word ' * words}. Ada Roth was born in Ulm. It is a city."
        )
        row = {"id": "q", "question": "Where was Ada Roth born?", "answer": "Ulm"}
        row["paragraphs"] = [to_dict(each) for each in paragraphs]  # type: ignore[assignment]
        file = tmp_path / f"{words}.jsonl"
        file.write_text(json.dumps(row))
        model = ScriptedModel(lambda _: '{"answer": "Town 3"}')
        asker = Asker(client=model, model="m", style="chat", seed=0, meter=Meter())
        request = AuditRequest(questions=file, searched=None, model="m")
        out = tmp_path / f"audit-{words}"
        asyncio.run(audit_questions(request, out, describe_request(request), asker, lambda *_: None))
        (found,) = read_parquet(out / AUDITED_TABLE / "part-00000.parquet", AuditedQuestion)
        return found, str(model.requests[0].prompt)

    row, prompt = asked_over(20)
    assert all(f"Town {n} is old" in prompt for n in range(30) if n != 24) and "Ada Roth was born in Ulm" in prompt
    assert row.reason == "not_answered"
    row, prompt = asked_over(1200)
    assert "Ada Roth was born in Ulm" in prompt and "Town 29 is old" not in prompt
    assert row.reason == "stated" and row.is_right_with is None and row.answer_with == "Town 3"


@pytest.mark.parametrize("own", [True, False])
def test_an_estimate_counts_the_prompts_that_a_model_gets(questions: Path, tmp_path: Path, own: bool) -> None:
    """Texts of the documents and all: over a corpus they are those of its passages."""
    corpus = tmp_path / "corpus.jsonl"
    asked = [each for each in read_questions(questions) if isinstance(each, Question)]
    texts = {each.text: each for question in asked for each in question.paragraphs}
    corpus.write_text("".join(f"{json.dumps(to_dict(replace(d, id=str(n))))}\n" for n, d in enumerate(texts.values())))
    bare = tmp_path / "bare.jsonl"
    titles = [tuple(SupportingDocument(title=each.title) for each in q.supporting_documents) for q in asked]
    titled = [
        replace(each, paragraphs=(), decomposition=(), supporting=has) for each, has in zip(asked, titles, strict=True)
    ]
    bare.write_text("".join(f"{json.dumps(to_dict(each))}\n" for each in titled))
    request = AuditRequest(questions=questions if own else bare, searched=None if own else corpus, model="m")
    model = ScriptedModel(lambda _: '{"answer": "unknown"}')
    asker = Asker(client=model, model="m", style="chat", seed=0, meter=Meter())
    asyncio.run(audit_questions(request, tmp_path / "audit", describe_request(request), asker, lambda *_: None))
    prompts = [each.prompt[0].content for each in model.requests if not isinstance(each.prompt, str)]
    found = asyncio.run(estimate_reading(request))
    assert found.calls == len(prompts) > 0 and found.prompt_tokens == sum(map(count_tokens, prompts))
    assert any(document.text in prompt for document in texts.values() for prompt in prompts)


def test_an_estimate_looks_at_a_part_of_many_questions(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(
        "".join(f"{json.dumps(to_dict(replace(world.question(n % 6, 2), id=str(n))))}\n" for n in range(500))
    )
    found = asyncio.run(estimate_reading(AuditRequest(questions=file, searched=None)))
    assert found.questions == 500 and 100 <= found.looked_at <= 200 and found.calls == 1000


def test_an_audit_is_another_one_with_other_columns_another_format_or_another_model(tmp_path: Path) -> None:
    """Whatever decides its rows or its answers: else the folder's old findings would be told as those of now."""
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "Who?", "answer": "A", "other": "B"}\n')

    def told(**more: Any) -> AuditManifest:
        return describe_request(AuditRequest(questions=file, searched=None, **more))

    plain, out = told(), tmp_path / "audit"
    audit(file, None, out)
    assert refuse_other_audit(out, plain) is not None
    for name, other in (
        ("columns", told(column_map={"answer": "other"})),
        ("question_format", told(question_format="jsonl")),
        ("model", told(model="m")),
    ):
        with pytest.raises(OutputError, match=f"other {name}"):
            refuse_other_audit(out, other)


def test_the_command_says_by_which_settings_its_model_was_asked(questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(judge=1) as url:
        command = ["audit", str(questions), "--paragraphs", "--model", url, "--model-name", "m", "--out", str(out)]
        assert CliRunner().invoke(app, command).exit_code == 0
        for more in (["--seed", "3"], ["--parameters", "{omit: [seed]}"], ["--thoughts", "inline"]):
            refused = CliRunner().invoke(app, [*command, *more])
            assert isinstance(refused.exception, OutputError) and "other model_settings" in str(refused.exception)
        same = CliRunner().invoke(app, [*command, "--prices", "1,1"])
        assert same.exit_code == 0


def test_two_questions_of_the_same_words_have_a_verdict_each(tmp_path: Path) -> None:
    """By their documents; what comes without any, such as a row of a training, is told apart by its id."""
    whole = replace(world.question(0, 2), id="whole")
    held = {hop.support_id for hop in whole.decomposition}
    bare = tuple(replace(hop, support_id=None) for hop in whole.decomposition)
    rest = tuple(each for each in whole.paragraphs if each.id not in held)
    lost = replace(whole, id="lost", paragraphs=rest, decomposition=bare)
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(to_dict(each))}\n" for each in (whole, lost)))
    rows = audit(file, None, tmp_path / "audit")
    assert [row.can_be_answered for row in rows] == [True, False] and rows[0].uid != rows[1].uid
    kept, aside = set_aside(read_asked(file), tmp_path / "audit")
    assert [each.id for each in kept.questions] == ["whole"] and [row.uid for row in aside] == ["lost"]
    audited = read_audited(tmp_path / "audit")
    assert audited.row_of(lost) is not None and audited.row_of(whole) is None
    other = replace(whole, id="other", paragraphs=whole.paragraphs[:1], decomposition=())
    assert not audited.knows(other) and audited.row_of(other) is None
    asked = list(asked_rows(file, [whole, lost], REACT.name))
    left, out = set_aside_rows(asked, audited)
    assert [row.question_id for row in left] == ["whole"] and [row.uid for row in out] == [asked[1].uid]
    strange = [replace(row, question_id="strange") for row in asked[:1]]
    with pytest.raises(InvalidInput, match="none of these questions was audited"):
        set_aside_rows(strange, audited)


def test_questions_with_options_are_audited_and_read_by_letter_or_by_text(tmp_path: Path) -> None:
    first = world.question(0, 2)
    row = to_dict(first) | {"options": ["Nowhere", first.answer], "answer": "B", "answer_aliases": []}
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps(row))
    asked = [each for each in read_asked(file).questions if each.correct_options]
    assert len(asked) == 1

    def read(with_documents: str, without: str) -> AuditedQuestion:
        model = ScriptedModel(
            lambda request: json.dumps(
                {"answer": with_documents if "documents below" in str(request.prompt) else without}
            )
        )
        asker = Asker(client=model, model="m", style="chat", seed=0, meter=Meter())
        request, out = (
            AuditRequest(questions=file, searched=None, model="m"),
            tmp_path / with_documents.replace(" ", "_"),
        )
        asyncio.run(audit_questions(request, out, describe_request(request), asker, lambda *_: None))
        (found,) = read_parquet(out / AUDITED_TABLE / "part-00000.parquet", AuditedQuestion)
        return found

    assert read("B", "unknown").reason == "stated" and read(first.answer, "unknown").is_right_with
    assert read("B. it is", "B").reason == "known_from_memory"
    wrong = read("A", "unknown")
    assert (wrong.reason, wrong.can_be_answered) == ("not_answered", False)
    kept, aside = set_aside_rows(list(asked_rows(file, asked, REACT.name)), read_audited(tmp_path / "B"))
    assert len(kept) == 1 and not aside


def test_a_question_without_documents_is_searched_for_by_what_each_hop_finds(tmp_path: Path) -> None:
    """Its best wordings: a name that a text spells otherwise is found by the answer beside it."""
    bare = replace(world.question(0, 2), paragraphs=())
    bare = replace(bare, decomposition=tuple(replace(hop, support_id=None) for hop in bare.decomposition))
    planned = [each for each in plan_searches(bare, ()) if each.by == "best_wording"]
    assert [each.hop for each in planned] == [None, 1, 2]
    assert all(hop.answer in each.query for hop, each in zip(bare.decomposition, planned[1:], strict=True))
