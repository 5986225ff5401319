"""Write the parts of a row that need no widget as HTML; all text in it is escaped by `visible_text`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trailforge.inspector.visible_text import LONGEST, escape_text, label, mark_spans
from trailforge.pipelines.show import (
    Chips,
    Code,
    Conversation,
    DocumentPanes,
    FieldList,
    Grid,
    GridRow,
    Line,
    Meters,
    Note,
    Part,
    Parts,
    Scores,
    ShortLine,
    ShownDocument,
    StyledText,
    Title,
)
from trailforge.pipelines.show.marks import Marked, clip, cut_out, find_stating, spans
from trailforge.schemas import FilterScore, Message

_RED, _BLUE, _GREEN, _GREY = "209,69,59", "42,111,219", "46,158,91", "128,128,128"
STYLE = f"""
.asked {{ font-size: 1.2rem; font-weight: 600; overflow-wrap: anywhere; white-space: pre-wrap; line-height: 1.35; }}
.chips {{ display: flex; flex-wrap: wrap; gap: .35rem; margin: .2rem 0; }}
.chip {{ font-size: .78rem; padding: .08rem .5rem; border-radius: 1rem; background: rgba({_GREY},.16);
         white-space: nowrap; max-width: 100%; overflow: hidden; text-overflow: ellipsis; }}
.chip.wrong {{ background: rgba({_RED},.22); }} .chip.right {{ background: rgba({_GREEN},.22); }}
.chip.mended {{ background: rgba({_BLUE},.20); }} .chip.warn {{ background: rgba(214,158,0,.30); }}
.quiet {{ font-size: .8rem; opacity: .72; }}
[data-testid="stGraphVizChart"] text {{ fill: currentColor; }}
mark {{ color: inherit; border-radius: 3px; padding: 0 .1rem; background: rgba(232,198,76,.45); }}
mark.found {{ background: rgba(255,140,0,.55); outline: 1px solid rgba(255,140,0,.9); }}
mark.gold, mark.right, mark.hop0 {{ background: rgba({_GREEN},.38); }}
mark.mended, mark.hop1 {{ background: rgba({_BLUE},.34); }} mark.wrong {{ background: rgba({_RED},.34); }}
mark.support {{ background: rgba({_GREEN},.14); border-bottom: 2px solid rgba({_GREEN},.7); border-radius: 0; }}
mark.shared {{ background: none; border-bottom: 2px dotted rgba({_RED},.65); border-radius: 0; }}
mark.hop2 {{ background: rgba(214,158,0,.42); }} mark.hop3 {{ background: rgba(141,105,184,.45); }}
.fields {{ display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1rem; margin: .35rem 0; }}
.fields .name {{ opacity: .7; font-size: .85rem; }}
.fields .value {{ white-space: pre-wrap; overflow-wrap: anywhere; font-size: .92rem; max-height: 20rem;
                 overflow-y: auto; }}
.note {{ padding: .2rem .6rem; border-left: 3px solid rgba({_GREY},.35); margin: .15rem 0; white-space: pre-wrap;
         overflow-wrap: anywhere; font-size: .94rem; border-radius: 3px; }}
