"""Reasons to reject a bundle's question that need no model (`bundle_readings` has those that do).

To them belongs that a named benchmark asks the question too: by shared word n-grams, or by meaning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import combinations, product
from typing import TYPE_CHECKING

from trailforge.filters.answers import content_stems, names_two_sides, speaks_of_fact
from trailforge.filters.base import count_faults
from trailforge.protocols.nl_dag import SearchPlan, validate
from trailforge.retrieval import COMMON_WORDS, CaseCounts, names_of, ngrams_of
from trailforge.rewards import evidence_recall, mentions, normalize_answer, spell_in_figures
from trailforge.rewards.reading import fold
from trailforge.schemas import Bundle, BundleHop, BundleQuestion, Passage, SourceDocument, Verdict

if TYPE_CHECKING:
    import numpy as np

_TELLING = 4
"""Letters, at least, of a word that says what a text is about."""
_SHORTEST_ROOT = 5
"""Letters of a word that others are made of."""
_SHORTEST_QUOTE = 3
"""Words: a shorter quote shows nothing."""
FEWEST_CORRECT, MOST_CORRECT = 2, 5
"""Least and most correct options of a multiple-choice question. R-Search has three to five (3.5); ours begins with two,
so that their number gives nothing away."""
_SHARE_OR_RATE = re.compile(r"(?<!\d)(?<!\d[.,])\d(?:[.,]?\d)*+\s?(?:\\?%|percent\b|\w++/s(?:ec)?\b)", re.IGNORECASE)
"""`37.1%`, `2585 tokens/s`."""
_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
"""`37.1`, `13,000`."""
_YEAR_OF_DATE = re.compile(
    r"((?:jan|febr?|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.? \d{1,2}),? (?:19|20)\d\d\b", re.IGNORECASE
)
"""News say the day, and the year stands at their head."""
_INTRODUCING = "say tell state announce report statement spokesman spokeswoman spokesperson government official office"
"""They bring in what anybody says."""
_COMPOUND = re.compile(r"(?<![\w-])\w+-(?P<noun>[a-z]+)\b")
"""`three-point`, `12-page`."""
_DOUBLE = re.compile(r"\brather than\b|\binstead of\b", re.IGNORECASE)
_PART_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST_FACT, _LONGEST_CAUSE = 15, 80
"""Words of an answer."""


def judge_unread(
    row: BundleQuestion, bundle: Bundle, documents: Mapping[str, SourceDocument], *, since: str | None
) -> list[Verdict]:
    """Return the verdicts of all filters that need no model. `documents` are those of the bundle by id. `since` is the
    ISO date before which a document is too old (`stale_document`); None sets no limit.
    """
    titles = [documents[hop.document_id].title for hop in row.hops if hop.document_id in documents]
    return [
        unsupported_quote(row, documents),
        too_few_documents(row, bundle),
        quotes_one_source(row, documents),
        unrelated_hops(row, documents),
        named_by_score(row, documents),
        calculated(row),
        bad_options(row),
        no_key_facts(row),
        invalid_plan(row),
        answer_given_away(row),
        gold_in_queries(row, [node.query for node in row.dag_nodes], titles),
        stale_document(row, documents, since=since),
    ]


def unsupported_quote(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """Reject a question whose evidence does not occur in its document, word for word.

    Case and punctuation are ignored, as when searches are compared with the evidence later (`evidence_recall`): models
    straighten quotation marks and dashes. Score: share of the hops whose quote, of three words or more, occurs in their
    document.
    """
    wrong = [hop for hop in row.hops if not _occurs(hop.evidence, documents.get(hop.document_id))]
    detail = "" if row.hops else "no hop has evidence"
    if wrong:
        detail = f"{wrong[0].document_id} does not say {wrong[0].evidence[:100]!r}"
    score = 1 - len(wrong) / len(row.hops) if row.hops else 0.0
    return Verdict(keep=not detail, reason="unsupported_quote", score=score, detail=detail)


def too_few_documents(row: BundleQuestion, bundle: Bundle) -> Verdict:
    """Reject a question whose hops do not join two documents of their bundle. The score is the number of documents they
    quote.
    """
    used = {hop.document_id for hop in row.hops}
    strange = used - set(bundle.document_ids)
    detail = f"{sorted(strange)[0]} is not in the bundle" if strange else ""
    if not detail and len(used) < 2:
        detail = "all evidence is in one document" if used else "no hop has evidence"
    return Verdict(keep=not detail, reason="too_few_documents", score=float(len(used - strange)), detail=detail)


def quotes_one_source(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """Reject a question all of whose evidence is from one source. Score: how many sources the hops quote.

    Bundles mix sources so that a question has to join what different ones say (R-Search, 4.1); no bundle would have
    been made of only the documents that such a question rests on. Fewer than two documents are rejected by
    `too_few_documents`.
    """
    quoted = [documents[name] for name in {hop.document_id for hop in row.hops} if name in documents]
    sources = {document.origin for document in quoted}
    keep = len(sources) > 1 or len(quoted) < 2
    detail = "" if keep else f"all evidence is of {quoted[0].source}"
    return Verdict(keep=keep, reason="quotes_one_source", score=float(len(sources)), detail=detail)


def unrelated_hops(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """Reject two questions in one: nothing joins some of the hops to the others. Score: how many groups they fall into.

    Two hops are joined when they quote one document, when their documents share a name or how one begins (`Øresund
    Bridge`, `Øresund`), or when the plan has an edge between them that is used: the later document speaks of something
    that the earlier quote says.
    """
    places = {node.node_id: number for number, node in enumerate(row.dag_nodes)}
    edges = {
        (places[edge.src], places[edge.dst]) for edge in row.dag_edges if edge.src in places and edge.dst in places
    }
    texts = tuple((document.title, document.text) for document in documents.values())
    names = dict(zip((document.id for document in documents.values()), _names_in(texts), strict=True))
    group = list(range(len(row.hops)))
    for one, other in combinations(range(len(row.hops)), 2):
        if group[one] != group[other] and _is_linked(row.hops, one, other, edges, documents, names):
            old, new = group[other], group[one]
            group = [new if each == old else each for each in group]
    count = len(set(group))
    detail = ""
    if count > 1:
        apart = next(number for number, each in enumerate(group) if each != group[0])
        detail = f"nothing joins {row.hops[apart].document_id} to {row.hops[0].document_id}"
    return Verdict(keep=count < 2, reason="unrelated_hops", score=float(count), detail=detail)


@lru_cache(maxsize=16)
def _names_in(documents: tuple[tuple[str, str], ...]) -> list[list[str]]:
    """Of a bundle's documents, given by title and text, the keys of their names. A bundle has many questions."""
    counts = CaseCounts.of(text for _, text in documents)
    return [[name.key for name in names_of(title, text, counts)] for title, text in documents]


