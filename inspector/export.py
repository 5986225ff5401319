"""Write the page of a run as files that a browser shows without a server: an overview, a list of each table, a page for
each row. Nothing in them is loaded from another host.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.curation import between_people, by_reason, with_filters
from trailforge.inspector import charts
from trailforge.inspector.deciding import read_run_decisions
from trailforge.inspector.showing import cells, describe, kinds_of, more_of, product_of, show_of
from trailforge.inspector.static_parts import StaticDrawing, table_of
from trailforge.inspector.views.html import STYLE
from trailforge.inspector.visible_text import escape_text
from trailforge.pipelines.engine import output_errors
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.show import ShownTable
from trailforge.schemas import OutputError, install_hint

PLOTLY = "plotly.min.js"
_REJECTED_COLUMNS = ("uid", "stage", "reason", "score", "detail")
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem 2rem 3rem; max-width: 1500px;
       background: Canvas; color: CanvasText; }
nav { display: flex; flex-wrap: wrap; gap: 1.1rem; padding-bottom: .6rem; border-bottom: 1px solid #8885;
      margin-bottom: 1rem; }
a { color: #2e9e5b; } h1 { font-size: 1.25rem; } h2 { font-size: 1.05rem; margin-top: 1.6rem; }
table.rows { border-collapse: collapse; font-size: .88rem; display: block; overflow-x: auto; max-width: 100%; }
table.rows th { text-align: left; font-weight: 600; opacity: .75; }
table.rows td, table.rows th { padding: .22rem .7rem; border-top: 1px solid rgba(128,128,128,.25); max-width: 34rem;
                               overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.metrics { display: flex; flex-wrap: wrap; gap: 1.8rem; } .metrics b { display: block; font-size: 1.4rem; }
.columns { display: grid; gap: 1.2rem; } .fold { margin: .35rem 0; }
.fold > summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
.fold > div { padding: .3rem 0 .3rem .9rem; }
.diagram text { font-size: 12px; fill: currentColor; } .diagram text.line0 { font-weight: 600; }
input.filter { width: 22rem; padding: .3rem .5rem; margin: .3rem 0 .7rem; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'self' file:; img-src data: blob:"
_FILTER = """
const field = document.querySelector("input.filter"), rows = [...document.querySelectorAll("table.rows tbody tr")];
field?.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
});
"""


def export_pages(run: OpenRun, out: Path, most: int) -> Iterator[tuple[int, int]]:
    """Write the pages of a run to a folder that must not exist or be empty, at most `most` rows of each table.

    Yields, after each page, how many are written of how many. Nothing stands at `out` until all are written. Raises
    `OutputError` when files are in the way, or plotly is missing.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise OutputError(f"the charts need the package plotly: {install_hint('page')}") from error
    with output_errors(out):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise OutputError(f"{out} is not empty; give another --export")
        staged = out.parent / f".{out.name}.exporting"
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        try:
            (staged / PLOTLY).write_text(get_plotlyjs(), encoding="utf-8")
            yield from _Site(run, staged, most).write()
            os.replace(staged, out)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise


