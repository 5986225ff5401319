"""What a test sees of a figure: its texts, and its size in pixels."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg


def listened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that the next figure says."""
    said: list[str] = []
    save = FigureCanvasAgg.print_png

    def listen(canvas: FigureCanvasAgg, *args: Any, **options: Any) -> None:
        for axes in canvas.figure.axes:
            said.extend(text.get_text() for text in axes.texts)
            said.extend(label.get_text() for label in [*axes.get_xticklabels(), *axes.get_yticklabels()])
            said.append(axes.get_title() + axes.get_title(loc="left"))
        save(canvas, *args, **options)

    monkeypatch.setattr(FigureCanvasAgg, "print_png", listen)
    return said


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that the next figures say."""
    return listened(monkeypatch)


def pixels(png: bytes) -> tuple[int, int]:
    """Width and height, of a file that is a PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])
