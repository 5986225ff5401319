"""What a writer is told of a draft that was rejected."""

from __future__ import annotations

from dataclasses import replace

from tests.support.bundle_drafts import ITEM
from trailforge.generators.document_bundles.write import describe_rejection
from trailforge.schemas import Verdict

DOCUMENTS = [replace(ITEM.documents[0], id=id) for id in ("D1", "D12", "a and b")]


def told(reason: str, detail: str) -> str:
    return describe_rejection(Verdict(keep=False, reason=reason, score=1.0, detail=detail), DOCUMENTS)


def test_a_document_is_named_by_its_number_and_no_part_of_another_id_or_of_a_reply_is() -> None:
    assert told("fewer_documents_suffice", "D12 give it: 'Vitamin D1'") == (
        "A reader of one document alone has the answer: [2] give it: 'Vitamin D1'"
    )
    assert told("unsupported_quote", "D1 does not say 'D12 and D1'") == (
        "A quote is not there: [1] does not say 'D12 and D1'"
    )
    assert told("unsupported_quote", "D123 does not say 'D1'") == "A quote is not there: D123 does not say 'D1'"


def test_of_several_documents_that_suffice_all_are_named() -> None:
    assert told("fewer_documents_suffice", "D12 and a and b give it: 'x'") == (
        "A reader of 2 documents alone has the answer: [2] and [3] give it: 'x'"
    )
