"""Make training rows of a stored episode: one for each context window, with corrected mistakes marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from trailforge.protocols.browse.context import windows_of
from trailforge.protocols.browse.mistakes import names_of, sentences_on
from trailforge.protocols.browse.records import plain_text, turns_of
from trailforge.protocols.browse.writings import writing_of
from trailforge.schemas import (
    BrowseRecord,
    BrowseView,
    ChatMessage,
    ErrorType,
    NativeConversation,
    NativeMessage,
    SftRow,
    SpanKind,
    TextSpan,
    estimate_tokens,
)

_ERRORS: dict[str, ErrorType] = {
    "wrong_candidate": "reasoning",
    "wrong_page": "retrieval",
    "dead_end": "retrieval",
}
"""What a mistake of each kind went wrong in, the gravest first."""


def window_rows(row: SftRow, record: BrowseRecord) -> list[SftRow]:
    """Return the training rows of an episode, one for each context window, with the loss on its new turns that can be
    read.

    `row` has what all of them share; its messages are replaced. No turn is trained twice, and a window without trained
    turns gives no row. A row whose new turns correct a mistake is reflective.
    """
    made = []
    windows = [(view, *shown) for view, shown in zip(record.views, _trained(record), strict=True) if any(shown[1])]
    for number, (view, turns, train) in enumerate(windows):
        is_native = record.writing == "native"
        native = NativeConversation(tools=record.tools, messages=tuple(turns)) if is_native else None
        said = tuple(ChatMessage(role=each.role, content=plain_text(each, record.writing)) for each in turns)
        made.append(
            replace(
                row,
                uid=f"{row.uid}-{number}",
                messages=said,
                train=tuple(train),
                segment_index=number,
                segment_count=len(windows),
                token_estimate=sum(estimate_tokens(each.content) for each in said),
                native=native,
                **_marks(record, view, said),
            )
        )
    return made


def _marks(record: BrowseRecord, view: BrowseView, said: Sequence[ChatMessage]) -> dict[str, Any]:
    """The fields that say what a window's new turns mend; none where they mend nothing.

    `spans`: the sentences on a page before it is dropped in the turn that takes it up, and those that drop it.
    """
    mended = [each for each in record.mended if view.first <= each.mended_in < view.end]
    if not mended:
        return {}
    own = [at for at in range(view.start, view.end) if record.messages[at].role == "assistant"]
    shown = [at for at, message in enumerate(said) if message.role == "assistant"]
    places = dict(zip(own, shown, strict=True))
    spans = set[tuple[int, SpanKind, int, int]]()
    for each in mended:
        ways: tuple[tuple[int, SpanKind], ...] = ((record.calls[each.call].turn, "mistake"), (each.mended_in, "mend"))
        for turn, kind in ways:
            if each.kind != "dead_end" and turn in places:
                text = said[places[turn]].content
                found = sentences_on(text, names_of(each), denying=kind == "mend")
                spans |= {(places[turn], kind, *ends) for ends in found}
    return {
        "trajectory_kind": "reflective",
        "reflection_error": next(_ERRORS[kind] for kind in _ERRORS if any(each.kind == kind for each in mended)),
        "error_source": "sampled",
        "spans": tuple(
            TextSpan(message=message, kind=kind, start=start, end=end)
            for message, kind, start, end in sorted(spans, key=lambda span: (span[0], span[2], span[3], span[1]))
        ),
    }


def _trained(record: BrowseRecord) -> Iterator[tuple[Sequence[NativeMessage], list[bool]]]:
    """Windows as the server was sent them, with the loss on their new turns, but for those that cannot be read."""
    readable = {*turns_of(record), *(view.summary for view in record.views)}
    windows = windows_of(record, writing_of(record.writing).mark)
    for view, (turns, train) in zip(record.views, windows, strict=True):
        new = (at for at in range(view.first, view.end) if record.messages[at].role == "assistant")
        yield turns, [is_new and next(new) in readable for is_new in train]
