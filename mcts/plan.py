"""Operations on plans: references, validity, order, and the split that refines one (MSearcher, section 3.1.1)."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from trailforge.schemas import Hop, Plan, Split, Step

if TYPE_CHECKING:
    import networkx as nx

ENTITY = "[E]"
"""Placeholder in the second half of a split for the answer of the first half."""

DropReason = Literal["malformed", "identical", "no_progress", "invalid"]

_REFERENCE = re.compile(r"#(\d{1,9})")
_BEHIND_ARTICLE = re.compile(r"(?P<before>\b(?:the|an?) +)?#(?P<number>\d{1,9})", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?) +", re.IGNORECASE)
"""Nine digits suffice to be out of range, and keep `int` from refusing a longer number."""
_EMPTY_WORDS = set(
    "a an the who whom whose what which is are was were be been do does did has have had of in on at from "
    "to for by with as it its that this there".split()
)
_ASKED_BY = {
    **dict.fromkeys("city town place location".split(), "where"),
    **dict.fromkeys("year date".split(), "when"),
    **dict.fromkeys("person people".split(), "who"),
}
"""The question word that asks for one of a kind, behind "which" or "what"."""
_QUESTION_WORDS = frozenset("when where why how many much long far old".split())
_LOOSE = re.compile(r"\s+(['’]s\b|n't\b|[,;:.!?)](?=\s|$))|(?<=\()\s+")
"""White space that parts a possessive or a mark from its word, as in texts that were cut into tokens."""
_PUNCTUATION = str.maketrans("", "", string.punctuation.replace("#", ""))


def references(sub_question: str) -> tuple[int, ...]:
    """Return the positions (from 1) of the sub-questions to whose answers a sub-question refers as `#k`, in order of
    appearance, repeats kept.
    """
    return tuple(int(number) for number in _REFERENCE.findall(sub_question))


def dependency_graph(plan: Plan) -> nx.DiGraph:
    """Return the graph with an edge (k, i) where sub-question i needs the answer of k. Nodes are 1-based positions,
    also those out of range."""
    import networkx as nx  # a fifth of a second, which who shows rows does not wait for

    graph = nx.DiGraph()
    graph.add_nodes_from(range(1, len(plan) + 1))
    for position, sub_question in enumerate(plan.sub_questions, start=1):
        graph.add_edges_from((target, position) for target in references(sub_question))
    return graph


def plan_problem(plan: Plan) -> str | None:
    """Return in one line why a plan must not be executed; None when it is valid."""
    if not plan.sub_questions:
        return "the plan has no sub-question"
    for position, sub_question in enumerate(plan.sub_questions, start=1):
        if not _REFERENCE.sub("", sub_question).strip(" ?"):
            return f"sub-question {position} is empty"
        for target in references(sub_question):
            if not 1 <= target <= len(plan):
                return f"sub-question {position} refers to #{target}, which does not exist"
            if target >= position:
                return f"sub-question {position} refers to #{target}, which is not asked before it"
    return None


def execution_levels(plan: Plan) -> list[list[int]]:
    """Return 0-based positions by topological generation: a level needs only the answers of the levels before it."""
    import networkx as nx

    generations = nx.topological_generations(dependency_graph(plan))
    return [sorted(position - 1 for position in level) for level in generations]


def sink(plan: Plan) -> int:
    """Return the 0-based position of the sub-question whose answer is the plan's: the last one that no other refers
    to."""
    graph = dependency_graph(plan)
    return max(position for position in graph if graph.out_degree(position) == 0) - 1


def resolve(sub_question: str, answers: dict[int, str]) -> str:
    """Replace each `#k` by the known answer of sub-question k (from 1); unknown ones stay.

    Where an answer brings its own article, the one before `#k` is dropped: "the #1" with "the Portuguese" gives "the
    Portuguese".
    """

    def put(match: re.Match[str]) -> str:
        answer, before = answers.get(int(match["number"])), match["before"] or ""
        if answer is None:
            return match[0]
        return f"{'' if _ARTICLE.match(answer) else before}{answer}"

    return _BEHIND_ARTICLE.sub(put, sub_question)


def renumbered(sub_question: str) -> str:
    """Renumber a sub-question's references `#k` by first appearance, so that equal questions of different plans compare
    equal.
    """
    numbers = {target: position for position, target in enumerate(dict.fromkeys(references(sub_question)), start=1)}
    return _REFERENCE.sub(lambda match: f"#{numbers[int(match[1])]}", sub_question)


def question_of(steps: Sequence[Step], step: Step) -> str:
    """Return the question that a step of a rollout asked: its sub-question with the answers of the other steps filled
    in."""
    return resolve(step.sub_question, {other.index + 1: other.answer for other in steps})


def apply_split(plan: Plan, split: Split) -> Plan:
    """Replace one sub-question by two and renumber (MSearcher, Eq. 6).

    With i the 1-based position: the first half takes i, the second i + 1, `[E]` becomes `#i`; in what follows
    `#k` with k > i becomes `#k+1` and `#i` becomes `#i+1`, for the second half answers the old sub-question.
    """
    position = split.index + 1
    before = plan.sub_questions[: split.index]
    after = plan.sub_questions[position:]
    second = split.second.replace(ENTITY, f"#{position}")
    shifted = tuple(_shift(sub_question, position) for sub_question in after)
    return Plan(sub_questions=(*before, split.first, second, *shifted))


def split_problem(sub_question: str, split: Split) -> DropReason | None:
    """Return why a proposed split cannot be used, judging it by itself; None when it can. The reason `identical`, that
    a tree already has the plan it makes, is not found here.
    """
    first, second = split.first.strip(), split.second.strip()
    if not first or not second or ENTITY in first or ENTITY not in second:
        return "malformed"
    if set(references(first) + references(second)) != set(references(sub_question)):
        return "invalid"
    whole = normalized(sub_question)
    rest = normalized(second.replace(ENTITY, " "))
    if normalized(first) == whole or normalized(second) == whole or len(rest.split()) < 2:
        return "no_progress"
    return None


def normalized(text: str) -> str:
    """Return the text without case, punctuation and spacing, so that sub-questions that differ in these alone compare
    equal.
    """
    return " ".join(text.casefold().translate(_PUNCTUATION).split())


def plan_key(plan: Plan | Sequence[str]) -> tuple[str, ...]:
    """Return a key that two equal plans share: the final question, then all other sub-questions in a fixed order.

    Each reference is replaced by the sub-question that it refers to, so that neither the order of independent steps nor
    their numbers matter; nor do case, punctuation, articles and the like, nor whether it says "which city" or "where".
    """
    sub_questions = _sub_questions(plan)
    written_out: dict[int, str] = {}
    for position, sub_question in enumerate(sub_questions, start=1):
        written_out[position] = f"({resolve(_core(sub_question), written_out)})"
    last = sink(Plan(sub_questions=sub_questions)) + 1
    return (written_out[last], *sorted(written_out.values()))


def _core(sub_question: str) -> str:
    """What a sub-question asks: without articles and the like, "which city" as "where", "what year" as "when"."""
    words = normalized(sub_question).split()
    if words[:1] in (["which"], ["what"]) and len(words) > 1:
        words = [_ASKED_BY.get(words[1], words[1]), *words[2:]]
    return " ".join(word for word in words if word not in _EMPTY_WORDS) or " ".join(words)


def same_meaning(left: Plan | Sequence[str], right: Plan | Sequence[str]) -> bool:
    """Tell whether two plans ask for the same things with the same dependencies.

    Beyond what `plan_key` ignores, articles and prepositions make no difference, nor does the step at which a condition
    is set: "the birthplace in #1" then "a courthouse in #2", or "the birthplace" then "a courthouse in #2 in #1". A
    reference may point one step earlier or later, if both plans end with the same question over the same steps.
    """
    if plan_key(left) == plan_key(right):
        return True
    (asked, needed, last), (also_asked, also_needed, also_last) = _structure(left), _structure(right)
    return (
        asked == also_asked
        and last == also_last
        and all(needed[words] <= also_needed[words] or also_needed[words] <= needed[words] for words in needed)
        and _asked_before(needed, last) == _asked_before(also_needed, last)
    )


_Asked = frozenset[str]
"""The words of a sub-question, without its references."""


def _structure(plan: Plan | Sequence[str]) -> tuple[list[_Asked], dict[_Asked, frozenset[_Asked]], _Asked]:
    """What the steps ask, sorted; which others each refers to; what the last one asks.

    A step that asks in the same words as an earlier one has its number among its words.
    """
    sub_questions = _sub_questions(plan)
    asked: list[_Asked] = []
    for sub_question in sub_questions:
        words = asked_for(_REFERENCE.sub(" ", sub_question))
        asked.append(words if words not in asked else words | {f"#{len(asked)}"})
    needed = {
        words: frozenset(asked[k - 1] for k in references(sub_question))
        for words, sub_question in zip(asked, sub_questions, strict=True)
    }
    return sorted(asked, key=sorted), needed, asked[sink(Plan(sub_questions=sub_questions))]


def _asked_before(needed: dict[_Asked, frozenset[_Asked]], last: _Asked) -> set[_Asked]:
    """All that a step needs, and what that needs in turn."""
    found: set[_Asked] = set()
    left = [last]
    while left:
        new = needed.get(left.pop(), frozenset()) - found
        found |= new
        left += new
    return found - {last}


def _sub_questions(plan: Plan | Sequence[str]) -> tuple[str, ...]:
    return plan.sub_questions if isinstance(plan, Plan) else tuple(plan)


def asked_for(sub_question: str) -> frozenset[str]:
    """Return the words that say what a sub-question asks: all but articles, prepositions, who and which, to be and to
    do.
    """
    words = normalized(sub_question).split()
    return frozenset(word for word in words if word not in _EMPTY_WORDS) or frozenset(words)


def subject_words(sub_question: str) -> frozenset[str]:
    """Return the words that say what a sub-question is about: its words without references and words such as "when" and
    "how"."""
    return asked_for(_REFERENCE.sub(" ", sub_question)) - _QUESTION_WORDS


def shared_width(width: int, decomposable: tuple[bool, ...]) -> dict[int, int]:
    """Divide an expansion width evenly among the sub-questions that can be split; the first ones get the remainder.
    Returns {position from 0: number of splits}, whose sum is the width; empty when nothing can be split.
    """
    positions = [position for position, splittable in enumerate(decomposable) if splittable]
    if not positions:
        return {}
    share, remainder = divmod(width, len(positions))
    shares = {p: share + (rank < remainder) for rank, p in enumerate(positions)}
    return {position: count for position, count in shares.items() if count}


def gold_plan(hops: tuple[Hop, ...]) -> Plan:
    """Turn the gold decomposition into a plan: `subject >> relation` hops become questions, and punctuation is joined
    to words.
    """
    return Plan(sub_questions=tuple(_as_question(hop.question) for hop in hops))


def _as_question(hop: str) -> str:
    """`Fritz Lang >> place of birth` -> `Where was Fritz Lang born?`; by the relation's name where that will do."""
    subject, _, relation = (part.strip() for part in hop.partition(">>"))
    relation = relation.removesuffix("?").rstrip()
    text = hop
    if subject and relation:
        text = ask_relation(subject, relation)
    text = join_marks(text).strip().rstrip("? ").strip()
    return f"{text[:1].upper()}{text[1:]}?"


