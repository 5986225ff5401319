"""Audits whether questions can be answered from a corpus: where their documents are, what these state, and which
searches find them.

An audit reads a file of questions and an index, a file of passages, or each question's own paragraphs, and gives every
question one reason. Runs, evaluations and trainings leave out the questions that it found unanswerable (`--audited`).
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.audit.reading import EXPECTED_TOKENS as EXPECTED_TOKENS
    from trailforge.audit.report import summarise as summarise
    from trailforge.audit.run import AuditRequest as AuditRequest
    from trailforge.audit.run import audit_questions as audit_questions
    from trailforge.audit.run import describe_request as describe_request
    from trailforge.audit.run import estimate_reading as estimate_reading
    from trailforge.audit.run import refuse_other_audit as refuse_other_audit
else:
    __getattr__, __dir__ = lazy_names(__name__)
