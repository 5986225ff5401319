"""Show a bundle in a prompt, describe the writing model's reply, and turn a draft (a question in that reply) into a row
with plan and options.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from trailforge.generators.document_bundles.bundling.joints import DocumentNames, joints
from trailforge.generators.document_bundles.bundling.singled import DocumentThings, prepare, singled_out
from trailforge.generators.document_bundles.search_thoughts import join_phrases
from trailforge.inference import object_schema
from trailforge.protocols.nl_dag import SearchPlan, render
from trailforge.retrieval import CaseCounts
from trailforge.retrieval.papers import cut_paper, cut_text
from trailforge.schemas import (
    Bundle,
    BundleHop,
    BundleInput,
    BundleQuestion,
    PlanEdge,
    PlanNode,
    Provenance,
    SourceDocument,
    SourceKind,
    restore_chat_tokens,
)

TOOLS: dict[SourceKind, str] = {"news": "News", "academic": "Academic", "general": "General"}
"""The tool of a plan that finds documents of each kind."""
TYPES = ("factual", "single_choice", "causal", "multiple_choice")
_MOST = {"hops": 6, "needs": 5, "options": 7, "correct": 5, "aliases": 6, "key_facts": 4}
"""Items of a list. A model that repeats itself fills any list that has no end."""
_MOST_NAMES, _MOST_JOINTS, _MOST_SINGLED = 5, 4, 6
_LONGEST_TOLD = 260
"""Characters of a sentence that a joint shows."""
_LETTERED = re.compile(r"\s*\(?([A-Ha-h])[.):]\s+")


def render_documents(documents: Sequence[SourceDocument], longest: int) -> str:
    """Return documents as a prompt shows them, numbered from 1, each cut to `longest` characters."""
    return "\n\n".join(
        f"[{number}] {document.title} ({TOOLS[document.kind]}, {document.source}"
        f"{', ' + document.published if document.published else ''})\n{shown_text(document, longest)}"
        for number, document in enumerate(documents, start=1)
    )


def shown_text(document: SourceDocument, longest: int) -> str:
    """Return the part of a document that a prompt shows, at most `longest` characters: its beginning or, for a paper,
    the parts that say what it did and found.
    """
    return cut_paper(document.text, longest) if document.kind == "academic" else cut_text(document.text, longest)


def index_things(
    documents: Sequence[SourceDocument], longest: int, counts: CaseCounts | None = None
) -> list[DocumentThings]:
    """Return a bundle's documents, cut to `longest` characters as prompts show them, indexed by the things they
    mention. `counts` are word counts over all documents, by default over these alone.
    """
    shown = [(document.title, shown_text(document, longest)) for document in documents]
    return prepare(shown, [document.kind == "academic" for document in documents], counts)


def describe_sources(documents: Sequence[SourceDocument]) -> str:
    """Return for the writer's prompt a rule on each source that has several documents; empty when each document has its
    own source.
    """
    numbers: dict[str, list[str]] = {}
    for number, document in enumerate(documents, start=1):
        numbers.setdefault(document.origin, []).append(f"[{number}]")
    shared = [(origin, same) for origin, same in numbers.items() if len(same) > 1]
    return "".join(
        f"- {join_phrases(same)} are of one source, {origin}: join a document of another one.\n"
        for origin, same in shared
    )


def render_quotes(row: BundleQuestion, documents: Sequence[SourceDocument]) -> str:
    """Return the evidence of each hop with the number of its document, or with the draft's own text for a document that
    does not exist.
    """
    numbers = {document.id: str(number) for number, document in enumerate(documents, start=1)}
    return "\n".join(f"- [{numbers.get(hop.document_id, hop.document_id)}] {hop.evidence}" for hop in row.hops)


def describe_finds(bundle: Bundle, documents: Sequence[SourceDocument], longest: int) -> str:
    """Describe for the writing model what may connect two documents, as found by rule in the parts of at most `longest`
    characters that it is shown; empty where nothing is found.

    First come things that one document singles out of several in another, with what each says of them; then the names
    that two documents share; then names about which each of two documents says something of its own, with a sentence of
    each. No sentence is repeated.
    """
    numbers = {document.id: number for number, document in enumerate(documents, start=1)}
    linked = [link for link in bundle.links if link.names]
    seen: set[str] = set()
    lines = [
        *_singled_lines(index_things(documents, longest), seen),
        *(
            f"[{numbers[link.first]}] and [{numbers[link.second]}] both name {join_phrases(link.names[:_MOST_NAMES])}."
            for link in linked
        ),
    ]
    told = {each.id: DocumentNames.of(each.title, shown_text(each, longest)) for each in documents}
    found = [(joint, link) for link in linked for joint in joints(told[link.first], told[link.second], link.names)]
    most = len(seen) + 2 * _MOST_JOINTS
    for joint, link in sorted(found, key=lambda each: -each[0].weight):
        if len(seen) < most and seen.isdisjoint((joint.first, joint.second)):
            seen |= {joint.first, joint.second}
            sides = ((numbers[link.first], joint.first), (numbers[link.second], joint.second))
            said = (f"[{number}] {cut_text(text, _LONGEST_TOLD)}" for number, text in sides)
            lines.append(f"Of {joint.name}: {' '.join(said)}")
    return "".join(f"- {line}\n" for line in lines)


def _singled_lines(things: Sequence[DocumentThings], seen: set[str]) -> Iterator[str]:
    """A line for each thing that a document singles out of several of another, the best first; `seen` gets their
    sentences."""
    pairs = permutations(range(len(things)), 2)
    found = [(each, one, other) for one, other in pairs for each in singled_out(things[one], things[other])]
    names = set[str]()
    for each, one, other in sorted(found, key=lambda each: -each[0].weight):
        if len(names) < _MOST_SINGLED and each.name not in names and seen.isdisjoint((each.said, each.answer)):
            names.add(each.name)
            seen |= {each.said, each.answer}
            several = join_phrases([*(name for name, _ in each.others[:_MOST_NAMES]), each.name])
            yield (
                f"[{other + 1}] tells of {several} ({each.kind}). Of {each.name} [{one + 1}] alone says: "
                f"{cut_text(each.said, _LONGEST_TOLD)} And [{other + 1}]: {cut_text(each.answer, _LONGEST_TOLD)}"
            )


def reply_schema(count: int, *, is_bounded: bool = True) -> dict[str, Any]:
    """Return the JSON schema of a writer's reply: what connects the documents, or why nothing does, and up to `count`
    questions.

    The fields are in the order in which they have to be thought of. With `is_bounded` false the schema sets no largest
    lengths of lists: it then serves to check replies, whose lists are cut when they are too long (`cut_lists`) rather
    than asked for again.
    """
    text = {"type": "string"}

    def items(name: str, of: dict[str, Any]) -> dict[str, Any]:
        most = count if name == "questions" else _MOST[name]
        return {"type": "array", "items": of, **({"maxItems": most} if is_bounded else {})}

    number = {"type": "integer", "minimum": 1}
    hop = {
        "document": number,
        "evidence": text,
        "reasoning": text,
        "query": text,
        "needs": items("needs", number),
    }
    question = {
        "asker": text,
        "type": {"type": "string", "enum": list(TYPES)},
        "hops": items("hops", object_schema(hop)),
        "question": text,
        "options": items("options", text),
        "correct": items("correct", text),
        "answer": text,
        "aliases": items("aliases", text),
        "key_facts": items("key_facts", text),
    }
    optional = () if is_bounded else ("asker", "aliases", "key_facts")
    questions = items("questions", object_schema(question, optional=optional))
    return object_schema({"joins": text, "questions": questions}, optional=() if is_bounded else ("joins",))


def cut_lists(reply: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the drafts of a reply, at most `count`, with lists cut to their longest length."""
    return [_cut(draft) for draft in reply["questions"][:count]]


