"""Whether questions can be answered from what is searched: their documents, what these state, and what finds them.

An audit reads a file of questions and an index, a file of passages, or each question's own paragraphs, and gives every
question one reason. Runs, evaluations and trainings leave out what it found not to be answerable (`--audited`).
"""

from trailforge.audit.run import AuditRequest, audit_questions, describe_request

__all__ = ["AuditRequest", "audit_questions", "describe_request"]
