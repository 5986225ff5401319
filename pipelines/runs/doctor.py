"""Check that everything a run needs is there; each check looks at one thing, says what it found, and how to repair it.

Nothing here prints, and no check needs another: one that is missing a package, or raises, is a fault of its own.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from trailforge.inference.provider import KEY_VARIABLES, api_key, is_sendable, key_variable
from trailforge.schemas import InvalidInput, TrailforgeError, is_read, missing_package, stored_name, version_of

if TYPE_CHECKING:
    from trailforge.inference import Reply
    from trailforge.inference.vllm import VllmConfig
    from trailforge.pipelines.runs.config import ModelConfig, RunConfig

EMBEDDED = "embedded"
_GIB = 2**30
_LITTLE_SPACE, _TOO_LITTLE_SPACE = 10 * _GIB, _GIB
_CHECK_WITHIN_S, _CALL_WITHIN_S = 10.0, 120.0
_MENDS = ("build", "make", "pip install", "run", "say")
"""How a mend behind a colon begins."""
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")
_NAME = re.compile(r"[\w.-]+")
_OWN = re.compile(r"trailforge\[([\w,-]+)\]")
"""Parts of the requirements in a distribution's metadata."""
_THINKS = re.compile(r"qwq|deepseek-r1|r1-distill|thinking|magistral|gpt-oss|qwen3(?!.*(?:instruct|coder))", re.I)
"""In names of models that think before they answer."""
_ROOM_TO_THINK = 4096
"""Tokens: thoughts run to several thousand."""
_TINY_PROMPT = "Answer in one word.\n\nPassages:\n1. (Sky) The colour of the sky is blue.\n\nQuestion: Which colour?\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check."""

    check: str
    level: Literal["ok", "warning", "fault"]
    detail: str
    mend: str = ""
    """What to do about it, in a line; empty when all is well."""


def ok(check: str, detail: str) -> Finding:
    """Return a finding that all is well. `check` names what was checked, and `detail` says what was found."""
    return Finding(check=check, level="ok", detail=detail)


def warning(check: str, detail: str, mend: str) -> Finding:
    """Return a finding that a run will start, but may not do what is wanted. `check` names what was checked, `detail`
    says what was found, and `mend` what to do about it.
    """
    return Finding(check=check, level="warning", detail=detail, mend=mend)


def fault(check: str, detail: str, mend: str) -> Finding:
    """Return a finding that a run will not start, or not end. `check` names what was checked, `detail` says what was
    found, and `mend` what to do about it.
    """
    return Finding(check=check, level="fault", detail=detail, mend=mend)


def run_check(check: str, look: Callable[[], Finding]) -> Finding:
    """Return what the check `look` finds. An error of ours, or a module that cannot be imported, becomes a finding of a
    fault under the name `check`.
    """
    try:
        return look()
    except TrailforgeError as error:
        detail, mend = _split_mend(str(error))
        return fault(check, detail.removeprefix(f"{check} "), mend or "as it says")
    except ImportError as error:
        missing = missing_package(error)
        detail, mend = (
            _split_mend(str(missing)) if missing else (f"cannot be checked: {error}", "install trailforge anew")
        )
        return fault(check, detail, mend)


def _split_mend(message: str) -> tuple[str, str]:
    """What is wrong, and its mend, where a message has one behind a semicolon or a colon."""
    detail, semicolon, mend = message.partition("; ")
    if semicolon:
        return detail, mend
    detail, colon, mend = message.rpartition(": ")
    return (detail, mend) if colon and mend.startswith(_MENDS) else (message, "")


def extras(requires: Iterable[str] | None = None) -> Finding:
    """Check which extras of trailforge are installed with all packages that they declare in its installed metadata."""
    if requires is None:
        try:
            requires = importlib.metadata.requires("trailforge") or ()
        except importlib.metadata.PackageNotFoundError:
            return warning("extras", "trailforge itself is not installed", "pip install -e . (or: make install)")
    wanted: dict[str, list[str]] = {}
    for text in requires:
        if found := _EXTRA.search(text):
            named = text.partition(";")[0].strip()
            own = _OWN.fullmatch(named)
            wanted.setdefault(found[1], []).extend(own[1].split(",") if own else [_NAME.findall(named)[0]])

    def is_whole(extra: str) -> bool:
        return all(is_whole(name) if name in wanted else _is_installed(name) for name in wanted[extra])

    there = [extra for extra in wanted if is_whole(extra)]
    away = [extra for extra in wanted if extra not in there]
    return ok("extras", f"installed: {', '.join(there) or 'none'}; not, or not whole: {', '.join(away) or 'none'}")


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def thoughts(config: RunConfig, server: VllmConfig | None) -> Iterator[Finding]:
    """Check whether a reasoning model's thoughts are kept apart from its replies, have room in the limits of length,
    and are not ended by stop strings. `server` is the server that the preset describes; None where it describes none.
    """
    from trailforge.inference import MEND

    model = config.model
    declared = model.reasoning == "inline" or (server is not None and bool(server.reasoning_parser))
    if not declared and not _THINKS.search(model.name):
        yield ok("thoughts", f"{model.name} is taken for a model without any")
        return
    found: list[Finding] = []
    if not declared and server is not None:
        detail = f"{model.name} thinks, and the preset's server leaves its thoughts in the replies"
        found.append(fault("thoughts", detail, MEND))
    for setting, limit in config.reply_limits.items():
        if limit < _ROOM_TO_THINK:
            detail = f"{setting}: {limit:,} tokens can be met by thoughts alone, and a reply that is cut is no answer"
            found.append(warning("thoughts", detail, f"set it to {_ROOM_TO_THINK:,} or more"))
    for setting in config.thought_settings:
        detail = f"{setting} is 0: turns are sent with stop strings, which can end a thought"
        found.append(fault("thoughts", detail, f"set {setting} to {_ROOM_TO_THINK:,} or more"))
    yield from found or [ok("thoughts", f"parser, lengths and stop strings leave {model.name} its thoughts")]


