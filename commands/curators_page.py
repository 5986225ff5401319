"""What Streamlit runs for the curators' page: `curators_page.py FOLDER WHO`; `trailforge inspect` starts it."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.inspector.deciding import Curation
from trailforge.inspector.page import show_page
from trailforge.pipelines.curated import check_row, decidable, products_of
from trailforge.pipelines.datasets import is_curated
from trailforge.pipelines.runs.finished import OpenRun, open_run, stamp_of
from trailforge.pipelines.runs.intake import read_settings
from trailforge.pipelines.runs.status import books_so_far
from trailforge.schemas import InvalidInput


@st.cache_resource(max_entries=2, show_spinner="Opening the run …")
def open_cached(folder: Path, stamp: Any) -> tuple[OpenRun, tuple[str, ...]]:
    """The run of a folder as it is now, and the tables on whose rows people decide."""
    run, settings = open_run(folder), read_settings(folder)
    if settings is None:
        raise InvalidInput("holds no run", file=folder)
    if run.manifest is None:
        run = replace(run, books=books_so_far(folder, settings))
    return run, () if is_curated(settings) else decidable(run.dataset)


def main(folder: Path, who: str) -> None:
    """The page, once."""
    # Streamlit puts the folder of its script on the path, where `import inspect` would find our command.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    run, tables = open_cached(folder, stamp_of(folder))
    products = products_of(run.dataset)
    curation = Curation(
        tables=tables,
        fixable=lambda table: products[table].fixable if table in products else (),
        check=partial(check_row, run.dataset),
        who=who,
    )
    show_page(run, curation)


main(Path(sys.argv[1]), sys.argv[2])