def _cut(fields: dict[str, Any]) -> dict[str, Any]:
    cut = {name: value[: _MOST[name]] if name in _MOST else value for name, value in fields.items()}
    if "hops" in cut:
        cut["hops"] = [_cut(hop) for hop in cut["hops"]]
    return cut


def row_of(
    draft: dict[str, Any],
    number: int,
    item: BundleInput,
    *,
    preset: str,
    seed: int,
    provenance: Provenance,
) -> BundleQuestion:
    """Turn a draft, a question of the writer's reply, into a row, unchecked: the filters judge it afterwards. `number`
    is the draft's place among those of the bundle.
    """
    documents = item.documents
    nodes, edges = plan_of(draft["hops"], documents)
    uid = hashlib.sha256(f"{item.id} {number} {draft['question']}".encode()).hexdigest()[:16]
    answer = draft["answer"].strip()
    options, correct = shuffle_options(draft["options"], draft["correct"], seed=f"{seed}:{uid}")
    if set(correct) <= {chr(ord("A") + place) for place in range(len(options))} and correct:
        answer = "; ".join(options[ord(letter) - ord("A")] for letter in correct)
    return BundleQuestion(
        uid=uid,
        bundle_id=item.id,
        question=draft["question"].strip(),
        type=draft["type"],
        answer=answer,
        options=options,
        correct_options=correct,
        hops=tuple(
            BundleHop(
                document_id=_document_id(hop["document"], documents),
                evidence=restore_chat_tokens(hop["evidence"]).strip(),  # prompts show them escaped, documents have them
                reasoning=hop["reasoning"].strip(),
            )
            for hop in draft["hops"]
        ),
        dag_text=render(SearchPlan(nodes=nodes, edges=edges)),
        dag_nodes=nodes,
        dag_edges=edges,
        filters=(),
        complexity=0.0,
        curriculum_stage=0,
        preset=preset,
        provenance=provenance,
        aliases=() if options else _aliases(draft.get("aliases", ()), answer),
        key_facts=tuple(map(str.strip, draft.get("key_facts", ()))) if draft["type"] == "causal" else (),
        as_of=_youngest(draft["hops"], documents),
    )


