"""Tags in text, the first of two ways to write a turn: a thought, and calls or the answer.

assistant   <think>…</think>
            <search>query</search>
            <open>page id
            part 2</open>
            <find>page id
            words</find>                                 one or several of these, in any order
tool        <result>…</result>                           one for each call, in their order
assistant   <think>…</think>
            <answer>…</answer>
"""

from __future__ import annotations

import re

from trailforge.protocols.base import tag_pattern
from trailforge.protocols.browse.actions import (
    AnswerAction,
    BadCall,
    BrowseTurn,
    Call,
    FindAction,
    Mend,
    OpenAction,
    SearchAction,
    call_name,
    citations_in,
    make_call,
)
from trailforge.schemas import MalformedReply

CALLS = ("search", "open", "find")
ACTIONS = (*CALLS, "answer")
STOP = ("<result>",)
"""Strings at which generation stops: an agent that went on here would write its own results."""

_TAG = tag_pattern(("think", *ACTIONS))
_PLAIN = re.compile(rf"<(/?)({'|'.join(('think', *ACTIONS))})>")
_PART = re.compile(r"(?:part\b)?[\s:#]*+(\d{1,9})", re.IGNORECASE)
_PART_BESIDE = re.compile(r"(.*\S)\s*[,;|]\s*part[\s:#]*+(\d{1,9})", re.IGNORECASE)


def write_tags(turn: BrowseTurn) -> str:
    """Return a turn as text, from which `read_tags` reads the same turn."""
    thought = "\n".join(filter(None, (turn.thought, turn.said)))
    actions = [_write_call(call) for call in turn.calls]
    if turn.answer is not None:
        actions.append(f"<answer>{turn.answer.text}</answer>")
    return "\n".join([f"<think>{thought}</think>", *actions])


def _write_call(call: Call) -> str:
    match call:
        case SearchAction():
            body = call.query
        case OpenAction():
            body = f"{call.page}\npart {call.part}" if call.part else call.page
        case FindAction():
            body = f"{call.page}\n{call.text}"
        case BadCall():
            body = call.written
    return f"<{call_name(call)}>{body}</{call_name(call)}>"


def read_tags(text: str) -> BrowseTurn:
    """Parse a text into a turn, repairing small errors. Raises `MalformedReply`, saying what is wrong."""
    plain = _TAG.sub(lambda match: f"<{match[1]}{match[2].lower()}>", text)
    mends: dict[Mend, None] = {"tag_spelling": None} if plain != text else {}
    thought, rest = _split_thought(plain, mends)
    calls, answers = list[Call](), list[str]()
    for name, body in _actions(rest, mends):
        if name == "answer":
            answers.append(body)
        else:
            calls.append(_read_call(name, body, mends))
    if not calls and not answers:
        raise MalformedReply("expected a thought, then calls of search, open or find, or one answer; found neither")
    if answers and (calls or len(answers) > 1):
        raise MalformedReply("an answer stands alone: one answer, and no call beside it")
    if answers and not answers[0]:
        raise MalformedReply("empty answer")
    answer = AnswerAction(text=answers[0], citations=citations_in(thought, answers[0])) if answers else None
    return BrowseTurn(thought=thought, calls=tuple(calls), answer=answer, mends=tuple(mends))


def _split_thought(text: str, mends: dict[Mend, None]) -> tuple[str, str]:
    """The thought that a turn begins with, and what follows it."""
    opening, closing = text.find("<think>"), text.find("</think>")
    first = min((at for name in ACTIONS if (at := text.find(f"<{name}>")) >= 0), default=len(text))
    if 0 <= opening < closing:  # what it calls inside of a thought is only thought of
        before, thought, rest = (
            text[:opening],
            text[opening + len("<think>") : closing],
            text[closing + len("</think>") :],
        )
        if opening > first:
            before, thought, rest = "", "", text
            mends["missing_thought"] = None
    elif 0 <= opening < first:
        before, thought, rest = text[:opening], text[opening + len("<think>") : first], text[first:]
        mends["closing_think"] = None
    elif 0 <= closing < first:
        before, thought, rest = "", text[:closing], text[closing + len("</think>") :]
        mends["opening_think"] = None
    else:
        before, thought, rest = "", text[:first], text[first:]
        if thought.strip():
            mends["untagged_thought"] = None
    if before.strip():
        mends["loose_text"] = None
    if not thought.strip():
        mends["missing_thought"] = None
    return thought.strip(), rest


def _actions(text: str, mends: dict[Mend, None]) -> list[tuple[str, str]]:
    """Names and bodies of the actions of a text, in order; what stands between them is left out."""
    found, at, loose = list[tuple[str, str]](), 0, list[str]()
    for tag in _PLAIN.finditer(text):
        if tag.start() < at:
            continue
        loose.append(text[at : tag.start()])
        name, at = tag[2], tag.end()
        if tag[1]:
            mends["loose_text"] = None
            continue
        following = _PLAIN.search(text, at)
        end = following.start() if following is not None else len(text)
        if not text.startswith(f"</{name}>", end):
            mends["closing_tag"] = None
        body = text[at:end].strip()
        at = end + len(f"</{name}>") if text.startswith(f"</{name}>", end) else end
        if name == "think":
            mends["surplus_thought"] = None
        else:
            found.append((name, body))
    if "".join([*loose, text[at:]]).strip():
        mends["loose_text"] = None
    return found


def _read_call(name: str, body: str, mends: dict[Mend, None]) -> Call:
    if name == "search":
        return make_call(name, body, query=body)
    page, _, rest = (part.strip() for part in body.partition("\n"))
    if name == "find":
        if not rest and (split := page.partition("|"))[2].strip():
            page, rest = split[0].strip(), split[2].strip()
            mends["joined_lines"] = None
        return make_call(name, body, page=page, text=rest)
    if not rest:
        if (beside := _PART_BESIDE.fullmatch(page)) is None:
            return make_call(name, body, page=page)
        mends["joined_lines"] = None
        page, rest = beside[1], beside[2]
    part = _PART.fullmatch(rest)
    return make_call(name, body, page=page, part=int(part[1]) if part else rest)