def named_by_score(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """Reject a question that calls a thing by a share or a rate (`the model with 37.1% on ScreenSpot-Pro`) that its
    document names.

    Nobody asks so. In a chain such a clue leads to a thing that the question may not name. Score: how many such clues
    it has.
    """
    quoted = [documents[hop.document_id].text for hop in row.hops if hop.document_id in documents]
    scores = [] if row.dag_edges else [found[0] for found in _SHARE_OR_RATE.finditer(row.question)]
    there = {_bare(score) for text in quoted for score in _SHARE_OR_RATE.findall(text)} if scores else set[str]()
    told = [score for score in scores if _bare(score) in there]
    return count_faults("named_by_score", told, lambda score: f"it calls something by {score!r}")


def calculated(row: BundleQuestion) -> Verdict:
    """Reject a question whose answer is a number that neither a quote nor the question says: a sum, a count.

    Score: how many such numbers the answer has. Nobody asks by how much what one document says exceeds what another
    says; a number in other words (`five`, `$4.3 billion`) is said, and one of the question ("the 8th or the 10th").
    """
    said = _numbers_of(" ".join((row.question, *(hop.evidence for hop in row.hops))))
    numbers = _NUMBER.findall(spell_in_figures(fold(_YEAR_OF_DATE.sub(r"\1", row.answer))))
    unsaid = [each for each in numbers if not _numbers_of(each) <= said] if row.type == "factual" else []
    return count_faults("calculated", unsaid, lambda number: f"no quote says {number}")


def poor_question(fault: str) -> Verdict:
    """Reject a question in which an editing model found the given fault, such as two questions in one. The score is 1
    without a fault, else 0.
    """
    return Verdict(keep=not fault, reason="poor_question", score=float(not fault), detail=fault)


def bad_options(row: BundleQuestion) -> Verdict:
    """Reject a question whose options or answer do not have the form that its type asks for.

    Score: 1 for the right form, else 0. Single choice: four or five options, one of them right. Multiple choice: five
    to seven, two to five right, and at least one wrong (R-Search asks for three to five of about six). No option may
    be `X rather than Y`, which is two options. Open questions have no options, and an answer.
    """
    problem = _choice_problem(row) if row.type in ("single_choice", "multiple_choice") else _open_problem(row)
    return Verdict(keep=problem is None, reason="bad_options", score=float(problem is None), detail=problem or "")


def no_key_facts(row: BundleQuestion) -> Verdict:
    """Reject a question for an explanation that has no key facts, or a key fact of which the gold answer has fewer than
    half of the words.

    Without key facts a judge and a reward could only compare an answer with the gold one. A key fact that the gold
    answer lacks would ask for more than that answer, and without it one document may be enough. Score: how many key
    facts the gold answer says.
    """
    unsaid = [fact for fact in row.key_facts if not speaks_of_fact(row.answer, fact)]
    is_held = row.type != "causal" or bool(row.key_facts and not unsaid)
    detail = "" if is_held else f"its answer does not say {unsaid[0]!r}" if unsaid else "it names no key fact"
    return Verdict(keep=is_held, reason="no_key_facts", score=float(len(row.key_facts) - len(unsaid)), detail=detail)


def invalid_plan(row: BundleQuestion) -> Verdict:
    """Reject a question whose gold plan is no valid NL-DAG, or does not search once for each hop.

    Score: how many rules it breaks.
    """
    problems = [problem.message for problem in validate(SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges))]
    if len(row.dag_nodes) != len(row.hops):
        problems.append(f"{len(row.dag_nodes)} searches for {len(row.hops)} hops")
    return count_faults("invalid_plan", problems, str)