class _Site:
    """The pages of one run."""

    def __init__(self, run: OpenRun, out: Path, most: int) -> None:
        self._run, self._out, self._most = run, out, most
        shown = [table for table in show_of(run.dataset).tables if table.name in run.tables]
        product = product_of(run.dataset)
        self._tables = sorted(shown, key=lambda table: table.name != product)
        if run.size("rejected"):
            rejected = ShownTable(
                name="rejected", title="Rejected rows", describe=lambda run, row: (), columns=_REJECTED_COLUMNS
            )
            self._tables.append(rejected)

    def write(self) -> Iterator[tuple[int, int]]:
        """Write all pages, as `export_pages` tells."""
        counts = {table.name: min(self._run.size(table.name), self._most) for table in self._tables}
        total = 2 + len(counts) + sum(counts.values())
        self._put("index.html", "Overview", self._overview())
        self._put("decisions.html", "Decisions", self._decisions())
        done = 2
        yield done, total
        for table in self._tables:
            (self._out / table.name).mkdir()
            self._put(f"{table.name}/index.html", table.title, self._list(table, counts[table.name]))
            done += 1
            yield done, total
            for number in range(counts[table.name]):
                self._put(_page_of(table.name, number), table.title, self._row(table, number, counts[table.name]))
                done += 1
                yield done, total

    def _put(self, path: str, title: str, content: str) -> None:
        up = "../" * path.count("/")
        titles = Counter(table.title for table in self._tables)
        named = [
            (f"{table.name}/index.html", table.title + f" ({table.name})" * (titles[table.title] > 1))
            for table in self._tables
        ]
        links = [("index.html", "Overview"), *named]
        nav = "".join(
            f'<a href="{up}{to}">{escape_text(name)}</a>' for to, name in (*links, ("decisions.html", "Decisions"))
        )
        page = (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f"<title>{escape_text(title)} · {escape_text(self._run.run_id)}</title><style>{_STYLE}{STYLE}</style>"
            f'<script src="{up}{PLOTLY}"></script></head><body><nav>{nav}</nav>{content}'
            f"<script>{_FILTER}</script></body></html>"
        )
        (self._out / path).write_text(page, encoding="utf-8")

    def _overview(self) -> str:
        run, drawing = self._run, StaticDrawing()
        product = product_of(run.dataset)
        figures: dict[str, str] = {product.replace("_", " "): f"{run.size(product):,}"}
        if found := run.manifest:
            tokens = found.prompt_tokens + found.completion_tokens
            figures |= {"model": found.model, "calls": f"{found.calls:,}", "tokens": f"{tokens:,}"}
            figures |= {"cost": f"{found.cost:,.2f}", "wall time": f"{found.seconds:,.0f} s"}
        cells = "".join(f"<div>{escape_text(name)}<b>{escape_text(value)}</b></div>" for name, value in figures.items())
        reasons: Counter[str] = Counter()
        for (_, reason), count in run.rejections.items():
            reasons[reason] += count
        parts = [f"<h1>{escape_text(run.run_id)}</h1>", f'<div class="metrics">{cells}</div>', "<h2>Funnel</h2>"]
        parts.append(drawing.chart(charts.funnel(run.books)))
        if reasons:
            parts += ["<h2>Rejected, by reason</h2>", drawing.chart(charts.bars(reasons))]
        parts += self._distributions(product, drawing)
        rows = [{"table": name, "rows": run.size(name)} for name in run.tables]
        return "".join([*parts, "<h2>Tables</h2>", table_of(rows)])

    def _distributions(self, table: str, drawing: StaticDrawing) -> list[str]:
        run, shown = self._run, show_of(self._run.dataset)
        if table not in run.tables:
            return []
        known = shown.table(table)
        stored = run.table(table).schema.names
        columns = [name for name in (kinds_of(run.dataset, known) if known else ()) if name in stored]
        parts: list[str] = []
        for name, count in run.table(table).counts(columns).items() if columns else ():
            parts += [f"<h2>{escape_text(name.replace('_', ' '))}</h2>", drawing.chart(charts.bars(count, charts.KEPT))]
        found = {path: unit for path, unit in shown.numbers.items() if path in run.table(table).numbers()}
        run.table(table).read_ahead(list(found))
        for path, unit in found.items():
            values = run.table(table).values(path)
            if not np.isnan(values).all():
                figure = charts.histogram(values, unit)
                parts += [f"<h2>{escape_text(unit)}</h2>", drawing.chart(figure)]
        return parts

    def _decisions(self) -> str:
        said = read_run_decisions(self._run.folder, self._run.run_id)
        stances, merged = said.stances, said.merged
        if not stances:
            return "<h1>Decisions</h1><p>Nobody has decided on a row.</p>"
        counts = Counter((each.table, each.action) for each in merged.rulings)
        progress = [
            {"table": name, "rows": self._run.size(name), "accepted": counts[name, "accept"],
             "fixed": counts[name, "fix"], "rejected": counts[name, "reject"]}
            for name in sorted({each.table for each in merged.rulings})
        ]  # fmt: skip
        pairs = [
            {"two people": " and ".join(each.people), "rows of both": each.rows, "same": each.same, "kappa": each.kappa}
            for each in between_people(stances)
        ]
        reasons = [
            {"reason": each.reason, "given": each.given, "pairs": each.pairs, "same": each.same, "kappa": each.kappa}
            for each in by_reason(stances)
        ]
        filters = [
            {"who": each.who, "filters kept": each.accepted, "kept too": each.accepted_too,
             "filters rejected": each.rejected, "rejected too": each.rejected_too}
            for each in with_filters(stances)
        ]  # fmt: skip
        sections = {"Progress": progress, "Between people": pairs, "By reason": reasons, "With the filters": filters}
        return "<h1>Decisions</h1>" + "".join(
            f"<h2>{name}</h2>{table_of(rows)}" for name, rows in sections.items() if rows
        )

    def _list(self, table: ShownTable, count: int) -> str:
        run, name = self._run, table.name
        size, more = run.size(name), more_of(run, table)
        columns = table.columns or (run.key_of(name), *kinds_of(run.dataset, table))
        rows = [run.row(name, number) | _of_row(more, number) for number in range(count)]
        cut = f" The first {count:,} of {size:,} rows are here." if count < size else ""
        links = [_page_of("", number).lstrip("/") for number in range(count)]
        return (
            f'<h1>{escape_text(table.title)}: {size:,}</h1><p class="quiet">{escape_text(cut)}</p>'
            f'<input class="filter" placeholder="words in a line">{table_of(cells(rows, columns), links)}'
        )

    def _row(self, table: ShownTable, number: int, count: int) -> str:
        run = self._run
        uid = str(run.row(table.name, number)[run.key_of(table.name)])
        before = f'<a href="{number - 1:06d}.html">previous</a>' if number else ""
        after = f'<a href="{number + 1:06d}.html">next</a>' if number + 1 < count else ""
        place = f"Row {number + 1:,} of {run.size(table.name):,} · {escape_text(uid)}"
        head = f'<p class="quiet">{place} {before} {after}</p>'
        drawing = StaticDrawing()
        record = run.record(table.name, number)
        beside = drawing.write(table.beside(run, record)) if table.beside else ""
        return head + drawing.write(describe(run, table.name, number)) + beside


def _page_of(table: str, number: int) -> str:
    return f"{table}/{number:06d}.html"


def _of_row(more: Mapping[str, Sequence[Any]], number: int) -> dict[str, Any]:
    return {name: values[number] for name, values in more.items()}
