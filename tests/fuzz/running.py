"""Runs one input through one target: which error came, and how much of the processor's time it took."""

from __future__ import annotations

import hashlib
import random
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.fuzz.cases import aimed_cases, random_case
from tests.fuzz.targets import TARGETS, Target

MOST_ROUNDS = 100_000_000
"""For one input: the time that the processor takes for so many rounds of an empty loop, a few seconds."""
_ROUNDS = 300_000
_FASTEST_S = 5e-9
"""Of a round on any processor: in a virtual machine its clock may stand still for a moment."""
_STOP_S = 120.0
_KEPT = 20
"""Failing inputs per target that are written."""


class _TooSlow(BaseException):
    """Not to be caught by what is being run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An input that a target did not stand."""

    target: str
    case: bytes
    problem: str
    """The traceback, or how long it took."""

    @property
    def name(self) -> str:
        """Of the input's file."""
        return f"{self.target}-{hashlib.sha256(self.case).hexdigest()[:12]}"


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of a target's inputs."""

    target: str
    cases: int = 0
    foreign: int = 0
    """Inputs at which an error came that the target does not declare."""
    slow: int = 0
    slowest_s: float = 0.0
    peak_mb: int = 0
    """Of resident memory, the process as a whole."""
    failures: list[Failure] = field(default_factory=list)


def run_target(name: str, cases: Iterable[bytes], folder: Path) -> Result:
    """Every input through a target, whose files stand in `folder`."""
    target, result = TARGETS[name], Result(target=name)
    _run(target, target.samples()[0], folder)  # what is imported or compiled at the first call is no input's cost
    limit_s = _loop_s() * MOST_ROUNDS
    for case in cases:
        problem, seconds = _run(target, case, folder)
        if limit_s < seconds < _STOP_S:  # the processor's time of a busy machine: what is slow is slow again
            problem, again = _run(target, case, folder)
            seconds = min(seconds, again)
            limit_s = max(limit_s, _loop_s() * MOST_ROUNDS)
        result.cases += 1
        result.slowest_s = max(result.slowest_s, seconds)
        result.foreign += bool(problem)
        if seconds > limit_s:
            result.slow += 1
            problem = problem or f"{seconds:.1f} s"
        if problem and len(result.failures) < _KEPT:
            result.failures.append(Failure(target=name, case=case, problem=problem))
    result.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return result


def run_job(job: tuple[str, int, int]) -> Result:
    """A target's inputs of the long form: its name, how many random ones, and their seed."""
    name, cases, seed = job
    with tempfile.TemporaryDirectory() as folder:
        return run_target(name, cases_of(name, cases, seed), Path(folder))


def cases_of(name: str, number: int, seed: int, *, short: bool = False) -> Iterator[bytes]:
    """A target's aimed inputs, with `short` the plainest of them, then random ones. The same seed gives the same."""
    target = TARGETS[name]
    samples = target.samples()
    yield from target.aimed()
    yield from aimed_cases(samples, target.tokens, target.aimed_bytes, short=short)
    rng = random.Random(f"{name} {seed}")
    for _ in range(number):
        yield target.packed(random_case(rng, samples, target.tokens))


def _loop_s() -> float:
    """Of the processor's time here and now, for one round of an empty loop."""
    start = time.process_time()
    for _ in range(_ROUNDS):
        pass
    return max((time.process_time() - start) / _ROUNDS, _FASTEST_S)


def _run(target: Target, case: bytes, folder: Path) -> tuple[str, float]:
    """What went wrong, if anything, and the seconds of processor time."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, _STOP_S)
    start, problem = time.process_time(), ""
    try:
        target.run(case, folder)
    except target.may_raise:
        pass
    except _TooSlow:
        problem = f"stopped after {_STOP_S:.0f} s"
    except Exception:
        problem = traceback.format_exc(limit=-6)
    finally:
        seconds = time.process_time() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
    return problem, seconds


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _TooSlow
