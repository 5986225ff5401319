"""Audits whether questions can be answered from a corpus: where their documents are, what these state, and which
searches find them.

An audit reads a file of questions and an index, a file of passages, or each question's own paragraphs, and gives every
question one reason. Runs, evaluations and trainings leave out the questions that it found unanswerable (`--audited`).
"""

from trailforge.audit.run import AuditRequest, audit_questions, describe_request

__all__ = ["AuditRequest", "audit_questions", "describe_request"]
