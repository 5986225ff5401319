"""Drafts as rows: options in an order by seed, lists with an end, plans side by side, aliases and key facts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.support.bundle_drafts import ITEM, SOUND, context, hop, work
from tests.support.bundle_questions import BUNDLE, PAPER, STREET, choice, question
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.generators.document_bundles.drafts import (
    TOOLS,
    cut_lists,
    describe_finds,
    describe_sources,
    reply_schema,
    shuffle_options,
)
from trailforge.generators.document_bundles.write import BundleWork, draft_row
from trailforge.inference import Request
from trailforge.retrieval.papers import CUT, cut_text
from trailforge.schemas import BundleLink, BundleQuestion, MalformedReply, PlanEdge

OPTIONS = ("Bergen", "Oslo", "Tartu", "Turku", "Lund", "Uppsala")


def row(**changes: Any) -> BundleQuestion:
    """Of the sound draft, changed."""
    return draft_row(SOUND | changes, 0, ITEM, context(ScriptedModel(lambda _: "")))


def test_fields_are_asked_for_in_the_order_in_which_they_are_thought_of() -> None:
    fields = reply_schema(3)["properties"]["questions"]["items"]["properties"]
    assert list(fields) == ["asker", "type", "hops", "question", "options", "correct", "answer", "aliases", "key_facts"]
    assert list(fields["hops"]["items"]["properties"]) == ["document", "evidence", "reasoning", "query", "needs"]


def test_every_list_that_is_asked_for_has_an_end() -> None:
    def lists(schema: dict[str, Any]) -> list[dict[str, Any]]:
        inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
        return [schema] * (schema["type"] == "array") + [each for part in inner for each in lists(part)]

    assert len(lists(reply_schema(3))) == 7 and all("maxItems" in each for each in lists(reply_schema(3)))
    assert reply_schema(2)["properties"]["questions"]["maxItems"] == 2
    assert not any("maxItems" in each for each in lists(reply_schema(3, is_bounded=False)))


def test_lists_that_are_too_long_are_cut() -> None:
    hops = [{**each, "needs": list(range(1, 10))} for each in SOUND["hops"] * 9]
    draft = SOUND | {"hops": hops, "options": ["x"] * 9, "aliases": ["y"] * 9}
    first, second = cut_lists({"questions": [draft] * 5}, 2)
    assert first == second and len(first["hops"]) == 6 and len(first["hops"][0]["needs"]) == 5
    assert len(first["options"]) == 7 and len(first["aliases"]) == 6 and first["answer"] == SOUND["answer"]


async def test_more_questions_than_asked_for_are_no_reason_to_ask_again() -> None:
    model = ScriptedModel(lambda _: json.dumps({"questions": [SOUND] * 5}))
    rows = await BundleWork(item=ITEM, context=context(model)).write()
    assert len(rows) == 3 and len(model.requests) == 1
    assert json.loads(model.requests[0].json_schema or "") == reply_schema(3)


async def test_a_draft_without_a_question_is_malformed() -> None:
    with pytest.raises(MalformedReply):
        await work({name: value for name, value in SOUND.items() if name != "question"}).write()


@pytest.mark.parametrize("mark", ["{}. {}", "{}) {}", "({}) {}", "{}: {}", "{}"])
def test_options_lose_their_letters_and_the_right_ones_are_found_again(mark: str) -> None:
    texts = [mark.format(letter, text) if "{}. " in mark or mark != "{}" else text
             for letter, text in zip("ABCDEF", OPTIONS, strict=True)]  # fmt: skip
    options, correct = shuffle_options(texts, ["a", "C.", "(E)"], seed="1")
    assert sorted(options) == sorted(OPTIONS) and list(correct) == sorted(correct)
    assert {options[ord(letter) - ord("A")] for letter in correct} == {"Bergen", "Tartu", "Lund"}


def test_a_letter_that_belongs_to_a_name_stays() -> None:
    options, _ = shuffle_options(["A. Smith", "C. Jones", "D. Brown", "E. Young"], ["A"], seed="1")
    assert set(options) == {"A. Smith", "C. Jones", "D. Brown", "E. Young"}


def test_no_letter_is_right_more_often_than_others() -> None:
    places = Counter(shuffle_options(OPTIONS[:4], ["A"], seed=str(n))[1] for n in range(400))
    assert len(places) == 4 and min(places.values()) > 70
    assert shuffle_options(OPTIONS, ["A"], seed="1") == shuffle_options(OPTIONS, ["A"], seed="1")


def test_a_letter_that_no_option_has_is_left_for_the_filters() -> None:
    assert shuffle_options(OPTIONS, ["A", "Z"], seed="1") == (OPTIONS, ("A", "Z"))


def test_the_answer_of_a_choice_is_what_its_options_say_in_their_order() -> None:
    made = row(type="multiple_choice", options=list(OPTIONS), correct=["A", "B", "C"], answer="see the letters")
    chosen = [made.options[ord(letter) - ord("A")] for letter in made.correct_options]
    assert made.answer == "; ".join(chosen) and set(chosen) == {"Bergen", "Oslo", "Tartu"}


def test_searches_that_need_nothing_of_each_other_run_side_by_side() -> None:
    third = {**SOUND["hops"][1], "needs": [1, 2]}
    made = row(hops=[*hop(1, needs=[]), third])
    assert made.dag_edges == (PlanEdge(src="A", dst="C"), PlanEdge(src="B", dst="C"))
    assert made.dag_text.endswith("Edges:\nA -> C; B -> C")


def test_aliases_are_other_words_and_key_facts_are_of_explanations_alone() -> None:
    made = row(aliases=["UiB", " ", "UiB", "University of Bergen"], key_facts=["Bergen"])
    assert made.aliases == ("UiB",) and made.key_facts == ()
    facts = ["slow water | still water", "in 1911", "blades"]
    causal = row(type="causal", answer="The blades turn even in slow water", key_facts=facts)
    assert causal.key_facts == tuple(facts)
    assert row(type="multiple_choice", options=list(OPTIONS), correct=["A", "B", "C"], aliases=["x"]).aliases == ()
    assert row().aliases == row().key_facts == ()


def test_an_answer_holds_as_of_the_youngest_document_that_is_quoted() -> None:
    assert row().as_of == "2025-05-02"
    assert row(hops=hop(0, document=2)).as_of == "2025-04-20"
    assert row(hops=hop(0, document=9)[:1]).as_of == ""


@pytest.mark.parametrize(
    ("text", "longest", "shown"),
    [
        ("One ends here. Two goes on.", 40, "One ends here. Two goes on."),
        ("One ends here. Two goes on.", 20, f"One ends here. {CUT}"),
        ("One ends here. Two goes on.", 14, f"One ends {CUT}"),
        ("One ends here. Two goes on.", 10, f"One ends {CUT}"),
        ("Unbroken.", 4, f"Unbr {CUT}"),
    ],
)
def test_a_long_document_ends_with_a_sentence_and_a_mark(text: str, longest: int, shown: str) -> None:
    assert cut_text(text, longest) == shown


async def test_each_draw_shows_options_in_another_order_and_answers_in_the_row_s_letters() -> None:
    def reply(request: Request) -> str:
        lines = prompt_text(request).splitlines()
        return ", ".join(line[0] for line in lines if line[3:] in ("option 0", "option 2", "option 3"))

    model = ScriptedModel(reply)
    task = BundleWork(item=ITEM, context=context(model))
    asked = choice("A", "C", "D")
    assert {await task.answer(asked, [STREET, PAPER], sample) for sample in range(6)} == {"A, C, D"}
    assert len({prompt_text(request).partition("Question: ")[2] for request in model.requests}) > 4


async def test_a_reply_without_letters_stays_as_it_is() -> None:
    task = BundleWork(item=ITEM, context=context(ScriptedModel(lambda _: "UNKNOWN\n")))
    assert await task.answer(choice("A", "C", "D"), (), 1) == "UNKNOWN"
    assert await task.answer(replace(question()), (), 1) == "UNKNOWN"


def test_only_documents_that_share_a_source_are_said_to() -> None:
    wire = [replace(STREET, id=f"wire:{n}", source="wire", kind="news") for n in range(3)]
    assert describe_sources([STREET, PAPER]) == ""
    assert describe_sources([replace(each, is_own_source=True) for each in wire]) == ""
    told = describe_sources([wire[0], PAPER, *wire[1:]])
    assert told == "- [1], [3] and [4] are of one source, wire: join a document of another one.\n"


LINK = BundleLink(first=STREET.id, second=PAPER.id, cosine=0.5, names=("mara lind", "orkney"))
GRANTS = replace(STREET, text="Mara Lind got $3 million. The yard got $2 million.\nOrkney waits.")
STUDY = replace(PAPER, text="Mara Lind asked for $5 million in 2 letters. Orkney has rain.")


def test_what_a_rule_finds_in_two_documents_is_said_by_their_numbers() -> None:
    found = describe_finds(replace(BUNDLE, links=(LINK,)), [GRANTS, STUDY], 6000)
    assert found.splitlines() == [
        "- [1] and [2] both name mara lind and orkney.",
        "- Of mara lind: [1] Mara Lind got $3 million. [2] Mara Lind asked for $5 million in 2 letters.",
    ]
    unnamed = replace(LINK, names=())
    assert describe_finds(BUNDLE, [GRANTS, STUDY], 6000) == ""
    assert describe_finds(replace(BUNDLE, links=(unnamed,)), [GRANTS, STUDY], 6000) == ""


def test_of_what_is_not_shown_nothing_is_said() -> None:
    found = describe_finds(replace(BUNDLE, links=(LINK,)), [GRANTS, STUDY], 20)
    assert found == "- [1] and [2] both name mara lind and orkney.\n"


def test_what_one_document_singles_out_of_several_things_of_the_other_is_said_first() -> None:
    grants = replace(
        GRANTS, text="The Reef Act lends $4 million. The Quay Act lends $9 million. The Dock Act lends $1 million."
    )
    visit = replace(STUDY, text="In Visby Mara Lund promised to vote for the Reef Act.", kind="news")
    found = describe_finds(replace(BUNDLE, links=(LINK,)), [grants, visit], 6000).splitlines()
    assert found == [
        "- [1] tells of quay act, dock act and reef act (sums). Of reef act [2] alone says: In Visby Mara Lund "
        "promised to vote for the Reef Act. And [1]: The Reef Act lends $4 million.",
        "- [1] and [2] both name mara lind and orkney.",
    ]


def test_no_sentence_is_shown_twice_and_the_names_of_which_most_is_told_come_first() -> None:
    grants = replace(GRANTS, text="Mara Lind and Ada Moe met. Ada Moe sold 3 mills in Turku in 1911.")
    study = replace(STUDY, text="Mara Lind has 5 mills. Ada Moe has 7 yards in Lund and 2 in Visby.")
    link = replace(LINK, names=("mara lind", "ada moe"))
    third = replace(STUDY, id="third", text="Mara Lind has 6 cars. Ada Moe has 8 boats.")
    links = (link, replace(link, second="third"))
    found = describe_finds(replace(BUNDLE, links=links), [grants, study, third], 6000).splitlines()
    assert found[2:] == [
        "- Of ada moe: [1] Ada Moe sold 3 mills in Turku in 1911. [2] Ada Moe has 7 yards in Lund and 2 in Visby.",
    ]


async def test_the_writer_is_shown_what_a_rule_finds_before_the_documents() -> None:
    async def shown(**changes: Any) -> str:
        model = ScriptedModel(lambda _: json.dumps({"questions": []}))
        item = replace(ITEM, bundle=replace(BUNDLE, **changes))
        await BundleWork(item=item, context=context(model)).write()
        return prompt_text(model.requests[0])

    found = (await shown(links=(LINK,))).partition("What a rule found in them")[2]
    assert found.index("both name mara lind") < found.index("\nDocuments\n")
    assert "What a rule found" not in await shown()


@pytest.mark.parametrize(("count", "said"), [(1, None), (3, "Up to 3 are wanted")])
async def test_further_questions_are_spoken_of_only_where_some_are_wanted(count: int, said: str | None) -> None:
    model = ScriptedModel(lambda _: json.dumps({"questions": []}))
    asked = context(model)
    await BundleWork(
        item=ITEM, context=replace(asked, config=replace(asked.config, questions_per_bundle=count))
    ).write()
    shown = prompt_text(model.requests[0])
    assert said in shown if said else "are wanted" not in shown
    assert "{{" not in shown


async def test_the_writer_sees_where_documents_are_from_and_not_what_they_are_called_here() -> None:
    model = ScriptedModel(lambda _: json.dumps({"questions": []}))
    item = replace(ITEM, documents=tuple(replace(each, is_own_source=True) for each in ITEM.documents))
    await BundleWork(item=item, context=context(model)).write()
    shown = prompt_text(model.requests[0])
    assert f"({TOOLS[PAPER.kind]}, {PAPER.source}, " in shown and PAPER.id not in shown and "{{" not in shown


async def test_whoever_has_one_side_of_a_comparison_alone_may_say_that_it_does_not_tell() -> None:
    model = ScriptedModel(lambda _: "UNKNOWN")
    task = BundleWork(item=ITEM, context=context(model))
    for text in ("Which mill is older, Visby or Kalmar?", "Which mill won the prize?"):
        await task.answer(question(question=text, answer="Visby"), [PAPER], 0)
    sides, open_one = map(prompt_text, model.requests)
    fits_best = "give the answer that fits best"
    assert fits_best in open_one and fits_best not in sides and "{{" not in sides


async def test_a_reader_is_never_asked_for_a_guess() -> None:
    model = ScriptedModel(lambda _: "UNKNOWN")
    task = BundleWork(item=ITEM, context=context(model))
    for documents in ([STREET, PAPER], []):
        await task.answer(question(), documents, 0)
    for request in model.requests:
        assert "reply: UNKNOWN" in prompt_text(request) and "best guess" not in prompt_text(request)
