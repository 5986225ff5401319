"""Read GAIA (Mialon et al., 2023), the questions of its validation set that come without a file.

    {"task_id": "…", "Question": "…", "Level": 1, "Final answer": "…", "file_name": "", "Annotator Metadata": {…}}

Its authors ask that they are not trained on: name the file as a `--benchmark` of a training set.
"""

from __future__ import annotations

from trailforge.rows import Fields
from trailforge.schemas import InvalidInput, Question

NAME: str = "gaia"
KEYS = frozenset({"task_id", "Question", "Final answer"})
_HIDDEN = "?"
"""The answers of its test set."""


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field, also for a question that comes with a file."""
    if row.text_or_empty("file_name"):
        raise InvalidInput("comes with a file, and agents here read texts that a search finds", field="file_name")
    answer = row.filled_text("Final answer")
    if answer == _HIDDEN:
        raise InvalidInput("its answer is not published", field="Final answer")
    return Question(id=row.filled_text("task_id"), question=row.filled_text("Question"), answer=answer, dataset=NAME)
