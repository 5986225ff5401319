"""Check the figures of finished data sets, such as yield and cost, against bands: the limits between which they should
lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trailforge.schemas import InvalidInput, Manifest, from_dict

WINDOW = "window"
"""Name of the section of bands for a window of documents; all other sections are named after data sets."""
OF_A_RUN = ("calls_per_accepted_row", "cost_per_accepted_row", "cut_replies")
OF_A_STAGE = ("accepted", "failed")
"""Figures that are shares of a stage's inputs, written `STAGE.accepted`."""
OF_A_WINDOW = ("documents", "questions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The limits of a figure, both inclusive; None means no limit."""

    least: float | None = None
    most: float | None = None

    def holds(self, value: float) -> bool:
        """Tell whether a value lies within the limits."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        bounds = ((word, bound) for word, bound in (("at least", self.least), ("at most", self.most)))
        return " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)


Bands = Mapping[str, Mapping[str, Band]]
"""Bands by data set (or `window`), and then by figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A figure of a run that is outside of its band, with the band's limits."""

    dataset: str
    figure: str
    value: float | None
    """The figure's value; None: there is no such figure, as when no row was accepted, or nothing came into the
    stage."""
    band: Band

    @property
    def line(self) -> str:
        """Return a line that describes the breach to people."""
        value = "is not there" if self.value is None else f"is {self.value:.4g}"
        return f"{self.dataset}: {self.figure} {value}, should be {self.band}"


def read_bands(content: Mapping[str, Any], *, source: object, datasets: tuple[str, ...]) -> Bands:
    """Read the content of a bands file. `datasets` are the names that it may have beside `window`. Raises
    `InvalidInput` naming a field that is no data set, no figure or no band.
    """
    bands: dict[str, dict[str, Band]] = {}
    for dataset, figures in content.items():
        if dataset not in (WINDOW, *datasets):
            problem = f"no data set; there are {', '.join((WINDOW, *datasets))}"
            raise InvalidInput(problem, file=source, field=str(dataset))
        if not isinstance(figures, dict):
            raise InvalidInput("expected a mapping of figures", file=source, field=dataset)
        bands[dataset] = {name: _band(dataset, name, band, source) for name, band in figures.items()}
    return bands


def outside(manifest: Manifest, bands: Bands) -> list[Breach]:
    """Return the figures of a finished run that are outside of the bands of its data set."""
    return find_breaches(manifest.dataset, figures_of(manifest), bands)


def find_breaches(dataset: str, figures: Mapping[str, float | None], bands: Bands) -> list[Breach]:
    """Return the figures of a data set that are outside of their bands. A figure that has a band and no value is
    outside.
    """
    return [
        Breach(dataset=dataset, figure=name, value=value, band=band)
        for name, band in bands.get(dataset, {}).items()
        if (value := figures.get(name)) is None or not band.holds(value)
    ]


def outside_of_window(*, documents: int, questions: int, bands: Bands) -> list[Breach]:
    """Return the figures of a window that are outside of its bands. When no documents came, missing questions follow
    from that and are not listed.
    """
    breaches = find_breaches(WINDOW, {"documents": documents, "questions": questions}, bands)
    no_documents = [breach for breach in breaches if breach.figure == "documents" and not documents]
    return no_documents or breaches


def figures_of(manifest: Manifest) -> dict[str, float | None]:
    """Return all figures of a run that can have a band.

    Calls a minute are not among them: for a run that was resumed, the calls of all its processes are known, but only
    the last process' seconds.
    """
    figures: dict[str, float | None] = {
        "calls_per_accepted_row": manifest.calls_per_accepted_row,
        "cost_per_accepted_row": manifest.cost_per_accepted_row,
        "cut_replies": manifest.cut_replies / manifest.calls if manifest.calls else None,
    }
    for line in manifest.stages:
        if line.inputs:
            figures[f"{line.name}.accepted"] = line.accepted / line.inputs
            figures[f"{line.name}.failed"] = sum(count.count for count in line.failed) / line.inputs
    return figures


def _band(dataset: str, name: str, band: Any, source: object) -> Band:
    field = f"{dataset}.{name}"
    stage, dot, of_stage = name.rpartition(".")
    known = name in OF_A_WINDOW if dataset == WINDOW else name in OF_A_RUN or (dot and stage and of_stage in OF_A_STAGE)
    if not known:
        of_run = f"{', '.join(OF_A_RUN)}, STAGE.{' and STAGE.'.join(OF_A_STAGE)}"
        figures = ", ".join(OF_A_WINDOW) if dataset == WINDOW else of_run
        raise InvalidInput(f"no figure has this name; there are {figures}", file=source, field=field)
    try:
        read = from_dict(Band, band)
    except InvalidInput as error:
        raise InvalidInput(
            f"expected numbers as least and most, or one of them ({error})", file=source, field=field
        ) from error
    if read == Band():
        raise InvalidInput("a band without any bound; give least, most or both", file=source, field=field)
    if read.least is not None and read.most is not None and read.least > read.most:
        raise InvalidInput("least is more than most; exchange them", file=source, field=field)
    return read
