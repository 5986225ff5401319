"""Decide before any model is called whether a question can be asked at all, and which sentences state its answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

from trailforge.filters.answers import content_stems
from trailforge.filters.base import mentions_any, names_of_answer
from trailforge.filters.gold_hops import golds_of_hops
from trailforge.filters.grounding import CHOICE, is_computed, says, says_turned, supports
from trailforge.mcts import asked_for, gold_plan, references, resolve
from trailforge.retrieval import split_sentences
from trailforge.rewards import is_never_quoted, is_people, other_names, restate_quantities, spell_in_figures, states
from trailforge.rewards.reading import date_of, find_dates, fold, is_number
from trailforge.schemas import Document, Passage, Question, Step, Verdict

_TEXTS = Sequence[Passage] | Sequence[Document]

_ODD = re.compile(
    r"\b(?:of|was|were|is|are) (?:who|where|what|when) (?:the|was|is|were|are|did|does|has|had|[a-z]+(?:ed|s|t))\b"
    r"|\b(?:[Tt]he|an?|his|her|its) #\d|#\d+ (?:state|city|country)\b|\bof #\d+ [a-z]+\?$|#\d+ #\d"
)
"""What comes of joining questions by rules: "of who was Rotrude's father's era", "the #1 of #2", "of #1 father?"."""
_ASKS = re.compile(
    r"\b(?:who|whom|whose|what|when|where|which|why|how)\b|^(?:is|are|was|were|did|does|do|has|name)\b", re.I
)
DOUBTFUL = "doubtful_gold"
_PREPOSITION = r"(?:in|at|on|from|to|of|by|for|during|near|since|until|around|with)"
_ASKS_LATE = re.compile(rf"\b{_PREPOSITION} +(?P<word>which|what)(?P<rest> +\w+)\W*$", re.IGNORECASE)
"""A question that asks at its end: "… was born in which city?"."""
_ASKS_EARLY = re.compile(
    rf"(?:^|, *(?:and +)?)(?:{_PREPOSITION} +)?(?P<word>who|whom|whose|where|when|which|what|how|why)\b(?P<rest>.*)",
    re.IGNORECASE,
)
"""One that asks at its beginning, or behind what it says first: "Of the two, who …". A question word within a clause
("the man who …") asks for nothing."""
_AUXILIARY = r"(?:is|was|are|were|do|does|did|has|have|had|can|could|will|would)"
_NOUN = re.compile(
    rf"\W*(?:[\w'’-]+ +){{0,2}}?(?P<noun>\w+)(?=\W*$| +(?:{_AUXILIARY}|{_PREPOSITION}|that|\w+ed)\b)", re.IGNORECASE
)
"""What a question word asks for, "which Italian city": the noun before a verb, and not the "city" of "city council"."""
_RELATION = re.compile(
    rf"\W*(?:{_AUXILIARY}|['’]s) +the +(?:exact +)?(?P<noun>(?:place|date|year|number)s? +of\b|birthplace|birthdate)",
    re.IGNORECASE,
)
"""The same as a relation: "What is the place of birth of …"."""
_KINDS = {
    "a place": frozenset(("city", "town", "village", "place", "birthplace")),
    "a number": frozenset(("year", "number", "date", "birthdate")),
}
"""Kinds of answers by the nouns that ask for them."""
_DIFFERS = re.compile(rf"^\W*{_AUXILIARY}\b.*\b(?:differ|compare|contrast)\b", re.IGNORECASE)
_NAMED_BY_NUMBERS = re.compile(
    r"\b(?:band|group|team|club|duo|perform\w*|s[aiu]ng\w*|record\w*|releas\w*|play\w*)\b", re.I
)
"""Who may go by a number: the band 311."""
_TIMES = frozenset(("once", "twice", "thrice", "none", "no", "zero", "dozen", "pair", "both"))
_NAMES = re.compile(r"(?<!^)\b[A-Z][\w'’-]+|\d")
_LONG, _LONG_TO_SPELL, _STEM = 4, 7, 4
"""Letters of a word that means something, of one that is looked at for its spelling, and that forms of a word share."""
_ALIKE = 0.8
"""Similarity of a word and its misspelling ("tantacle", "tentacled")."""
_HOW_MANY = re.compile(r"\bhow +many +(?P<rest>\w.*)", re.IGNORECASE)
_STEM_OF_COUNTED = 5
_MOST_COUNTED = 20
"""A text that has more things than these does not list them one by one."""


def searched_texts(question: Question, *, own_paragraphs: bool) -> tuple[Document, ...]:
    """Return the texts that an agent may find for a question, as far as the row says: with `own_paragraphs` the
    paragraphs that come with it; else, for a question over a corpus, those of its supporting documents whose text is
    known. Empty where there are none.
    """
    if own_paragraphs:
        return question.paragraphs
    known = [(n, each, question.support_text(each)) for n, each in enumerate(question.supporting_documents)]
    return tuple(Document(id=each.id or str(n), title=each.title, text=text) for n, each, text in known if text)


def stated_hops(question: Question, passages: _TEXTS) -> tuple[str | None, ...]:
    """Return, for each gold hop, the sentence of a passage that states its answer; None where none does.

    The document that is annotated as a hop's support has to have the answer; any other one has to speak of what the hop
    asks, too (`grounding.supports`). Where only the title has it, the title is the quote; where it takes several
    sentences, the whole text is. Without a decomposition the question is one hop, whose answer some passage has to
    have.
    """
    if not question.decomposition:
        names = names_of_answer(question.answer, question.golds) + question.answer_aliases
        found = (quote_of(passage, name) for passage in passages for name in names if says(passage, name))
        return (next(found, None),)
    answers = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
    plan = gold_plan(question.decomposition).sub_questions
    return tuple(
        _quote_of_hop(resolve(asked, answers), [answers[k] for k in references(asked) if k in answers], golds,
                      hop.support_id, passages)
        for asked, golds, hop in zip(plan, golds_of_hops(question), question.decomposition, strict=True)
    )  # fmt: skip


def _quote_of_hop(
    query: str, given: Sequence[str], golds: Sequence[str], support_id: str | None, passages: _TEXTS
) -> str | None:
    ranked = sorted(passages, key=lambda passage: passage.id != support_id)
    names = dict.fromkeys((*golds, *(name for gold in golds for name in other_names(gold))))
    for passage in ranked:
        for name in names:
            is_support = passage.id == support_id and says(passage, name)
            if is_support or supports(passage, query, name, given):
                return quote_of(passage, name)
    return None


def quote_of(passage: Passage | Document, answer: str) -> str:
    """Return the first sentence that contains an answer; the title where only the title does; the whole text where no
    single sentence does.
    """
    for sentence in split_sentences(passage.text):
        if says(Document(id="", title="", text=sentence), answer):
            return sentence
    return passage.title if says(Document(id="", title=passage.title, text=""), answer) else passage.text


def counted_noun(question: str) -> str:
    """Return the noun whose number a question asks for, such as "sisters" in "How many sisters does …"; empty where it
    asks for none.
    """
    found = _HOW_MANY.search(question)
    if found is None:
        return ""
    noun = _NOUN.match(found["rest"])
    return noun["noun"] if noun else found["rest"].split()[0]


def stated_count(question: str, golds: Sequence[str], passages: _TEXTS) -> str | None:
    """Return the sentence that states how many things there are; None where none does, so that they have to be counted.

    A number, above all a small one, is in many sentences by chance: the sentence has to name what is counted, unless
    the number is larger than what texts enumerate. The numbers of a date do not count.
    """
    stem = fold(counted_noun(question))[:_STEM_OF_COUNTED]
    for passage in passages:
        for sentence in (passage.title, *split_sentences(passage.text)):
            plain = _without_dates(fold(sentence))
            is_named = any(word.startswith(stem) for word in plain.split())
            for gold in golds:
                if states(plain, gold) and (is_named or _is_beyond_counting(gold)):
                    return sentence
    return None


def _without_dates(folded: str) -> str:
    for match, _ in reversed(list(find_dates(folded))):
        folded = f"{folded[: match.start()]} {folded[match.end() :]}"
    return folded


def _is_beyond_counting(gold: str) -> bool:
    figures = re.findall(r"\d+(?:\.\d+)?", spell_in_figures(fold(restate_quantities(gold))))
    return any(float(number) > _MOST_COUNTED for number in figures)


def follows_from_hops(question: Question) -> bool:
    """Tell whether the answer follows from the answers of the hops, so that no text has to state it.

    That holds for yes and no, for a choice among things that the question names, and for a comparison or a sum as its
    last hop.
    """
    hops = question.decomposition
    if is_never_quoted(question.answer) or CHOICE.search(question.question):
        return True
    if question.num_hops is not None and 0 < question.num_hops < len(hops):
        return True
    plan = gold_plan(hops).sub_questions
    answers = {number: hop.answer for number, hop in enumerate(hops, start=1)}
    steps = [
        Step(index=n, sub_question=asked, query=resolve(asked, answers), passages=(), answer=hops[n].answer)
        for n, asked in enumerate(plan)
    ]
    return bool(steps) and is_computed(steps[-1], steps[:-1])


def answer_in_question(question: Question) -> Verdict:
    """Reject a question that names its answer: nothing has to be found. Score: 1.0 if it does.

    "The third season" names "season three", and "which centre in Ost has shops" all words of "Ost Centre". A question
    that asks for a choice has to name what is chosen from: "A and B were founded in the same year. Which served it
    first?".
    """
    text, answer = question.question, question.answer
    named = [answer] if mentions_any(text, [answer]) or says_turned(text, answer) else []
    named = named or ([answer] if _has_all_words(text, answer) else [])
    if follows_from_hops(question) or mentions_any(text, [f"{answer} and", f"and {answer}"]):
        named = []
    detail = f"{named[0]!r} stands in {text!r}" if named else ""
    return Verdict(keep=not named, reason="answer_in_question", score=float(len(named)), detail=detail)


def _has_all_words(text: str, answer: str) -> bool:
    """Of an answer of several words, which say something."""
    words = content_stems(answer)
    return len(words) > 1 and words <= content_stems(text)


def gold_not_stated(question: Question, passages: _TEXTS) -> Verdict:
    """Reject a question whose answer no passage that may be searched states, under any name. Score: 1.0 if none does.

    It is kept where the passages are not known, where its answer follows from others, and where no hop and no
    supporting document is annotated, as its answer may then be in words of its own.
    """
    is_annotated = bool(question.decomposition or question.supporting)
    is_known = not passages or not is_annotated or follows_from_hops(question)
    is_known = is_known or stated_hops(question, passages)[-1] is not None
    detail = "" if is_known else f"no text of {len(passages)} that it may search states {question.answer!r}"
    return Verdict(keep=is_known, reason="gold_not_stated", score=float(not is_known), detail=detail)


def doubtful_gold(question: str, golds: Sequence[str]) -> Verdict:
    """Reject a question whose gold answer, by its words, is not of the kind that it asks for: no right answer would
    match it.

    Examples are a people's name for a place ("Italian" for where somebody was born), no number for how many or a year,
    a number for who, a phrase for how two things differ. Score: 1.0 if it is so.
    """
    asked = kind_asked_for(question)
    is_doubtful = asked is not None and not any(_is_of_kind(gold, asked) for gold in golds)
    detail = f"{golds[0]!r} is the gold answer to {question!r}, which asks for {asked}" if is_doubtful else ""
    return Verdict(keep=not is_doubtful, reason=DOUBTFUL, score=float(is_doubtful), detail=detail)


def kind_asked_for(question: str) -> str | None:
    """Return the kind of answer that a question asks for (such as a place or a number), by its question word and the
    noun after it; None for most questions.
    """
    found = _ASKS_LATE.search(question) or _ASKS_EARLY.search(question.strip())
    if found is None:
        return None
    word, rest = found["word"].casefold(), found["rest"]
    if word == "how":
        is_number = re.match(r" +many\b", rest, re.IGNORECASE)
        return "a number" if is_number else "a difference" if _DIFFERS.search(rest) else None
    if word in ("who", "whom", "whose"):
        return None if _NAMED_BY_NUMBERS.search(rest) else "a person"
    if word == "where":
        return None if re.search(r"\bfrom\b", rest, re.IGNORECASE) else "a place"
    if word not in ("which", "what"):
        return None
    told = _RELATION.match(rest) or _NOUN.match(rest)
    noun = (told["noun"] if told else "").casefold().split(" ")[0].removesuffix("s")
    return next((kind for kind, nouns in _KINDS.items() if noun in nouns), None)


def _is_of_kind(gold: str, kind: str) -> bool:
    if kind == "a difference":
        return False
    if kind == "a place":
        return not is_people(gold)
    words = spell_in_figures(fold(gold).replace("-", " ")).split()
    has_number = any(is_number(word) or word in _TIMES for word in words) or any(map(str.isdigit, gold))
    is_figure = date_of(fold(gold)) is not None or not any(map(str.isalpha, gold))
    return not is_figure if kind == "a person" else has_number


def can_be_asked(question: Question, *, own_paragraphs: bool) -> Verdict:
    """Return the first reason that rejects a question by code alone, with the score 0.0 where there is none.
    `own_paragraphs` says that the question's own paragraphs are what is searched, and not a corpus.
    """
    texts = searched_texts(question, own_paragraphs=own_paragraphs)
    named = answer_in_question(question)
    return named if not named.keep else gold_not_stated(question, texts)


def garbled_places(question: Question, passages: _TEXTS) -> list[str]:
    """Return the texts, question or gold sub-questions, that look as if they had been joined wrongly by rules.

    The signs are a question word in mid-sentence, a reference in place of a common noun, a sub-question that asks
    or names nothing, or one with a word that is almost, but not quite, one of the question or the passages.
    """
    whole = question.question
    known = {word for text in (whole, *(f"{p.title} {p.text}" for p in passages)) for word in _long_words(text)}
    found = [whole] if _ODD.search(whole) else []
    titles = {_stem(word) for passage in passages for word in _long_words(passage.title)}
    for hop, asked in zip(question.decomposition, gold_plan(question.decomposition).sub_questions, strict=True):
        words = set(_long_words(" ".join(asked_for(asked))))
        is_relation = ">>" in hop.question
        names_nothing = not is_relation and not references(asked) and not _NAMES.search(asked)
        if (
            _ODD.search(asked)
            or not _ASKS.search(asked)
            or (is_relation and len(references(asked)) > 1)
            or (names_nothing and titles.isdisjoint(map(_stem, words)))
            or any(_is_misspelt(word, known) for word in words if word not in whole.casefold())
        ):
            found.append(asked)
    return found


def _long_words(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if len(word) >= _LONG]


def _is_misspelt(word: str, known: AbstractSet[str]) -> bool:
    if len(word) < _LONG_TO_SPELL or word in known or any(each[:_STEM] == word[:_STEM] for each in known):
        return False
    alike = [each for each in known if each[0] == word[0] and len(each) >= _LONG_TO_SPELL]
    return bool(get_close_matches(word, alike, n=1, cutoff=_ALIKE))


def _stem(word: str) -> str:
    return word[:_STEM]