def shuffle_options(
    texts: Sequence[str], correct: Sequence[str], *, seed: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Put options into an order by seed, and return them with the letters of the correct ones in that order.

    Models put correct options first, which an agent would learn. Letters that all texts begin with, in their order, are
    taken off. Correct letters that no option has stay as they are, for the filters to see; so does the order then.
    """
    options = [text.strip() for text in texts]
    letters = [chr(ord("A") + place) for place in range(len(options))]
    found = [_LETTERED.match(option) for option in options]
    if all(match and match[1].upper() == letter for match, letter in zip(found, letters, strict=True)):
        options = [_LETTERED.sub("", option, count=1) for option in options]
    chosen = [letter.strip().strip("().:").upper() for letter in correct]
    if not set(chosen) <= set(letters):
        return tuple(options), tuple(chosen)
    order = list(range(len(options)))
    random.Random(seed).shuffle(order)
    places = {letters[old]: letters[new] for new, old in enumerate(order)}
    return tuple(options[old] for old in order), tuple(sorted(places[letter] for letter in chosen))


def plan_of(
    hops: Sequence[dict[str, Any]], documents: Sequence[SourceDocument]
) -> tuple[tuple[PlanNode, ...], tuple[PlanEdge, ...]]:
    """Return one search per hop, by the tool that finds such documents, and an edge for each answer that a later hop
    needs.
    """
    names = [chr(ord("A") + position) for position in range(len(hops))]
    nodes = tuple(
        PlanNode(node_id=name, query=hop["query"].strip(), tool=_tool(hop["document"], documents))
        for name, hop in zip(names, hops, strict=True)
    )
    edges = tuple(
        PlanEdge(src=names[need - 1] if need <= len(names) else f"N{need}", dst=name)
        for name, hop in zip(names, hops, strict=True)
        for need in dict.fromkeys(hop["needs"])
    )
    return nodes, edges


def _aliases(texts: Sequence[str], answer: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip() and text.strip() != answer))


def _youngest(hops: Sequence[dict[str, Any]], documents: Sequence[SourceDocument]) -> str:
    quoted = [documents[hop["document"] - 1] for hop in hops if hop["document"] <= len(documents)]
    return max(((document.published or "")[:10] for document in quoted), default="")


def _document_id(number: int, documents: Sequence[SourceDocument]) -> str:
    return documents[number - 1].id if number <= len(documents) else f"document {number}"


def _tool(number: int, documents: Sequence[SourceDocument]) -> str:
    return TOOLS[documents[number - 1].kind] if number <= len(documents) else "General"
