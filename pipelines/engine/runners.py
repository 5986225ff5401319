"""Choose Beam's runner for a run, and refuse those that must not be used. Beam is loaded for other runners than the
local one."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from trailforge.schemas import ClusterError, InvalidInput

LOCAL = "FnApiRunner"
"""Name of the runner in this process."""
DASK = "dask"
"""Name of the runner on a cluster of Dask, which does without Beam: see `beam_work`."""
_ANSWERS_WITHIN_S = 10.0
_DOWNLOADS = f"it downloads a program at its start; take {LOCAL}, which needs none"
_REFUSED = {
    "daskrunner": "Beam's own loses rows and doubles others without a word; take --cluster, which does without it",
    "directrunner": _DOWNLOADS,
    "switchingdirectrunner": _DOWNLOADS,
    "prismrunner": _DOWNLOADS,
}
"""By name in lower case, and why."""


def beam_options(runner: str = LOCAL, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Make Beam's command line for a runner and options as `KEY=VALUE` or `KEY`. Raises `InvalidInput`."""
    if runner == LOCAL and not options:
        return (f"--runner={LOCAL}",)
    given = tuple(_argument(option) for option in options)
    if runner.strip().lower() == DASK:
        return (f"--runner={DASK}", *given)
    plain = runner.strip().rpartition(".")[2].lower().removesuffix("runner") + "runner"
    if plain in _REFUSED:
        raise InvalidInput(f"{runner} is refused: {_REFUSED[plain]}", field="--runner")
    if plain == "portablerunner" and not _job_endpoint(given):
        raise InvalidInput("PortableRunner needs --beam-option job_endpoint=HOST:PORT", field="--beam-option")
    return (f"--runner={runner if '.' in runner else _known(runner, plain)}", *given)


def check_runner(arguments: Sequence[str]) -> None:
    """Check that a job service or scheduler listens where the command line says. Raises `ClusterError`."""
    what, endpoint = "scheduler of Dask" if is_dask(arguments) else "job service", dask_address(arguments)
    if not is_local(arguments) and not is_dask(arguments):
        endpoint = _job_endpoint(arguments)
    host, colon, port = endpoint.rpartition("/")[2].rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS_WITHIN_S).close()
    except (OSError, ValueError) as error:
        raise ClusterError(f"no {what} at {endpoint} ({error}); start it, then run the same command again") from error


def telling_line(error: BaseException) -> str:
    """Return the most informative line of a runner's error: the details of a gRPC error, else the last line with
    text.
    """
    lines = [line.strip() for line in str(error).splitlines() if any(map(str.isalpha, line))]
    details = [line.partition("=")[2].strip() for line in lines if line.startswith("details =")]
    return (details or lines or [type(error).__name__])[-1][:300]


def is_local(arguments: Sequence[str]) -> bool:
    """Tell whether a command line names the runner of this process."""
    return f"--runner={LOCAL}" in arguments


def is_dask(arguments: Sequence[str]) -> bool:
    """Tell whether a command line names Dask's runner."""
    return f"--runner={DASK}" in arguments


def dask_address(arguments: Sequence[str]) -> str:
    """Return the address of the scheduler that a command line names; empty where it names none."""
    return _last(arguments, "--scheduler=")


def has_one_worker(arguments: Sequence[str]) -> bool:
    """Tell whether a command line names the runner of this process, with no option that gives it more workers."""
    return tuple(arguments) == beam_options()


def _known(runner: str, plain: str) -> str:
    """The runner's name as Beam writes it, which takes any case, and names without `Runner`."""
    from apache_beam.options.pipeline_options import StandardOptions

    known = {name.lower(): name for name in StandardOptions.KNOWN_RUNNER_NAMES if name.lower() not in _REFUSED}
    if plain not in known:
        raise InvalidInput(f"no runner {runner!r}; there are dask, {', '.join(known.values())}", field="--runner")
    return known[plain]


def _job_endpoint(arguments: Sequence[str]) -> str:
    return _last(arguments, "--job_endpoint=")


def _last(arguments: Sequence[str], option: str) -> str:
    """What a command line gives an option, of several the last; empty where it gives it nothing."""
    return next((each.removeprefix(option) for each in reversed(arguments) if each.startswith(option)), "")


def _argument(option: str) -> str:
    key = option.partition("=")[0].strip()
    if not key or key.startswith("-") or key.split() != [key]:
        raise InvalidInput(f"{option!r}: expected KEY=VALUE, without dashes", field="--beam-option")
    if key == "runner":
        raise InvalidInput("give the runner with --runner", field="--beam-option")
    return f"--{option.strip()}"