def answer_given_away(row: BundleQuestion) -> Verdict:
    """Reject a question whose own words, or a query of whose gold plan, give the answer away.

    Score: how many of these texts mention it. Options and the two sides of a comparison give nothing away: the question
    offers them to choose from.
    """
    texts = () if row.options or names_two_sides(row) else (row.question, *(node.query for node in row.dag_nodes))
    golds = (row.answer, *row.aliases)
    leaks = [(gold, text) for text in texts for gold in golds if mentions(_without_other_counts(text, gold), gold)]
    return count_faults("answer_given_away", leaks, lambda leak: "{!r} stands in {!r}".format(*leak))


def gold_in_queries(
    row: BundleQuestion, queries: Iterable[str], titles: Iterable[str], *, most: float = 1.0
) -> Verdict:
    """Reject queries that use words which the question alone does not give.

    Score: the largest share of such words in a query. Counted are words that say something and stand in the gold
    documents' titles, the answer or its key facts, but neither in the question nor in its options; other forms of its
    words (`satirical`, of satire), parts of a name that it holds (`BadVideo`) and words that introduce what somebody
    says (`spokesman`) are not. For a question only the score is used, since agents draw plans of their own; a gold plan
    with more than `most` makes no episode (`filters.bundle_episodes`).
    """
    known = content_stems(" ".join((row.question, *row.options, *_PART_OF_NAME.findall(row.question), _INTRODUCING)))
    roots = tuple(word for word in known if len(word) >= _SHORTEST_ROOT)
    told = content_stems(" ".join((*titles, row.answer, *row.key_facts))) - known
    gold = {word for word in told if not word.startswith(roots)}
    found = {query: sorted(content_stems(query) & gold) for query in queries}
    shares = {query: len(words) / len(content_stems(query)) for query, words in found.items() if words}
    worst = max(shares, key=lambda query: shares[query], default="")
    score = shares.get(worst, 0.0)
    detail = "" if score <= most else f"{worst!r} knows {', '.join(found[worst])}"
    return Verdict(keep=score <= most, reason="gold_in_queries", score=round(score, 6), detail=detail)


