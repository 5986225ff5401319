"""What a target is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.cases import AIMED_BYTES


def _as_it_is(case: bytes) -> bytes:
    return case


def _none() -> Iterable[bytes]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser, and how to make inputs for it."""

    name: str
    run: Callable[[bytes, Path], object]
    """Reads one input; may use the folder, which earlier inputs have left as they liked."""
    may_raise: tuple[type[Exception], ...]
    """What the parser's docstring says. Everything else is foreign, a failed `assert` in `run` too."""
    samples: Callable[[], list[bytes]]
    """Good inputs, to be mutated."""
    tokens: tuple[bytes, ...]
    """Pieces that mean something to the parser."""
    aimed: Callable[[], Iterable[bytes]] = _none
    """Inputs that took too long or too much once, beside those that follow from the tokens."""
    aimed_bytes: int = AIMED_BYTES
    packed: Callable[[bytes], bytes] = _as_it_is
    """Applied to every random input, as to put it into gzip."""


def text_of(case: bytes) -> str:
    """An input as text; bytes that are no UTF-8 become halves of surrogate pairs, as a lenient server sends them."""
    return case.decode("utf-8", "surrogateescape")
