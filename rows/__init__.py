"""Read rows from files of any supported format: the one reader for questions, documents, passages and triples.

The format is detected from the content: JSON Lines, a JSON list, a JSON object around the list, CSV (commas,
semicolons, tabs or bars), Parquet; any of them may be packed with gzip.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trailforge.doors import lazy_names
from trailforge.rows.files import EXPECTED, InvalidRow, JsonRow, check_text, head_of, open_file
from trailforge.rows.json_rows import IsRow, line_rows, list_rows, object_rows
from trailforge.rows.tables import Choose, Unnamed, csv_rows, parquet_rows
from trailforge.schemas import InvalidInput

if TYPE_CHECKING:
    from trailforge.rows.dates import iso_date as iso_date
    from trailforge.rows.fields import Asides as Asides
    from trailforge.rows.fields import Fields as Fields
    from trailforge.rows.fields import expect as expect
    from trailforge.rows.fields import flattened as flattened
    from trailforge.rows.fields import is_missing as is_missing
    from trailforge.rows.fields import split_contents as split_contents
    from trailforge.rows.html_text import html_to_text as html_to_text
    from trailforge.rows.html_text import plain_text as plain_text
    from trailforge.rows.json_rows import parsed as parsed
    from trailforge.rows.tables import COLUMNS as COLUMNS
    from trailforge.rows.tables import bare_name as bare_name
    from trailforge.rows.tables import check_column_map as check_column_map
    from trailforge.rows.tables import check_met as check_met
    from trailforge.rows.tables import find_columns as find_columns
    from trailforge.rows.tables import parse_column_map as parse_column_map
else:
    __getattr__, __dir__ = lazy_names(__name__)


__all__ = ["InvalidRow", "JsonRow", "open_file", "read_rows", "rows_of"]

_PARQUET = b"PAR1"
_JSON = (".json", ".jsonl", ".ndjson")


def _all(names: Sequence[str]) -> Sequence[str]:
    return names


def read_rows(
    path: Path,
    *,
    is_row: IsRow = lambda keys: False,
    choose: Choose = _all,
    unnamed: Unnamed = lambda cells: None,
    plain_tabs: bool = False,
) -> Iterator[JsonRow | InvalidRow]:
    """Stream the rows of a file in order; empty lines are left out.

    `is_row` tells whether an object with these keys is a row; one that is alone in its file and is none may hold the
    list of rows. `choose` returns the columns of a table that are wanted. `unnamed` returns the names of a table's
    columns, given its first record, when that is no header. `plain_tabs` makes quotes in a table with tabs ordinary
    letters (`tables.csv_rows`). Raises `InvalidInput` for a file that is missing, a folder, unreadable, no UTF-8 text
    or cut short, and for a broken JSON list, in which nothing after the error can be told apart.
    """
    with open_file(path) as file:
        yield from rows_of(file, path, is_row=is_row, choose=choose, unnamed=unnamed, plain_tabs=plain_tabs)


def rows_of(
    file: io.BufferedReader[Any],
    path: Path,
    *,
    is_row: IsRow = lambda keys: False,
    choose: Choose = _all,
    unnamed: Unnamed = lambda cells: None,
    plain_tabs: bool = False,
) -> Iterator[JsonRow | InvalidRow]:
    """Stream the rows of a file that `open_file` opened and of which nothing is read yet, with the parameters and
    errors of `read_rows`. `path` is its name, for messages.
    """
    head = head_of(file)
    if head.startswith(_PARQUET):
        yield from parquet_rows(file, path, choose)
        return
    check_text(head)
    if head.startswith(b"<"):
        raise InvalidInput(f"XML or HTML; expected {EXPECTED}", file=path)
    if head.startswith(b"["):
        first, _, rest = head.partition(b"\n")
        is_lines = first.rstrip().endswith(b"]") and rest.lstrip().startswith(b"[")
        yield from (line_rows if is_lines else list_rows)(file, path)
    elif head.startswith(b"{"):
        yield from object_rows(file, path, is_row)
    elif _is_named_json(path) or head.partition(b"\n")[2].lstrip().startswith(b"{"):  # its first line is broken
        yield from line_rows(file, path)
    elif head:
        yield from csv_rows(file, path, choose, unnamed, plain_tabs=plain_tabs)
    else:  # nothing, or nothing but white space for a long while
        yield from line_rows(file, path)


def _is_named_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(_JSON)