def stale_document(row: BundleQuestion, documents: Mapping[str, SourceDocument], *, since: str | None) -> Verdict:
    """Reject a question that rests on a document from before a date, which a model may have read in training.

    Score: days from `since` (ISO date) to the oldest document; 0 when no date is asked for. A document without a date
    counts as too old.
    """
    if since is None:
        return Verdict(keep=True, reason="stale_document", score=0.0)
    used = [documents[hop.document_id] for hop in row.hops if hop.document_id in documents]
    undated = [document.id for document in used if not document.published]
    if undated or not used:
        detail = f"{(undated or ['no document'])[0]} has no date"
        return Verdict(keep=False, reason="stale_document", score=0.0, detail=detail)
    oldest = min(used, key=lambda document: document.published or "")
    days = (date.fromisoformat((oldest.published or "")[:10]) - date.fromisoformat(since)).days
    detail = f"{oldest.id} is of {oldest.published}, before {since}" if days < 0 else ""
    return Verdict(keep=days >= 0, reason="stale_document", score=float(days), detail=detail)


def _without_other_counts(text: str, gold: str) -> str:
    """A text without compounds of a number, where the answer is one and the text asks of something else than what they
    count: three of `three-point shots` is no count of shots, and three of a `three-page report` one of its pages."""
    if not spell_in_figures(fold(gold)).strip().isdecimal():
        return text
    asked = content_stems(_COMPOUND.sub(" ", text))
    return _COMPOUND.sub(lambda found: found[0] if content_stems(found["noun"]) & asked else " ", text)


def _bare(score: str) -> str:
    """A share or rate as a number alone."""
    return _NUMBER.findall(score)[0].replace(",", "")


def _numbers_of(text: str) -> set[str]:
    """The digits of its numbers without their scale: `17K` is 17,000, and `$4.3 billion` 4,300 million."""
    figures = _NUMBER.findall(spell_in_figures(fold(text)))
    return {figure.replace(",", "").replace(".", "").strip("0") for figure in figures}


def _occurs(quote: str, document: SourceDocument | None) -> bool:
    if document is None or len(quote.split()) < _SHORTEST_QUOTE:
        return False
    passage = Passage(id=document.id, title=document.title, text=document.text, score=0.0)
    return evidence_recall([quote], [passage]) == 1.0


def _is_linked(
    hops: Sequence[BundleHop],
    one: int,
    other: int,
    edges: set[tuple[int, int]],
    documents: Mapping[str, SourceDocument],
    names: Mapping[str, Collection[str]],
) -> bool:
    first, second = documents.get(hops[one].document_id), documents.get(hops[other].document_id)
    if first is None or second is None or first.id == second.id:
        return True
    if _shares_name(names[first.id], names[second.id]):
        return True
    found = _telling_words(hops[one].evidence) & _telling_words(f"{second.title} {second.text}")
    return (one, other) in edges and bool(found)