def window(config: RunConfig, server: VllmConfig | None) -> Finding:
    """Check whether the context window of the preset's server holds the longest prompt and reply. With `server` None
    the preset describes no server, and the window is not known.
    """
    longest, held = config.longest_call, server.max_model_len if server is not None else None
    if held is None:
        return ok("window", f"the server's own; the longest call may take {longest:,} tokens")
    if held <= longest:
        mend = f"set server.max_model_len to more than {longest:,}, or lower the settings whose names end in max_tokens"
        return fault("window", f"{held:,} tokens, and prompt and reply of a call may take {longest:,}", mend)
    return ok("window", f"{held:,} tokens; the longest call may take {longest:,}")


def key(url: str) -> Finding:
    """Check whether an API key is set, and whether one is likely to be needed. The key is never shown."""
    name, value = key_variable(), api_key()
    if name is None or value is None:
        if url == EMBEDDED or is_here(url):
            return ok("key", "none set, and the model is on this machine")
        return warning("key", f"none set, and {url} is elsewhere", f"export {KEY_VARIABLES[0]}=… if it wants one")
    if not is_sendable(value):
        return fault("key", f"{name} holds characters that no key has", f"set {name} anew")
    return ok("key", f"{name} is set")


def model_server(config: ModelConfig) -> Finding:
    """Check that the server answers and lists the model. Raises `ProviderError` and its kinds when it does not
    answer."""
    served = asyncio.run(list_models(config))
    if not served:
        return warning("model server", f"{config.url} answers and lists no models", "add --call: one tiny request")
    if config.name in served:
        return ok("model server", f"{config.url} serves {config.name}")
    detail = f"{config.url} serves {', '.join(served[:3])} and not {config.name}"
    mend = f"add --model-name {served[0]}, or start the server with the model of the preset"
    return (warning if config.dialect == "llama_cpp" else fault)("model server", detail, mend)


def model_call(config: ModelConfig, *, style: Literal["chat", "completion"]) -> Finding:
    """Check that one tiny request is answered, without storing it in a ledger. Raises the kinds of `ProviderError` when
    it is not.
    """
    from trailforge.inference import MEND, seems_thoughtful

    started = time.monotonic()
    reply = asyncio.run(_tiny_call(config, style))
    seconds = time.monotonic() - started
    tokens, finished_by = reply.prompt_tokens + reply.completion_tokens, reply.finish_reason
    if config.reasoning == "separate" and style == "chat" and not reply.reasoning and seems_thoughtful(reply.text):
        return fault("model call", "the reply holds the model's thoughts, which would be taken for its answer", MEND)
    if not tokens:
        mend = "have the server count tokens (`usage`), or the figures of the run say 0"
        return warning("model call", f"answered in {seconds:.1f} s, without a count of tokens", mend)
    return ok("model call", f"answered in {seconds:.1f} s: {tokens} tokens, ended by {finished_by or 'itself'}")


def disk(folder: Path) -> Finding:
    """Check for room on the disk, and leave to write, in the folder of the run or where it will be made."""
    from trailforge.pipelines.engine.files import output_errors

    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not place.is_dir():
        return fault("disk", f"{place} is a file", "remove it, or give another --out")
    with output_errors(place), tempfile.NamedTemporaryFile(dir=place, prefix=".trailforge-") as probe:
        probe.write(bytes(4096))
        probe.flush()
        os.fsync(probe.fileno())
    free = shutil.disk_usage(place).free
    detail = f"{place} can be written to, {free / _GIB:,.1f} GiB free"
    if free < _TOO_LITTLE_SPACE:
        return fault("disk", detail, f"free some space: a run wants {_LITTLE_SPACE // _GIB} GiB")
    if free < _LITTLE_SPACE:
        return warning("disk", detail, f"free some space: a large run wants {_LITTLE_SPACE // _GIB} GiB")
    return ok("disk", detail)