.note.right {{ border-left-color: #2e9e5b; background: rgba({_GREEN},.14); }}
.note.wrong {{ border-left-color: #d1453b; background: rgba({_RED},.12); }}
.note.warn {{ border-left-color: #d69e00; background: rgba(214,158,0,.12); }}
.short {{ white-space: nowrap; overflow: hidden; text-overflow: ellipsis; font-size: .9rem; }}
.turn {{ border-left: 4px solid #9aa0a6; padding: .35rem .8rem; margin: .35rem 0; border-radius: 4px;
         background: rgba({_GREY},.07); }}
.turn.trained {{ border-left-color: #2e9e5b; background: rgba({_GREEN},.10); }}
.turn.wrong {{ border-left-color: #d1453b; background: rgba({_RED},.12); }}
.turn.mended {{ border-left-color: #2a6fdb; background: rgba({_BLUE},.10); }}
.turn .head {{ font-size: .75rem; opacity: .75; display: flex; gap: .6rem; }}
.turn .head b {{ font-weight: 600; }}
.turn .head .is-trained {{ background: rgba({_GREEN},.45); border-radius: 1rem; padding: 0 .5rem; }}
.text {{ white-space: pre-wrap; overflow-wrap: anywhere; font-size: .92rem; }}
.turn.folded .text {{ max-height: 14rem; overflow-y: auto; }}
.turn .tag {{ opacity: .5; font-size: .8rem; }} .said.thought {{ opacity: .82; }}
.said.query {{ background: rgba({_BLUE},.18); border-radius: 3px; padding: 0 .15rem; }}
.said.answered {{ background: rgba({_GREEN},.30); border-radius: 3px; padding: 0 .15rem; font-weight: 600; }}
.turn > summary {{ cursor: pointer; }} .turn > summary::before {{ content: "▸"; }}
.turn[open] > summary::before {{ content: "▾"; }} .turn[open] > summary .begin {{ display: none; }}
.turn .begin {{ flex: 1; min-width: 0; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }}
.papers {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(11rem, 100%), 1fr)); gap: .7rem; }}
.paper {{ border: 1px solid rgba({_GREY},.3); border-radius: 6px; padding: .5rem .7rem; min-width: 0; }}
.paper .title {{ font-weight: 600; line-height: 1.25; overflow-wrap: anywhere; max-height: 3.9em; overflow-y: auto; }}
.paper .origin {{ font-size: .76rem; opacity: .7; overflow-wrap: anywhere; margin-bottom: .35rem; }}
.paper .body {{ font-size: .92rem; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 17rem; overflow-y: auto;
               line-height: 1.4; }}
.passage {{ margin: .15rem 0; font-size: .86rem; }}
.passage summary {{ cursor: pointer; overflow-wrap: anywhere; }}
.passage .body {{ white-space: pre-wrap; overflow-wrap: anywhere; max-height: 11rem; overflow-y: auto;
                 padding: .2rem .6rem; border-left: 2px solid rgba({_GREY},.35); }}
.passage.gold .body {{ border-left-color: #2e9e5b; }}
.grid {{ display: grid; font-size: .9rem; }}
.grid > div {{ padding: .35rem .6rem; border-top: 1px solid rgba({_GREY},.25); overflow-wrap: anywhere; min-width: 0; }}
.grid > div > .text {{ font-size: inherit; }}
.grid > .title {{ border: 0; font-size: .78rem; opacity: .72; padding-bottom: .1rem; }}
.grid > .wrong {{ background: rgba({_RED},.10); }} .grid > .mended {{ background: rgba({_BLUE},.09); }}
.grid > .here {{ border-top: 2px solid #e0a800; }}
.meters {{ display: grid; grid-template-columns: max-content 4.5rem 10rem 1fr; gap: .3rem .9rem; align-items: center;
          font-size: .9rem; }}
.meters .bar {{ height: .55rem; border-radius: .3rem; background: rgba({_GREY},.2); overflow: hidden; }}
.meters .bar div {{ height: 100%; background: #2e9e5b; }}
.checks {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: .1rem 1.2rem; }}
.check {{ display: grid; grid-template-columns: 1.1rem 1fr max-content; column-gap: .4rem; font-size: .88rem;
         padding: .15rem .4rem; border-radius: 4px; align-content: start; }}
.check.failed {{ background: rgba({_RED},.12); }}
.check .sign {{ color: #2e9e5b; font-weight: 700; }} .check.failed .sign {{ color: #d1453b; }}
.check .score {{ font-variant-numeric: tabular-nums; }}
.check .meaning {{ grid-column: 2 / 4; font-size: .76rem; opacity: .65; line-height: 1.15; }}
.check .why {{ grid-column: 2 / 4; overflow-wrap: anywhere; }}
"""
_TAG = re.compile(r"(<[^>]*>)")
_SAID = {
    **dict.fromkeys(("think", "reasoning", "reflection"), "thought"),
    **dict.fromkeys(("search", "query", "open", "find", "tool_call", "plan", "dag", "|begin_search_query|"), "query"),
    **dict.fromkeys(("information", "tool_response", "result", "documents", "observation", "knowledge"), ""),
    "|begin_search_result|": "",
    "answer": "answered",
}
"""What agents write between which tags, and tools; as classes."""
_OWN_TAG = re.compile(rf"(&lt;/?(?:{'|'.join(map(re.escape, _SAID))})&gt;|&lt;\|end_search_(?:query|result)\|&gt;)")
_ENDS = ("&lt;/", "&lt;|end_")
_LONGEST_BEGIN = 400
_ROLES = {"system": "system", "user": "user", "assistant": "agent", "tool": "tool"}


def is_static(part: Part) -> bool:
    """Tell whether `html_of` can write this part."""
    return type(part) in _MAKERS


def html_of(*parts: Part) -> str:
    """Write parts as HTML, under each other. Raises `KeyError` for a part that is a widget."""
    return "".join(_MAKERS[type(part)](part) for part in parts)


def mark_found(html: str, sought: Sequence[str]) -> str:
    """Mark the searched texts in HTML, wherever they occur in its text."""
    texts = sorted({escape_text(text) for text in sought if text}, key=len, reverse=True)
    if not texts:
        return html
    pattern = re.compile(f"({'|'.join(map(re.escape, texts))})|&#?\\w+;", re.IGNORECASE)  # `amp` is not in `&amp;`
    pieces = _TAG.split(html)  # text and tags take turns
    pieces[::2] = [pattern.sub(_mark_match, text) for text in pieces[::2]]
    return "".join(pieces)


def _mark_match(match: re.Match[str]) -> str:
    return f'<mark class="found">{match[0]}</mark>' if match[1] else match[0]


def line_of(line: Line) -> str:
    """Return a line with its marks as HTML."""
    return "".join(_span(StyledText(part) if isinstance(part, str) else part) for part in _parts(line))


def _parts(line: Line) -> Sequence[str | StyledText]:
    return [line] if isinstance(line, str | StyledText) else line


def _span(span: StyledText) -> str:
    text = escape_text(span.text)
    if not text or not span.kind:
        return text
    if span.kind == "strong":
        return f"<b>{text}</b>"
    if span.kind == "quiet":
        return f'<span class="quiet">{text}</span>'
    return f'<mark class="{escape_text(span.kind)}">{text}</mark>'


def _title(part: Title) -> str:
    return f'<div class="asked">{escape_text(part.text)}</div>'


def _chips(part: Chips) -> str:
    chips = (
        f'<span class="chip {c.kind}" title="{escape_text(c.help)}">{escape_text(c.text)}</span>' for c in part.chips
    )
    return f'<div class="chips">{"".join(chips)}</div>'


def _fields(part: FieldList) -> str:
    cells = (
        f'<div class="name">{escape_text(name)}</div><div class="value">{line_of(value)}</div>'
        for name, value in part.fields.items()
    )
    return f'<div class="fields">{"".join(cells)}</div>'


def _note(part: Note) -> str:
    return f'<div class="note {part.kind}">{line_of(part.line)}</div>'


def _short_line(part: ShortLine) -> str:
    return f'<div class="short">{line_of(part.begin)}<span class="quiet">{line_of(part.end)}</span></div>'


def _code(part: Code) -> str:
    return f'<pre class="text">{escape_text(part.text)}</pre>'


def _conversation(part: Conversation) -> str:
    turns = enumerate(part.messages, start=part.first)
    return "".join(_turn(number, message, part) for number, message in turns)


def _turn(number: int, message: Message, part: Conversation) -> str:
    note = part.notes.get(number, StyledText(""))
    trained = '<span class="is-trained">trained</span>' if message.train else "<span>not trained</span>"
    trained = trained if part.is_for_training else ""
    classes = " ".join(filter(None, ("turn", "trained" if message.train else "folded", note.kind)))
    word = f"<span>{escape_text(note.text)}</span>" if note.text else ""
    head = f"<b>{number} · {_ROLES[message.role]}</b>{trained}{word}"
    is_prompt = message.role == "system" or (message.role == "user" and number <= 1)
    is_found = not is_prompt and message.role != "assistant"
    text = _colour_tags(mark_spans(message.content, _gold_marks(message.content, part.golds) if is_found else []))
    if is_prompt:
        begin = label(message.content, _LONGEST_BEGIN)
        head = f'<summary class="head">{head}<span class="begin">{begin}</span></summary>'
        return f'<details class="{classes}">{head}<div class="text">{text}</div></details>'
    return f'<div class="{classes}"><div class="head">{head}</div><div class="text">{text}</div></div>'


def _gold_marks(text: str, golds: Sequence[str]) -> list[tuple[int, int, str]]:
    """Gold answers in what was found, and what is around them in the sentence that states one."""
    answers: list[tuple[int, int, str]] = [*spans(text, [Marked(kind="gold", answers=(*golds,))])]
    stating = find_stating(text[:LONGEST], (*golds,)) if golds else None
    if stating is None:
        return answers
    around = cut_out([stating], [(begin, end) for begin, end, _ in answers])
    return [*answers, *((*place, "support") for place in around)]


def _colour_tags(html: str) -> str:
    """The HTML of a turn with its tags quiet, and what stands between two of them coloured by what it is."""
    shown: list[str] = []
    kind = ""
    for number, piece in enumerate(_OWN_TAG.split(html)):
        if number % 2:  # text and tags take turns
            kind = "" if piece.startswith(_ENDS) else _SAID[piece.removeprefix("&lt;").removesuffix("&gt;")]
            shown.append(f'<span class="tag">{piece}</span>')
        else:
            shown.append(f'<span class="said {kind}">{piece}</span>' if kind else piece)
    return "".join(shown)


def _documents(part: DocumentPanes) -> str:
    if part.is_folded:
        return "".join(map(_passage, part.documents)) or '<div class="quiet">no passage</div>'
    return f'<div class="papers">{"".join(map(_paper, part.documents))}</div>'


def _halves(document: ShownDocument) -> tuple[str, str]:
    cut, whole = len(document.title), len(document.whole)
    title = [(*at, kind) for *place, kind in document.marks if (at := clip((place[0], place[1]), 0, cut))]
    text = [(*at, kind) for *place, kind in document.marks if (at := clip((place[0], place[1]), cut + 1, whole))]
    return mark_spans(document.title, title), mark_spans(document.text, text)


def _passage(document: ShownDocument) -> str:
    title, text = _halves(document)
    summary = f'<b>{title}</b> <span class="quiet">{line_of(document.origin)}</span>'
    opened = " open" if document.is_open else ""
    return (
        f'<details class="passage {document.kind}"{opened}><summary>{summary}</summary>'
        f'<div class="body">{text}</div></details>'
    )


def _paper(document: ShownDocument) -> str:
    title, text = _halves(document)
    return (
        f'<div class="paper"><div class="title">{title}</div><div class="origin">{line_of(document.origin)}</div>'
        f'<div class="body">{text}</div></div>'
    )


def _grid(part: Grid) -> str:
    widths = " ".join(f"minmax(0,{width:g}fr)" for width in part.widths or [1] * len(part.head))
    head = "".join(f'<div class="title">{escape_text(title)}</div>' for title in part.head)
    return f'<div class="grid" style="grid-template-columns:{widths}">{head}{"".join(map(_row, part.rows))}</div>'


def _row(row: GridRow) -> str:
    return "".join(f'<div class="{row.kind}">{_cell(cell)}</div>' for cell in row.cells)


def _cell(cell: Parts | Line) -> str:
    parts: list[Any] = [cell] if isinstance(cell, str | StyledText) else list(cell)
    if any(isinstance(each, Part) for each in parts):
        return html_of(*parts)
    return f'<div class="text">{line_of(parts)}</div>'


def _meters(part: Meters) -> str:
    cells = (
        f"<div>{escape_text(name.replace('_', ' '))}</div><div><b>{_number(value)}</b></div>{_bar(value)}"
        f'<div class="quiet">{escape_text(meaning)}</div>'
        for name, (value, meaning) in part.parts.items()
    )
    return f'<div class="meters">{"".join(cells)}</div>'


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _bar(value: float | None) -> str:
    return f'<div class="bar"><div style="width:{100 * min(max(value or 0.0, 0.0), 1.0):.0f}%"></div></div>'


def _scores(part: Scores) -> str:
    """All scores, those that did not pass first."""
    if not part.filters:
        return '<div class="quiet">No filter has measured this row.</div>'
    ordered = sorted(part.filters, key=lambda score: score.passed)
    return f'<div class="checks">{"".join(_check(score, part.meanings.get(score.name, "")) for score in ordered)}</div>'


def _check(score: FilterScore, meaning: str) -> str:
    """What was measured in words; what it would have been rejected for is told loud only where it was."""
    sign, kind = ("✓", "passed") if score.passed else ("✗", "failed")
    name, measured = escape_text(score.name), escape_text(meaning)
    first, second = (measured or name, name if measured else "") if score.passed else (f"<b>{name}</b>", measured)
    why = f'<div class="why">{escape_text(score.reason)}</div>' if score.reason else ""
    return (
        f'<div class="check {kind}"><span class="sign">{sign}</span><span>{first}</span>'
        f'<span class="score">{score.score:.3g}</span><div class="meaning">{second}</div>{why}</div>'
    )


_MAKERS: Mapping[type[Part], Callable[[Any], str]] = {
    Title: _title,
    Chips: _chips,
    FieldList: _fields,
    Note: _note,
    ShortLine: _short_line,
    Code: _code,
    Conversation: _conversation,
    DocumentPanes: _documents,
    Grid: _grid,
    Meters: _meters,
    Scores: _scores,
}
