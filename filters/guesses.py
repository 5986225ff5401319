"""Detect an agent's guesses: names in a query that it has not read, and admissions in its last turn, whatever the
passages say.

A last turn that says where the answer is from, or that it is nowhere said, is better evidence than the words of
passages, which mention most answers somewhere. Four kinds are heard, clause by clause: that nothing states what is
asked for, that the answer is remembered or well known, that it is guessed or assumed, and that it is only likely. What
a later clause reads from a source takes the first and the last kind back; what a source confirms takes back the others.
That the agent is not sure, of nothing but its answer, is heard too, unless a later clause reads from a source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from trailforge.filters.base import count_faults
from trailforge.filters.facts import SoughtFact, answering_facts, compared_hops, names_asked, subjects_of
from trailforge.filters.grounding import says, tells_of
from trailforge.filters.thoughts import find_unseen_names
from trailforge.rewards import is_abstention, is_never_quoted, mentions, states
from trailforge.schemas import Hop, Passage, Verdict

Bridges = Literal["read_first", "checked", "any"]
"""When a turn may say the answer of a hop other than the last.

`read_first`: once it was given a text that says it. `checked`: before that, too, as a guess that a later search
confirms, but not in a query: names in a query have to have been read, and what they answer, too. `any`: at any time.
"""

_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")
_CLAUSE = re.compile(r"(?<=[.;!?])\s+|\n+|\s[–—-]\s|,?\s+(?=(?:but|however|though|although|yet|still)\b)|,\s+(?=so\b)")
_QUOTED = re.compile(r"“[^“”]*”|\"[^\"]*\"")
_ONE = r"doc(?:ument)?|passage|result|graph|triple|article|text|source|tool|search|record|paragraph|page|entry"
_MANY = (
    r"docs|documents|passages|results|triples|articles|texts|sources|tools|searches|records|paragraphs|pages|entries"
)
_SAY = (
    r"(?:say|state|mention|specify|provide|give|contain|include|name|tell|list|indicate|identify|have|describe|reveal"
    r"|show|record|cover|answer|confirm)(?:e?s)?"
)
_SAID = (
    "(?:said|stated|mentioned|specified|provided|given|named|told|listed|indicated|identified|described|revealed|shown"
    "|recorded|found|known|available|there|clear|disclosed|reported)"
)
_HOW = "(?:(?:explicitly|directly|clearly|really|actually|even|itself|ever|specifically) )*"
_NOT = "(?: ?n[o']t|'t| never| nowhere)"


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(rf"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


_UNSTATED = _any_of(
    rf"(?<!which )\b(?:is|are|was|were|being){_NOT} {_HOW}(?:{_SAID}\b|in (?:the|any|these) (?:{_ONE}|{_MANY})\b)",
    rf"\b(?:nothing|none|nobody|no one|nowhere|neither)\b[^,]*?\b(?:{_SAY}|{_SAID}|on|about)\b",
    rf"\bno (?:\w+ )?(?:{_ONE}|{_MANY}|information|mention|evidence|data|hint|word|trace)\b[^,]*?"
    rf"\b(?:{_SAY}|{_SAID}|on|about|of (?:where|when|who|what|which|how|his|her|its|their|the|it))\b",
    rf"\b(?:{_MANY}|graph|search) (?:do|does|did){_NOT} {_HOW}{_SAY}\b",
    rf"\b(?:could|can|do|did){_NOT} (?:\w+ )?(?:find|see|tell|be (?:found|determined|verified|confirmed))\b",
    r"\b(?:unable|failed) to (?:find|see|tell|determine|verify|confirm)\b",
    rf"\b(?:{_ONE}|{_MANY}) (?:is|are|remains?|stays?) silent\b",
    r"\b(?:is|are|remains?) (?:unknown|missing|unstated|unspecified)\b",
)
_ASIDE = re.compile(r"\b(?:exact|precise|full|better|other|further|more|another|else|reason|why)\b", re.IGNORECASE)
"""What is missing beside the answer: "the exact day is not given"."""
_WORDS_MISSING = re.compile(r"…\s+(?:is|are) missing\b")
"""Quoted words of which a tool has said that they are missing: a find, and nothing that is asked for."""
_NOTHING_MISSING = re.compile(r"\bno(?:thing|ne)\b.*\b(?:missing|lacking|unknown|left|needed)\b", re.IGNORECASE)
_ONE_SOURCE = re.compile(
    r"\W*(?:the (?:graph|first|second|third|fourth|fifth|last|other)|(?:doc(?:ument)?|passage|result) \d)\b",
    re.IGNORECASE,
)
_OTHER_SOURCE = re.compile(
    rf"\b(?:the|but) (?:(?:first|second|third|fourth|fifth|last|other|next)(?: one)?|others?) (?:\w+ )?{_SAY}\b",
    re.IGNORECASE,
)
"""A source that is only counted: "the second says"."""
_REMEMBERED = _any_of(
    r"\b(?:as|it|which|that|this|fact) (?:is |was )?(?:well|widely|commonly|generally|universally)[- ]known\b",
    r"\b(?:as|it|which|that|this)'s (?:well|widely|commonly|generally|universally)[- ]known\b",
    r"\b(?:common|general|background|prior|own|my) (?:\w+ )?(?:knowledge|memory|recollection)\b|\beveryone knows\b",
    r"\bi (?:\w+ )?(?:remember|recall|recollect)\b|\bfrom memory\b|\bif memory serves\b|\boff the top of my head\b",
    r"\b(?:as|so) far as i (?:know|remember|recall|am aware)\b|\bto (?:the best of )?my knowledge\b",
    r"\bi(?: am|'m) not mistaken\b|\bi happen to know\b|\bi know (?:this |it |that )?from (?!the |these |this |doc|a )",
)
_GUESSED = _any_of(
    r"\bguess(?:ing|es|ed)?\b|\bspeculat\w+|\bby (?:elimination|default)\b|\bfor (?:want|lack) of\b",
    r"\bmy (?:best|safest) (?:answer|bet|choice|estimate)\b|\bsafe to (?:assume|say)\b",
    r"\b(?:best|safe(?:st)?) (?:bet|guess|estimate|assumption)\b|\bin the absence of\b",
    r"\b(?:i|we|i'll|let me|let's|i'd) (?:(?:will|would|can|have to|must|just|simply|only|therefore|then) )*"
    r"(?:assume|suppose|presume|infer)\b",
    r"\bwithout (?:any |further |more )?(?:evidence|proof|confirmation|information)\b",
    r"\b(?:since|as|because) the question (?:expects|assumes|presupposes|implies|hints|suggests|must|would)\b",
)
_LIKELY = _any_of(
    r"\b(?:likely|probabl[ey]|presumably|perhaps|maybe|possibly|plausibl[ey]|supposedly|conceivabl[ey])\b",
    r"\bin all likelihood\b|\b(?:must|would) have\b|\b(?:could|may|might) (?:be|have)\b",
    r"\bi (?:think|believe|suspect|am fairly sure|am pretty sure)\s*[.,;]?$",
)
_UNSURE = re.compile(
    r"\W*(?:(?:but|so|though|although|while|and) )?i(?:'m|’m| am) "
    r"(?:not (?:(?:fully|entirely|completely|totally|absolutely|quite|really|very|100 ?%|so|too|that) )?"
    r"(?:sure|certain|confident)|(?:unsure|uncertain))"
    r"(?: (?:of|about) (?:it|this|that|the answer|my answer)| here)?\W*",
    re.IGNORECASE,
)
"""A clause that says no more than that the agent is not sure now: of what else it may be unsure is not the answer."""
_OF_ITS_OWN = re.compile(r"\b(?:his|hers?|their|its)\b", re.IGNORECASE)
_CITES = re.compile(rf"\b(?:{_ONE}|{_MANY}|according to)\b", re.IGNORECASE)
_CONFIRMS = _any_of(
    r"\b(?:confirm|verif|corroborat|agree|bear|bore|prove|match)\w*\b",
    r"\bsays? (?:so|it|the same|as much)\b|\bas well\b",
)


def find_unread_name(
    asked: str,
    question: str,
    facts: Sequence[SoughtFact],
    read: Sequence[Sequence[Passage]],
    place: int,
    *,
    rules: Sequence[str] = (),
    years: bool = True,
) -> str:
    """Return a name in a query that neither the question nor a text read before it contains; empty when there is none.

    Names and numbers are looked for, and the answers of `facts` whatever their capitals. Such an answer must have been
    read about its own subject, or about what the query names beside it: "American" in a passage about some other film
    does not count. Words that the `rules` give an agent are known. Without `years` a year says which of several
    namesakes is meant, and is no claim. `read` has the passages given at each place of the episode; the query is made
    before `place`.
    """
    texts = [f"{each.title}. {each.text}" for given in read[:place] for each in given]
    unseen = find_unseen_names(asked if years else _YEAR.sub(" ", asked), [question, *rules, *texts])
    if found := next(unseen, ""):
        return found
    for fact in facts:
        if said := unread_answer(asked, fact, facts, question, read, place, is_query=True):
            is_shown = any(states(text, said) for text in texts)
            of_it = f"was not read of what {fact.question!r} asks about"
            return f"{said!r} {of_it if is_shown else 'stands in nothing it has seen'}"
    return ""


def unread_answer(
    text: str,
    fact: SoughtFact,
    facts: Sequence[SoughtFact],
    question: str,
    read: Sequence[Sequence[Passage]],
    place: int,
    *,
    is_query: bool = False,
) -> str:
    """Return the name by which a text says the answer of `fact` before it was read; empty where it does not.

    `read` has the passages given at each place of the episode, and the text is written before `place`. A query
    (`is_query`) must rest on a passage about the fact's subject, or about what the query names itself. For other texts,
    whose subject cannot be told, it is enough that the answer was read anywhere. What stands in the question is known,
    and yes and no need not be read.
    """
    said = next((name for name in fact.names if mentions(text, name)), "")
    if not said or any(is_never_quoted(name) or mentions(question, name) for name in fact.names):
        return ""
    if is_query and not mentions(_without_longer_names(text, said, read[:place]), said):
        return ""
    first = _first_told(fact, _subjects(fact, facts, text) if is_query else (), read)
    return said if first is None or first >= place else ""


def _without_longer_names(query: str, answer: str, read: Sequence[Sequence[Passage]]) -> str:
    """A query without what it names by an answer and more, as it was read: "British Rail" does not say "British"."""
    longer = [name for name in names_asked(query) if mentions(name, answer) and not mentions(answer, name)]
    for name in longer:
        if any(mentions(f"{each.title}. {each.text}", name) for given in read for each in given):
            query = query.replace(name, ";")
    return query


def _subjects(fact: SoughtFact, facts: Sequence[SoughtFact], asked: str) -> list[str]:
    """What a fact is asked of; what others with the same answer are; and the names that stand beside it in a query.

    None where its question names nothing: words alone do not tell what a passage is about.
    """
    if not subjects_of(fact):
        return []
    alike = [each for each in facts if set(each.names) & set(fact.names)]
    beside = asked
    for name in sorted(fact.names, key=len, reverse=True):
        beside = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", ";", beside, flags=re.IGNORECASE)
    named = (name for part in re.split("[;,]", beside) for name in names_asked(part))
    return [*(subject for each in alike for subject in subjects_of(each)), *named]


def _first_told(fact: SoughtFact, subjects: Sequence[str], read: Sequence[Sequence[Passage]]) -> int | None:
    """The first place at which the answer was read of one of the subjects, or under a title that its question names; or
    else at all: texts call most things by more than one name. None: nowhere."""
    given = [(n, each) for n, passages in enumerate(read) for each in passages]
    about = [(n, each, [*subjects, *_titled(each, fact)]) for n, each in given if subjects]
    told = (n for n, each, of_what in about for name in fact.names if tells_of(each, name, of_what))
    said = (n for n, each in given for name in fact.names if says(each, name))
    return next(told, next(said, None))


def _titled(passage: Passage, fact: SoughtFact) -> list[str]:
    return [passage.title] if passage.title and mentions(fact.question, passage.title) else []


def guarded_facts(
    question: str, names: Sequence[str], hops: Sequence[Hop], bridges: Bridges
) -> list[tuple[SoughtFact, bool]]:
    """Return the facts whose answers no turn may say before they were read, each with whether a later search can make
    up for a guess of it.

    The first fact is the final answer, under these `names`. `bridges` says whether the facts on the way to it are among
    them: `any` leaves them out, and only with `checked` can a search make up for their guess. A guess is never made up
    for where the last hop compares: to remember when both were born is to answer. Saying a year is saying the date.
    """
    deciding, facts = compared_hops(hops), answering_facts(question, names, hops)
    if deciding or not hops:
        answer, on_the_way = SoughtFact(question, tuple(names)), facts if hops else ()
    else:
        *on_the_way, answer = facts
    guarded = [(answer, False)]
    for number, fact in enumerate(on_the_way if bridges != "any" else (), start=1):
        years = _YEAR.findall(fact.names[0]) if number in deciding else []
        called = replace(fact, names=tuple(dict.fromkeys((*fact.names, *years))))
        guarded.append((called, bridges == "checked" and number not in deciding))
    return guarded


def count_remembering(turns: Sequence[str]) -> int:
    """Count the turns in which the agent itself says that it remembers or guesses something, whether or not it was
    right.
    """
    return sum(bool(_REMEMBERED.search(turn) or _GUESSED.search(turn)) for turn in turns)


def admitted_guess(admission: str) -> Verdict:
    """Reject an episode whose last turn itself says that its answer is a guess; `admission` is the clause that
    `find_admission` returned. Score: 1.0 if there is one.
    """
    return count_faults("admitted_guess", [admission] if admission else [], lambda words: f"it says {words!r}")


def reject_no_search(searches: int) -> Verdict:
    """Reject as `no_search` an episode that answers without a search: it would teach to answer from memory.

    Score: the searches that were executed.
    """
    detail = "" if searches else "no search was executed"
    return Verdict(keep=searches > 0, reason="no_search", score=float(searches), detail=detail)


def reject_unread(named: Sequence[str]) -> Verdict:
    """Reject as `unread_query` an episode whose queries name what the agent had not read. The score is their number;
    `named` lists each such query with what it names, for the detail.
    """
    return count_faults("unread_query", named, str)


def reject_early(said: Sequence[tuple[str, str]]) -> Verdict:
    """Reject as `answer_before_read` an episode in which a turn says the answer before a text given to the agent says
    it.

    `said` has a pair for each such turn: the answer that it says, and the beginning of the turn. The answers of
    intermediate hops are in it where the setting `Bridges` forbids to guess them. The score is the number of such
    turns.
    """
    return count_faults("answer_before_read", said, lambda each: f"{each[0]!r} stands in {each[1][:200]!r}")


def reject_ungrounded(answer: str, stating: int, nothing: str) -> Verdict:
    """Reject as `ungrounded_answer` a final answer that no text given to the agent states; yes and no pass.

    The score is `stating`: how many searches, or turns, gave it a text that does. `nothing` says in the detail what
    lacks the answer.
    """
    keep = stating > 0 or is_never_quoted(answer)
    detail = "" if keep else f"{nothing} says {answer!r}"
    return Verdict(keep=keep, reason="ungrounded_answer", score=float(stating), detail=detail)


def find_admission(turn: str, names: Sequence[str], read: Sequence[str] = ()) -> str:
    """Return the clause by which a last turn admits that it guesses; empty where it does not.

    `names` are the names of the answer. `read` are the texts that were read; a doubt in their words ("probably born in
    Rome") is no guess.
    """
    thought = _QUOTED.sub(" … ", re.sub(r"<answer>.*", "", turn, flags=re.DOTALL))
    clauses = [clause.strip() for clause in _CLAUSE.split(re.sub(r"</?\w+>", " ", thought)) if clause.strip()]
    return next((clause for place, clause in enumerate(clauses) if _admits(clauses, place, names, read)), "")


def _admits(clauses: Sequence[str], place: int, names: Sequence[str], read: Sequence[str]) -> bool:
    clause, later = clauses[place], clauses[place + 1 :]
    if any(_is_own(found, read) for kind in (_REMEMBERED, _GUESSED) for found in kind.finditer(clause)):
        return not any(_CONFIRMS.search(each) and _CITES.search(each) for each in clauses[place:])
    if is_unsure(clause):
        return not any(map(_reads, later))
    if is_unstated(clause):
        found = _UNSTATED.search(clause)
        if found and _CITES.search(clause) and not _is_own(found, read):
            return False
        if _rules_out(clauses, place, names):
            return False
        # What one source lacks, another may have said before.
        before = clauses[:place] if _ONE_SOURCE.match(clause) else ()
        return not any(map(_reads, (*before, *later)))
    is_doubted = any(_is_own(found, read) for found in _LIKELY.finditer(clause))
    return is_doubted and _is_of_answer(clause, names, not later) and not any(map(_reads, later))


def _rules_out(clauses: Sequence[str], place: int, names: Sequence[str]) -> bool:
    """Does a clause leave another branch aside? "Vicki's mother is not named. Her brother is Paul, Ann says": it is
    about somebody whom the clause that says the answer does not name, or about what the answer itself has.
    """
    clause, before = clauses[place], clauses[place - 1] if place else ""
    if clause.startswith("so ") and before and is_unstated(before) and _rules_out(clauses, place - 1, names):
        return True
    if not _named(clause) and _OF_ITS_OWN.search(clause):
        clause = before
    of_whom, telling = _others(clause, names), (*clauses[:place], *clauses[place + 1 :])
    telling = [each for each in telling if any(mentions(each, name) for name in names) and not _is_doubtful(each)]
    return bool(_named(clause)) and any(
        (others or _CITES.search(each))
        and not any(mentions(one, other) or mentions(other, one) for one in of_whom for other in others)
        for each, others in ((each, _others(each, names)) for each in telling)
    )


def _others(clause: str, names: Sequence[str]) -> list[str]:
    return [each for each in _named(clause) if not any(mentions(name, each) or mentions(each, name) for name in names)]


def _named(clause: str) -> list[str]:
    return [each for each in names_asked(clause) if not (each[0].isdigit() or _CITES.match(each))]


def _is_doubtful(clause: str) -> bool:
    return is_unstated(clause) or any(kind.search(clause) for kind in (_REMEMBERED, _GUESSED, _LIKELY))


def _is_own(found: re.Match[str], read: Sequence[str]) -> bool:
    """Are these the agent's words, and neither those of a text that it read nor part of a name?"""
    clause, before = found.string, found.string[: found.start()].split()[-1:]
    is_name = found[0][:1].isupper() and bool(before) and before[0].isalpha() and before[0][0].isupper()
    told = " ".join([found[0], *clause[found.end() :].split()[:1]])
    return not is_name and (told == found[0] or not any(mentions(text, told) for text in read))


def is_unsure(clause: str) -> bool:
    """Tell whether a clause says that the agent is not sure, and of nothing else than its answer."""
    return bool(_UNSURE.fullmatch(clause))


def is_unstated(clause: str) -> bool:
    """Tell whether a clause says that what is asked for is nowhere stated."""
    if any(kind.search(clause) for kind in (_ASIDE, _NOTHING_MISSING, _WORDS_MISSING)):
        return False
    return bool(_UNSTATED.search(clause)) or is_abstention(clause)


def _reads(clause: str) -> bool:
    return bool(_CITES.search(clause) or _OTHER_SOURCE.search(clause)) and not is_unstated(clause)


def _is_of_answer(clause: str, names: Sequence[str], is_last: bool) -> bool:
    """Is it about the answer? Of yes and no, which no clause repeats, the last one is."""
    return any(mentions(clause, name) or (is_last and is_never_quoted(name)) for name in names)