def ledger(path: Path) -> Finding:
    """Check that the ledger opens, has our format and is sound. Raises `InvalidInput` or `OutputError` when it does not
    open.
    """
    from trailforge.inference.ledgers import SqliteLedger

    if not path.is_file():
        return ok("ledger", f"none yet in {path.parents[1]}")
    with closing(SqliteLedger(path)) as book:
        if damage := book.damage():
            mend = f"put a copy of it in its place, or move {path.parent} away: its calls are then paid again"
            return fault("ledger", f"{path} is damaged ({damage})", mend)
        held = f"{book.entries():,} calls, {path.stat().st_size / 1e6:,.1f} MB"
        if unreadable := book.unreadable():
            what = f"{held}, {len(unreadable):,} of them unreadable"
            return warning("ledger", what, "nothing to do: those that a run needs are made, and paid, again")
        return ok("ledger", f"{held}, sound")


def shared_ledger(url: str) -> Finding:
    """Check that the ledger in PostgreSQL answers. Raises `OutputError` when it does not."""
    from trailforge.inference.ledgers import check_ledger

    asyncio.run(check_ledger(url))
    return ok("ledger", f"{urlsplit(url).hostname or 'local'}{urlsplit(url).path} answers")


def schema_versions(folder: Path) -> Finding:
    """Check that the files of a folder's runs, or of the run that it is, are of versions that this trailforge reads."""
    runs = run_folders(folder)
    wrong = [line for run in runs for line in other_versions(run)]
    if wrong:
        more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        mend = "make these runs again (--replace; the calls are in their ledgers), or use the trailforge that made them"
        return fault("schemas", f"{wrong[0]}{more}", mend)
    if not runs:
        return ok("schemas", f"no run yet in {folder}")
    files = sum(len(_tables(run)) for run in runs)
    return ok("schemas", f"{files:,} files of {len(runs):,} runs, all of the versions that are read here")


def run_folders(folder: Path) -> list[Path]:
    """List the runs of a folder: the folder itself if it holds a run, else those in it and in its folders."""
    from trailforge.pipelines.runs.intake import SETTINGS

    if (folder / SETTINGS).is_file():
        return [folder]
    return sorted(path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{SETTINGS}"))


def other_versions(run: Path) -> Iterator[str]:
    """Describe the files that this trailforge does not read, each with its version and the one that is read.

    Only the files' metadata is read. Raises `InvalidInput` and `OutputError` for a run whose settings it does not
    know.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from trailforge.pipelines.runs.finished import read_manifest

    tables = _tables(run)
    try:
        read_manifest(run)
    except InvalidInput as error:
        yield f"{error}"
    for path, record in tables.items():
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (pa.ArrowInvalid, OSError) as error:
            yield f"{path} cannot be read ({error})"
            continue
        name = metadata.get(b"trailforge.record", b"nothing").decode()
        version = metadata.get(b"trailforge.version", b"none").decode()
        if not is_read(record, name, version):
            yield f"{path} holds {name} {version}, expected {stored_name(record)} {version_of(record)}"


def _tables(run: Path) -> dict[Path, type]:
    """Parquet files of a run's tables, in order, with their records."""
    from trailforge.pipelines.datasets import dataset_of
    from trailforge.pipelines.runs.intake import read_settings

    settings = read_settings(run)
    if settings is None:
        raise InvalidInput("holds no run; give the --out of a command that makes data", file=run)
    found = [
        (p, t.record) for name, t in dataset_of(settings).all_tables.items() for p in (run / name).glob("*.parquet")
    ]
    return dict(sorted(found, key=lambda each: each[0]))


def is_here(url: str) -> bool:
    """Tell whether a URL is on this machine."""
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


async def list_models(config: ModelConfig) -> list[str]:
    """List the models that a server offers, within seconds. Raises `ProviderError` and its kinds when it does not
    answer."""
    from trailforge.inference import Caps, ModelClient

    async with aclosing(ModelClient(replace(config.client(Caps()), timeout_s=_CHECK_WITHIN_S))) as client:
        return await client.check()


async def _tiny_call(config: ModelConfig, style: str) -> Reply:
    from trailforge.inference import Caps, ChatTurn, ModelClient, Request, Sampling

    prompt = _TINY_PROMPT if style == "completion" else (ChatTurn(role="user", content=_TINY_PROMPT),)
    request = Request(model=config.name, prompt=prompt, sampling=Sampling(max_tokens=8), purpose="doctor", is_turn=True)
    within = {"timeout_s": _CALL_WITHIN_S, "stall_s": _CALL_WITHIN_S}
    async with aclosing(ModelClient(replace(config.client(Caps()), max_attempts=1, **within))) as client:
        return await client.complete(request)  # as a turn: with what thoughts it holds