def _shares_name(names: Iterable[str], others: Iterable[str]) -> bool:
    """Whether a name of one is a name of the other, or begins one in whole words."""
    pairs = product((f"{name} " for name in names), [f"{name} " for name in others])
    return any(one.startswith(other) or other.startswith(one) for one, other in pairs)


def _telling_words(text: str) -> set[str]:
    return {word for word in normalize_answer(text).split() if len(word) >= _TELLING and word not in COMMON_WORDS}


def _open_problem(row: BundleQuestion) -> str | None:
    words = len(row.answer.split())
    longest = _LONGEST_CAUSE if row.type == "causal" else _LONGEST_FACT
    if row.options or row.correct_options:
        return f"a {row.type} question has no options"
    if not normalize_answer(row.answer):
        return "no answer"
    return f"{words} words are no {row.type} answer" if words > longest else None


def _choice_problem(row: BundleQuestion) -> str | None:
    letters, right = [chr(ord("A") + n) for n in range(len(row.options))], len(row.correct_options)
    fewest, most = (4, 5) if row.type == "single_choice" else (5, 7)
    if not fewest <= len(row.options) <= most:
        return f"{len(row.options)} options; a {row.type} question has {fewest} to {most}"
    if len({normalize_answer(option) for option in row.options}) < len(row.options):
        return "two options say the same"
    if double := next((option for option in row.options if _DOUBLE.search(option)), None):
        return f"{double!r} is two options"
    if not set(row.correct_options) <= set(letters) or len(set(row.correct_options)) < right:
        return f"correct options {', '.join(row.correct_options)} of {letters[0]} to {letters[-1]}"
    if row.type == "single_choice":
        return None if right == 1 else f"{right} correct options; a single_choice question has one"
    is_form = FEWEST_CORRECT <= right <= MOST_CORRECT and right < len(row.options)
    return None if is_form else f"{right} of {len(row.options)} options are correct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmarks:
    """Questions of published benchmarks, which no training question may repeat."""

    questions: tuple[str, ...]
    names: tuple[str, ...]
    """The name of the benchmark that each question is from."""
    ngrams: Mapping[str, int]
    """The position of the first question that has a word n-gram, by the n-gram."""
    vectors: np.ndarray
    """The vectors of the questions, of length 1; shape (len(questions), dim)."""
    n: int


def benchmarks_of(questions: Iterable[tuple[str, str]], vectors: np.ndarray, n: int) -> Benchmarks:
    """Collect benchmarks from pairs (name of the benchmark, question), with the vectors of the questions in their
    order.
    """
    pairs = list(questions)
    ngrams: dict[str, int] = {}
    for position, (_, question) in enumerate(pairs):
        for ngram in ngrams_of(question, n):
            ngrams.setdefault(ngram, position)
    return Benchmarks(
        questions=tuple(question for _, question in pairs),
        names=tuple(name for name, _ in pairs),
        ngrams=ngrams,
        vectors=vectors,
        n=n,
    )


def contaminated(question: str, vector: np.ndarray, benchmarks: Benchmarks, *, most_alike: float) -> Verdict:
    """Reject a question that a benchmark asks too.

    Score: cosine with the nearest question of a benchmark; 1 for a shared n-gram.
    """
    if not benchmarks.questions:
        return Verdict(keep=True, reason="contaminated", score=0.0)
    shared = sorted(ngrams_of(question, benchmarks.n) & benchmarks.ngrams.keys())
    cosines = benchmarks.vectors @ vector
    nearest = benchmarks.ngrams[shared[0]] if shared else int(cosines.argmax())
    score = 1.0 if shared else round(float(cosines[nearest]), 6)
    keep = not shared and score < most_alike
    detail = "" if keep else f"{benchmarks.names[nearest]} asks {benchmarks.questions[nearest]!r}"
    return Verdict(keep=keep, reason="contaminated", score=score, detail=detail)
