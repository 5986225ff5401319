"""Manage the folder of a training: the settings it was started with, its checkpoints, and the final model.

    OUT/settings.json                 what decides the weights; a training continues with the same settings only
    OUT/checkpoints/checkpoint-N/     after N optimizer steps; whole once `whole.json` lists its files
    OUT/logs/                         TensorBoard
    OUT/model/                        weights and tokenizer, there whole or not at all
    OUT/episodes/                     those of RL as rows of `AgentEpisode` (`training.kept_episodes`)
    OUT/curves.csv                    what the trainer told of each step, with every checkpoint anew
    OUT/training.json                 figures of the finished training

A checkpoint is written file by file. One that was interrupted has no `whole.json`, or a file that differs from it, and
is passed over when a training continues.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trailforge.pipelines.engine import write_text
from trailforge.schemas import OutputError
from trailforge.training.processes import log

SETTINGS = "settings.json"
RESULT = "training.json"
_WHOLE = "whole.json"


def checkpoints_of(out: Path) -> Path:
    """Return the folder of a training's checkpoints."""
    return out / "checkpoints"


def mark_whole(checkpoint: Path) -> None:
    """Mark a checkpoint as whole, after its last file is written."""
    _write_json(checkpoint / _WHOLE, {"files": _sizes(checkpoint)})


def is_whole(checkpoint: Path) -> bool:
    """Tell whether a checkpoint was written to its end, and is unchanged since."""
    try:
        listed = json.loads((checkpoint / _WHOLE).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return listed == _sizes(checkpoint)


def find_last_whole(out: Path) -> Path | None:
    """Return the checkpoint to resume from, and print which later ones were interrupted. None when there is none."""
    for checkpoint in _newest_first(checkpoints_of(out)):
        if is_whole(checkpoint):
            return checkpoint
        log(f"{checkpoint} is not whole, as when its writing was interrupted: passed over")
    return None


def step_of(checkpoint: Path | None) -> int:
    """Return the number of optimizer steps after which a checkpoint was written; 0 without one."""
    return 0 if checkpoint is None else int(checkpoint.name.removeprefix("checkpoint-"))


def open_folder(out: Path, settings: Mapping[str, Any], *, resume: bool) -> Path | None:
    """Begin a training's folder, or resume it; returns the checkpoint to resume from, or None to begin with the first
    step. Raises `OutputError` for a folder that holds another training, or this one without `resume`.
    """
    kept = out / SETTINGS
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file; give a folder")
    if kept.exists():
        if not resume:
            raise OutputError(f"{out} holds a training; go on with --resume, or give another folder")
        if differing := _differing(_read_settings(kept), settings):
            raise OutputError(f"{out} was begun with other settings ({differing}); give another folder")
        found = find_last_whole(out)
        for checkpoint in _newest_first(checkpoints_of(out)):
            if not is_whole(checkpoint):
                shutil.rmtree(checkpoint)  # the training writes it again
        return found
    if out.exists() and any(out.iterdir()):
        raise OutputError(f"{out} is not empty and holds no training; give another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write_json(kept, settings)
    except OSError as error:
        raise OutputError(f"cannot write to {out}: {error.strerror}; give another folder") from error
    return None


def open_on_all_ranks(out: Path, settings: Mapping[str, Any], *, resume: bool) -> Path | None:
    """Open a folder as `open_folder` does, in the main process for all that train together; all raise what it
    raises.
    """
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    answer: list[Any] = [None]
    if PartialState().is_main_process:
        try:
            answer = [open_folder(out, settings, resume=resume)]
        except OutputError as error:
            answer = [error]
    broadcast_object_list(answer, from_process=0)
    if isinstance(answer[0], OutputError):
        raise answer[0]
    return answer[0]


def save_model(trainer: Any, tokenizer: Any, out: Path) -> Path:
    """Write weights and tokenizer to `OUT/model`, and return that folder; every process takes part, and one of them
    writes.
    """
    folder, unfinished = out / "model", out / "model.tmp"
    if trainer.args.should_save:
        shutil.rmtree(unfinished, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    trainer.save_model(str(unfinished))
    if trainer.args.should_save:
        tokenizer.save_pretrained(unfinished)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(unfinished, folder)
    trainer.accelerator.wait_for_everyone()
    return folder


def write_result(out: Path, result: Mapping[str, Any]) -> None:
    """Write the figures of a finished training."""
    _write_json(out / RESULT, result)


def _newest_first(folder: Path) -> Iterator[Path]:
    found = [path for path in folder.glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdecimal()]
    yield from sorted(found, key=lambda path: -step_of(path))


def _sizes(folder: Path) -> dict[str, int]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _WHOLE)
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(f"{path} cannot be read ({error}); give another folder") from error


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(now))
    return ", ".join(sorted(name for name in before.keys() | plain.keys() if before.get(name) != plain.get(name)))


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
