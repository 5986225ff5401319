"""Read answers from replies: remove what a model wraps around them, and recognise abstentions and letters of
options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trailforge.rewards.lists import read_items, split_pieces
from trailforge.rewards.reading import fold
from trailforge.schemas import TrajectoryReward

_BOXED = r"\boxed{"
_LATEX = re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname)\s*\{([^{}]*)\}")
_MARKS = re.compile(r"^\s*(?:#{1,6}\s|[-•]|\*(?!\*)|\d+[.)]\s)?\s*")
_LABEL = re.compile(
    r"(?:(?:so|thus|therefore|hence),? )?(?:(?:(?:my|the) )?(?:final |short |correct )?answer|query|output)"
    r"(?:\s*:|\s+[-–—]\s|\s+is\b(?!\s+in\b)\s*:?|\s*$)\s*",
    re.IGNORECASE,
)
_FINAL = re.compile(r"^\W*final answer\b", re.IGNORECASE)
_QUOTES = "\"'`*“”"
_MEMORY = re.compile(r"\s*[(\[](?:from )?memory[)\]][\s.]*$", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)

_LONGEST_ABSTENTION = 400
"""Characters: a longer text says something else, too."""
_HOW = r"(?:(?:explicitly|directly|clearly|yet|been|be|specifically|currently|stated to be) )*"
_PASSAGES = (
    r"(?:the |these |those |any |provided |given |above |of )*"
    r"(?:passages?|text|context|documents?|paragraphs?|sources?|results?|information)"
)
_UNTOLD = (
    r"(?:specified|stated|mentioned|provided|indicated|disclosed|available|known|found|determined|answered|named"
    r"|listed|clear|applicable|determinable|enough information|sure|announced|identified|described)"
)
_SAY = (
    r"(?:say|says|state|mention|specify|provide|give|contain|include|name|answer|tell|list|indicate|identify|mentions"
    r"|states|specifies|provides|gives|contains|includes|names|answers|tells|lists|indicates|identifies|have|has"
    r"|describe|describes|reveal|reveals)\b"
)
_PLACE = r"(?:[ ,.;:(–-]+(?:in|not|from|by|based|according|as|because|since|given|within|with|at|here|to me|per)\b.*)?"
_ABSTENTION = re.compile(
    r"(?:(?:the |this |it|that|its |his |her |their )[\w' -]{0,80}?\b(?:is|was|are|were|has|have|'s) |it's )?"
    rf"(?:(?:unknown|unclear|undetermined|unspecified|unavailable|n/a|none|unanswerable|no answer|nothing){_PLACE}"
    rf"|not {_HOW}{_UNTOLD}\b.*"
    r"|(?:it )?(?:can ?not|can't|could not|couldn't) be (?:determined|answered|found|known|established|inferred)\b.*"
    rf"|not (?:{_HOW})(?:given|said){_PLACE}"
    r"|unable to (?:determine|answer|find)\b.*|(?:i )?(?:cannot|can't|could not) (?:determine|answer|find|tell)\b.*"
    r"|i (?:do not|don't) know(?:$|[.,;]| (?:the|from|based|which|who|what|when|where|that|if)\b).*"
    r"|i(?: am|'m) not (?:sure|certain)\b.*"
    rf"|(?:none of {_PASSAGES}|no passage|neither passage|{_PASSAGES} (?:do|does|did) ?(?:not|n't)) {_HOW}{_SAY}.*"
    rf"|(?:there is |there's )?(?:no|not enough|insufficient) (?:\w+ )?"
    r"(?:information|mention|evidence|answer|data|details?)\b(?: (?:is|was|about|on|of|in|to|from|for|regarding|given"
    r"|provided|available|found|that)\b.*)?"
    r")"
)
_BUT = re.compile(r"\bbut\b|\bhowever\b|\bthough\b|\blikely\b|\bprobably\b|\bperhaps\b|;")


def read_short_answer(text: str, max_words: int) -> str:
    """Return a reply as a short answer, without what is wrapped around it: one line of at most `max_words` words.

    The last `\\boxed{…}` if there is one, else the line of a "Final Answer", else the first line; without label, marks
    and quotes, and without the full stop at its end.
    """
    answer = " ".join((_in_box(text) or read_first_line(text)).split()[:max_words])
    last_word = answer.rsplit(" ", 1)[-1]
    is_abbreviation = "." in last_word[:-1] or (len(last_word) <= 3 and not last_word[:1].isdigit())
    return answer if is_abbreviation else answer.rstrip(".").rstrip()


def read_first_line(text: str) -> str:
    """Return the first line that is not empty, without quotes, list marks or a label before it."""
    lines = text.splitlines()
    final = next((number for number, line in enumerate(lines) if _FINAL.match(line)), 0)
    for line in lines[final:]:
        if bare := _bare(line):
            return bare
    return ""


def read_memory_mark(answer: str) -> tuple[str, bool]:
    """Return an answer without the mark "(memory)" behind it, and whether it had one."""
    bare = _MEMORY.sub("", answer)
    return bare, bare != answer


def read_yes_or_no(text: str) -> bool | None:
    """Return a reply as a verdict, yes or no, wrapped or not; None when it begins with neither."""
    word = _YES_OR_NO.match(text) or _YES_OR_NO.match(read_short_answer(text, 8))
    return word[1].lower() == "yes" if word else None


def is_yes_and_no(text: str) -> bool:
    """Tell whether an answer says both yes and no ("yes no", "yes or no"), and nothing else, which is no answer."""
    return set(re.findall(r"\w+", text.casefold())) - {"or", "and"} == {"yes", "no"}


def is_abstention(text: str) -> bool:
    """Tell whether an answer only says that there is none ("unknown", "not stated in the passages")."""
    folded = fold(text[: _LONGEST_ABSTENTION + 1]).strip(" .!\"'*()[]")
    if len(text) > _LONGEST_ABSTENTION or not folded:
        return False
    return bool(_ABSTENTION.fullmatch(folded)) and not _BUT.search(folded)


def _bare(line: str) -> str:
    """A line without marks, label and quotes."""
    line = _MARKS.sub("", line, count=1).replace("**", "").strip()
    label = _LABEL.match(line)
    if label:
        line = line[label.end() :]
    line = line.strip().strip(_QUOTES).strip()
    if len(line) > 2 and line[0] == line[-1] == "$":
        line = line[1:-1].strip()
    return line


def _in_box(text: str) -> str:
    """What the last box holds; empty when there is none, or it is not closed."""
    start = text.rfind(_BOXED)
    if start < 0:
        return ""
    depth = 1
    for at in range(start + len(_BOXED), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return _bare(_LATEX.sub(r"\1", text[start + len(_BOXED) : at]).replace("\\ ", " "))
    return ""


# To questions with options

_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[A-Za-z]")
_RESULT = re.compile(
    r"\b(?:answer|option|choice)s?(?: to the question)?(?:\W{0,3}(?:is|are|would be|should be)\b|\*{0,2}:)",
    re.IGNORECASE,
)
# A list of letters before the end of its sentence or line, or before a reason.
_FIRST = re.compile(
    r"\W{0,9}([A-Z](?:(?: ?[,;/&] ?(?:and )?| and )[A-Z])*+)(?=\W{0,3}(?:[.\n]|$)|,? (?:because|since|as)\b)"
)
# Capitals in a row, none twice.
_CAPITALS = re.compile(r"(?:([A-Z])(?!.*\1))+")
_PADDING = frozenset("the correct right final answer answers option options choice choices is are and both".split())
"""Words that may stand around letters without changing what is chosen. `or` and `not` would."""
_MARKED = re.compile(
    r"\(\s*([a-z])\s*\)|\[\s*([a-z])\s*\]"  # (A) or [A] anywhere
    r"|(?:^|[\n,;])[ \t*-]*([a-z])[ \t]*[.):](?=[\s*])",  # A. or A) or A: before an option's text
    re.IGNORECASE | re.ASCII,
)


def score_choice(prediction: str, correct_options: Sequence[str], options: Sequence[str] = ()) -> TrajectoryReward:
    """Return the reward columns for a question with options, by the sets of chosen and correct letters.

    `exact_match` and `total` are 1 when exactly the correct ones are chosen; `cover_exact_match` when all of them are,
    and maybe others. `options` are the texts of the options; an answer that is one of these chooses it
    (`choose_options`).
    """
    chosen, correct = choose_options(prediction, options), {letter.upper() for letter in correct_options}
    exact = float(bool(correct) and chosen == correct)
    return TrajectoryReward(
        total=exact,
        exact_match=exact,
        f1=option_f1(chosen, correct),
        cover_exact_match=float(bool(correct) and correct <= chosen),
    )


def option_letters(text: str) -> frozenset[str]:
    """Return the options that an answer names, as capital letters.

    Of an answer that says where its result stands (`…. The answer is: C`, the paper's figure 4) what follows the last
    such words counts, if that names any. A list of letters is read however it is separated: `A, C`, `A and C`, `A;C`,
    `(a) (c)`, `The correct options are A and C.` Else the letters that are marked as an option's: `A. first text; C)
    third text`, `Both (A) and (C) hold`. Else one word of different capitals: `AC`. Other prose names none: its
    articles are not options.
    """
    said = list(_RESULT.finditer(text))
    if said:
        result = text[said[-1].end() :]
        first = _FIRST.match(result)
        if found := _letters(result) or (_letters(first[1]) if first else frozenset()):
            return found
    return _letters(text)


def _letters(text: str) -> frozenset[str]:
    tokens = [token for token in _WORD.findall(text) if token.lower() not in _PADDING]
    if all(map(_LETTER.fullmatch, tokens)):
        return frozenset("".join(tokens).upper())
    if marked := [letter for found in _MARKED.findall(text) for letter in found if letter]:
        return frozenset("".join(marked).upper())
    return frozenset(tokens[0]) if len(tokens) == 1 and _CAPITALS.fullmatch(tokens[0]) else frozenset()


def choose_options(text: str, options: Sequence[str]) -> frozenset[str]:
    """Return the letters that an answer names or, for one without any, the letters of the options whose texts it lists.

    Lists are read as sets of answers are (`split_pieces`, `read_items`); a piece with anything else in it chooses none.
    """
    if letters := option_letters(text):
        return letters
    said = list(_RESULT.finditer(text))
    chosen = set[str]()
    for piece in (" ".join(text.split()), *split_pieces(text[said[-1].end() :] if said else text)):
        items = [option for _, option in read_items(piece, options)]
        chosen |= set(items) if all(items) else set()
    return frozenset(chr(ord("A") + place) for place, option in enumerate(options) if option in chosen)


@dataclass(frozen=True, slots=True)
class ChoiceChance:
    """Expected scores of guessing at a question with options."""

    exact_match: float
    f1: float


@lru_cache
def chance_of_choice(options: int, correct: int) -> ChoiceChance:
    """Return the scores of a guess at one of `options` where one is correct, else at any non-empty set of them.

    Raises `ValueError` unless 1 <= correct <= options.
    """
    if not 1 <= correct <= options:
        raise ValueError(f"{correct} of {options} options are correct")
    if correct == 1:
        return ChoiceChance(1 / options, 1 / options)
    sets = 2**options - 1
    shares = (
        math.comb(correct, right) * math.comb(options - correct, wrong) * 2 * right / (right + wrong + correct)
        for right in range(1, correct + 1)
        for wrong in range(options - correct + 1)
    )
    return ChoiceChance(1 / sets, sum(shares) / sets)


def option_f1(predicted: Collection[str], correct: Collection[str]) -> float:
    """Return the F1 between two sets of option letters (R-Search, section 3.4), in [0, 1]; 0.0 when either is empty."""
    chosen, wanted = ({letter.upper() for letter in letters} for letters in (predicted, correct))
    common = len(chosen & wanted)
    return 2 * common / (len(chosen) + len(wanted)) if common else 0.0