def ask_relation(subject: str, relation: str) -> str:
    """Return a question for what has a relation to a subject, both given by their labels; for persons it asks who."""
    if relation in _QUESTIONS:
        return _QUESTIONS[relation].format(subject)
    return f"{'Who' if relation in _PERSONS else 'What'} is the {relation} of {subject}?"


def join_marks(text: str) -> str:
    """Join possessives and punctuation to their words: `#2 's era , please ?` becomes `#2's era, please?`."""
    return _LOOSE.sub(r"\1", text)


def _shift(sub_question: str, position: int) -> str:
    def renumber(match: re.Match[str]) -> str:
        target = int(match[1])
        return f"#{target + 1}" if target >= position else match[0]

    return _REFERENCE.sub(renumber, sub_question)


_QUESTIONS = {
    "award received": "Which award did {} receive?",
    "based on": "What is {} based on?",
    "capital of": "What is {} the capital of?",
    "contains administrative territorial entity": "Which administrative area does {} contain?",
    "country of citizenship": "Of which country is {} a citizen?",
    "crosses": "What does {} cross?",
    "distributed by": "Who distributed {}?",
    "educated at": "Where was {} educated?",
    "followed by": "What follows {}?",
    "follows": "What does {} follow?",
    "founded by": "Who founded {}?",
    "has part": "What is a part of {}?",
    "headquarters location": "Where are the headquarters of {}?",
    "instance of": "What kind of thing is {}?",
    "licensed to broadcast to": "To which place is {} licensed to broadcast?",
    "located in or next to body of water": "In or next to which body of water is {} located?",
    "located in the administrative territorial entity": "In which administrative area is {} located?",
    "located on terrain feature": "On which landform is {} located?",
    "location of formation": "Where was {} formed?",
    "member of": "Of which group is {} a member?",
    "member of political party": "Of which political party is {} a member?",
    "member of sports team": "Which sports team did {} play for?",
    "mouth of the watercourse": "Where is the mouth of {}?",
    "named after": "What is {} named after?",
    "occupant": "Who occupies {}?",
    "owned by": "Who owns {}?",
    "part of": "What is {} part of?",
    "part of the series": "Of which series is {} a part?",
    "participant in": "What did {} take part in?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "present in work": "In which work is {} present?",
    "shares border with": "What shares a border with {}?",
    "work location": "Where did {} work?",
}
_PERSONS = frozenset(
    "architect,artist,author,cast member,chairperson,chief executive officer,child,composer,conductor,creator,designer,"
    "developer,director,director of photography,discoverer or inventor,doctoral advisor,editor,executive producer,"
    "father,film editor,founder,grandfather,grandmother,head coach,head of government,head of state,husband,"
    "illustrator,librettist,mother,narrator,officeholder,partner,performer,presenter,producer,relative,screenwriter,"
    "sculptor,sibling,significant person,spouse,stepparent,student,unmarried partner,voice actor,wife,winner".split(",")
)
"""Relations, by their labels, that lead to persons."""
