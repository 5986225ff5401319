"""Share between all exports the form of conversations, Parquet without nulls, and the README."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.inference.provider import chat_message
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.browse import TRAINED_PROTOCOLS, asking_of
from trailforge.retrieval.backends import BACKENDS
from trailforge.rewards.episode import reward_preset
from trailforge.schemas import ChatMessage, NativeMessage, PreferenceRow, RlRow, SftRow, to_dict
from trailforge.training.chat_marks import CHATML, Frame
from trailforge.training.config import TrainPreset
from trailforge.training.masks import END, START, TRAINING_TEMPLATE
from trailforge.training.sets.files import SPLITS, TABLES, TrainingSet

Progress = Callable[[str, int, int], None]
Row = dict[str, Any]
Make = Callable[[Any, str, int], Row | Sequence[Row] | None]
"""Makes the columns of a row, or of several, from the row, its split and its position; None for a row that the trainer
must not learn.
"""

TEMPLATE = "chat_template.jinja"
DEVICES = 8
"""Devices of a node, where nothing else is said."""
STR, INT, FLOAT, BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
MESSAGES = pa.list_(pa.struct([("role", STR), ("content", STR)]))


def schema(fields: Sequence[tuple[str, Any]]) -> pa.Schema:
    """Return an Arrow schema whose columns cannot be null."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


SFT = schema([("messages", MESSAGES), ("uid", STR), ("question", STR), ("data_source", STR)])
"""The schema for trainers that train every assistant turn."""
PAIRS = schema(
    [
        ("prompt", MESSAGES),
        ("chosen", MESSAGES),
        ("rejected", MESSAGES),
        ("uid", STR),
        ("question", STR),
        ("data_source", STR),
        ("protocol", STR),
        ("reason", STR),
        ("ends_here", BOOL),
    ]
)


@dataclass(slots=True, kw_only=True)
class Export:
    """The state of an export while its files are written: training set, target folder and preset."""

    training_set: TrainingSet
    folder: Path
    preset: TrainPreset
    tell: Progress
    is_native: bool = False
    """Whether conversations have native tool calls."""
    base_model: str = ""
    """The model whose marks stand around the turns; empty: none is named, and the marks are ChatML's."""
    frame: Frame = CHATML
    """The marks around turns, as `train sft` would use them for that model."""
    devices: int = DEVICES
    """Number of devices of the node that the commands are for."""
    rows: dict[str, int] = field(default_factory=dict)
    """Number of rows of each file written, by its path in the folder."""
    protocols: Counter[str] = field(default_factory=Counter)
    """Number of rows by the protocol that they are in."""
    paired: Counter[str] = field(default_factory=Counter)
    """Number of pairs by the protocol that they are in."""
    rewards: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of questions by their protocol and the reward that they name."""

    def parquet(self, table: str, schema: pa.Schema, make: Make) -> None:
        """Write the table `sft` or `rl` of the training set as one Parquet file for each split that has rows; `make`
        turns a row of the set into columns of the file, or leaves it out (`Make`)."""
        for split in SPLITS:
            name = f"{table}/{split}.parquet"
            writer: pq.ParquetWriter | None = None
            for rows in self._made(table, split, name, make):
                writer = writer or pq.ParquetWriter(self._path(name), schema, compression="zstd")
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            if writer is not None:
                writer.close()

    def json_lines(self, table: str, make: Make) -> None:
        """Write the table `sft` or `rl` of the training set as one file of JSON Lines for each split that has rows;
        `make` is as for `parquet`."""
        for split in SPLITS:
            name = f"{table}/{split}.jsonl"
            for rows in self._made(table, split, name, make):
                with self._path(name).open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def _made(self, table: str, split: str, name: str, make: Make) -> Iterator[list[Row]]:
        """Columns of a split, a row group at a time."""
        total = self.training_set.row_count(table, split)
        read = 0
        for batch in self.training_set.batches(table, split, TABLES[table]):
            found = ((row, make(row, split, at)) for at, row in enumerate(batch, read))
            made = [(row, each) for row, columns in found for each in _each(columns)]
            read += len(batch)
            if made:
                yield [columns for _, columns in made]
                self.protocols.update(_protocol_of(row) for row, _ in made)
                self.paired.update(row.protocol for row, _ in made if isinstance(row, PreferenceRow))
                self.rewards.update(_paid_as(row) for row, _ in made if isinstance(row, RlRow))
                self.rows[name] = self.rows.get(name, 0) + len(made)
            self.tell(f"exporting {table}/{split}", read, total)

    def text(self, name: str, content: str) -> None:
        """Write a small text file into the export's folder."""
        self._path(name).write_text(content, encoding="utf-8")

    def template(self) -> None:
        """Write our chat template with the marks of `frame` around turns."""
        self.text(TEMPLATE, TRAINING_TEMPLATE if self.frame == CHATML else self.frame.template)

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _each(made: Row | Sequence[Row] | None) -> Sequence[Row]:
    return [made] if isinstance(made, dict) else made or ()


def has_native(training_set: TrainingSet) -> bool:
    """Tell whether a training set has conversations with native tool calls."""
    paths = [path for split in SPLITS for path in training_set.files("sft", split)]
    tables = (pq.read_table(path, columns=["native"])["native"] for path in paths)
    return any(column.null_count < len(column) for column in tables)


def learnt(row: SftRow) -> list[tuple[ChatMessage, bool]]:
    """Return the messages up to the last one on which the loss is taken, each with whether it is; later messages teach
    nothing.
    """
    turns = list(zip(row.messages, row.train, strict=True))
    return turns[: max(place for place, train in enumerate(row.train) if train) + 1]


def sft_row(row: SftRow, split: str, number: int) -> Row:
    """Return a conversation, in the columns of `SFT`, for trainers that train every assistant turn and know no tool
    turns. An agent's turn without loss gets the role `past_assistant`, which our chat template writes as the
    assistant's.
    """
    turns = [
        {"role": "past_" * (message.role == "assistant" and not train) + _role(message), "content": message.content}
        for message, train in learnt(row)
    ]
    return _conversation(row, turns)


def marked_row(row: SftRow, mark: str, kind: type) -> Row:
    """Return a conversation for trainers that read from a field of each message whether the loss is taken on it. `mark`
    is the field's name, and `kind` the type of its value, such as `bool`.
    """
    turns = [{"role": _role(message), "content": message.content, mark: kind(train)} for message, train in learnt(row)]
    return _conversation(row, turns)


def sent_turns(row: SftRow) -> list[Row]:
    """Return the messages of a conversation as a server was sent them, with native tool calls where it has some."""
    turns = row.messages if row.native is None else row.native.messages
    return [
        chat_message(each if isinstance(each, NativeMessage) else NativeMessage(role=each.role, content=each.content))
        for each in turns
    ]


def offered_tools(row: SftRow) -> Row:
    """Return the column with the tools that the row's model was offered; no column where it was offered none."""
    return {"tools": json.loads(row.native.tools)} if row.native is not None else {}


def pair_row(row: PreferenceRow, split: str, number: int) -> Row | None:
    """Return the agent's turns in which two conversations first differ, in the columns of `PAIRS`, for trainers that
    train each whole ending.

    What follows these turns would be trained whole, including results of searches, so it is left out; `ends_here` says
    that nothing follows. None where these turns alone do not show which ending is better.
    """
    if not row.shows_fault:
        return None
    ends = {"chosen": row.chosen, "rejected": row.rejected}
    return {
        "prompt": [{"role": _role(message), "content": message.content} for message in row.prompt],
        **{name: [{"role": "assistant", "content": end[0].content}] for name, end in ends.items()},
        "uid": row.uid,
        "question": row.question,
        "data_source": row.data_source,
        "protocol": row.protocol,
        "reason": row.reason,
        "ends_here": all(len(end) == 1 for end in ends.values()),
    }


def prompt(row: RlRow) -> list[dict[str, str]]:
    """Return the messages at the beginning of an episode."""
    return [{"role": message.role, "content": message.content} for message in row.prompt]


def truth_json(row: RlRow) -> str:
    """Return the ground truth as JSON text, since frameworks pass it on unchanged, and no column may be null."""
    return json.dumps(to_dict(row.reward_model.ground_truth), ensure_ascii=False)


def readme(
    title: str, export: Export, sections: Mapping[str, str], *, truth: str = "ground_truth", has_run: str = ""
) -> str:
    """Return the README: files, and the commands that train on them. `sections` are further texts by heading. `truth`
    is the column with the ground truth. `has_run` says what of the trainer was tried with our rows.
    """
    files = "\n".join(f"| `{name}` | {rows:,} |" for name, rows in export.rows.items())
    used = sorted({count.dataset for count in export.training_set.manifest.counts})
    presets = "\n".join(
        f"| `{name}` | {rows:,} | `{asking_of(name).training}` | {_rewards_of(export, name)} |"
        if name in TRAINED_PROTOCOLS
        else f"| none: an agent's own words | {rows:,} | – | – |"
        for name, rows in sorted(export.protocols.items())
    )
    parts = [
        f"# {title}",
        f"Made by trailforge of a training set of {', '.join(used)}.",
        f"| file | rows |\n|---|---|\n{files}",
        f"The numbers in the commands are those of the preset `{export.preset.name}`.",
        f"| protocol | rows | preset | reward |\n|---|---|---|---|\n{presets}",
        *_note_rewards(export, truth),
        *_note_pairs(export),
        *((f"**What of it has run here:** {has_run}.",) if has_run else ()),
        *(f"## {heading}\n\n{text.strip()}" for heading, text in sections.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _rewards_of(export: Export, protocol: str) -> str:
    """By which the questions of a protocol are paid; none where it has no questions here."""
    return ", ".join(f"`{reward}`" for named, reward in sorted(export.rewards) if named == protocol) or "–"


def _note_rewards(export: Export, truth: str) -> list[str]:
    """Where the reward of a question stands, and who else would pay it otherwise."""
    if not export.rewards:
        return []
    notes = [REWARD_NOTE.format(truth=truth)]
    own, protocol = export.preset.reward.kind, export.preset.protocol
    if others := sorted({name for at, name in export.rewards if at == protocol and reward_preset(name).kind != own}):
        named = ", ".join(f"`{name}`" for name in others)
        notes.append(
            f"The preset `{export.preset.name}` itself pays by `{own}`, as `trailforge train rl` does; the questions "
            f"here name {named}. `training-set --reward` makes them name another."
        )
    return notes


REWARD_NOTE = """No column of a question is a reward: an episode is paid when it is made, by the reward function named \
below. It reads
`{truth}`: `reward_preset` names the reward, `protocol` how the agent talks, and `target` has what answers are held
against: the gold answer and its aliases (the first `num_given`), a graph's names of it (up to `num_golds`), then other
names and spellings by rule. No model wrote any of it. What runs tell of a question (`known_share`, `gold_stated`), and
of a conversation (`right_by`, `reward`), stands in the training set, by `uid`."""


def _note_pairs(export: Export) -> list[str]:
    """Where the pairs of the set are, if it has any."""
    pairs = sum(export.training_set.row_count("pairs", split) for split in SPLITS)
    if not pairs:
        return []
    if has(export, "pairs"):
        left = pairs - sum(rows for name, rows in export.rows.items() if name.startswith("pairs/"))
        return [PAIRS_NOTE, *([f"{left:,} of the set's {pairs:,} pairs are left out so."] if left else [])]
    return [f"The set's {pairs:,} pairs are not here: nothing in these formats learns from them; `train dpo` does."]


PAIRS_NOTE = """`pairs/` has for each pair what both conversations begin with (`prompt`), and the turn of the agent by
which the better one goes on (`chosen`) and the worse one (`rejected`): the loss is on what the agent wrote. What comes
after these turns is left out, since trainers of pairs train whole ends, results of searches too; `ends_here` says that
nothing does. Pairs whose worse end goes wrong in a later turn are not here: their first turns do not tell which is
better. `trailforge train dpo` trains all later turns of the agent, and reads the training set itself. `reason` is
what is against the worse one."""


def template_note(export: Export) -> str:
    """Return the README's section on loss and template."""
    whose = _CHATML_NOTE
    if export.base_model:
        marks = f"turns end with `{export.frame.end}`, as in `trailforge train sft`"
        whose = f"The template here is in the marks of `{export.base_model}`: {marks}."
    return f"{_LOSS_NOTE}\n{whose}\n\n```bash\ncp {TEMPLATE} $MODEL/{TEMPLATE}\n```"


_LOSS_NOTE = """The loss is taken on the assistant's turns and on the token that ends each, and on nothing else. \
That holds with the
chat template here: the one that Qwen3 and DeepSeek models bring along drops the thoughts of earlier turns. Give a copy
of the base model this template before training, and keep it when the trained model is served."""
_CHATML_NOTE = f"""It is ChatML, for a tokenizer that knows `{START}` and `{END}`, each as one token. Those of Qwen do,
those of DeepSeek-R1-Distill and Llama have other marks: name such a model (`trailforge export --base-model`)."""


NO_VERL_SFT = """verl's supervised trainer renders turn by turn, and would put what begins a text before each of them in
the marks of this model: its rows are left out. `trailforge train sft` takes them; verl goes on from what it makes."""

_GRAPH = KG_SEARCH.name
SEARCH_NOTE = f"""`documents` are absolute paths: of finished runs, whose documents or paragraphs are searched, or of
one corpus: an index, or a file of passages. `kind` is the name of a back end
({", ".join(BACKENDS)}),
with an `encoder` and its prefixes where it needs one; what is empty is as the index says. Or it is the URL of a search
server (`trailforge serve-search`), or `web`, the live web, as in the papers' presets: these want no `documents`; for
documents another `kind` has to be said. Questions of protocol `{_GRAPH}` also want a `kg`. An agent speaks the protocol
that its question names. Results have no loss and are never tokenised again; an end of turn
that was put behind a closing tag, and not sampled, has none either, nor has an episode that ran out of room where
`mask_truncated` is true. `keep_in` names a folder that all episodes are kept in, for `trailforge inspect`."""


def search_settings(preset: TrainPreset) -> dict[str, object]:
    """Return the settings `trailforge.training.adapters.search_episodes.SearchSettings`, to be filled in, with the
    preset's numbers.
    """
    numbers = preset.rl
    return {
        "documents": [],
        **to_dict(preset.retrieval),
        "kg": None,
        "top_k": numbers.top_k,
        "max_observation_tokens": numbers.max_observation_tokens,
        "max_searches": numbers.max_searches,
        "mask_truncated": numbers.mask_truncated,
        "keep_in": "",
    }


SHUFFLES = """{} shuffles the rows, which stand in the order of learning, and has no option for that: no row is lost,
easy before hard is. What that order is worth has not been measured."""


def fence(command: str) -> str:
    """Return a command as a Markdown code block."""
    return f"```bash\n{command.strip()}\n```"


def one_command(*parts: str) -> str:
    """Return a command broken over several lines."""
    return " \\\n  ".join(parts)


def has(export: Export, table: str) -> bool:
    """Tell whether a table was written into the export."""
    return any(name.startswith(f"{table}/") for name in export.rows)


def validation_of(export: Export, table: str) -> str:
    """Return the validation file of a table; the one for training where there is none."""
    name = f"{table}/validation.parquet"
    return name if name in export.rows else f"{table}/train.parquet"


def _protocol_of(row: SftRow | RlRow | PreferenceRow) -> str:
    return row.reward_model.ground_truth.protocol if isinstance(row, RlRow) else row.protocol


def _paid_as(row: RlRow) -> tuple[str, str]:
    truth = row.reward_model.ground_truth
    return truth.protocol, truth.reward_preset or asking_of(truth.protocol).reward


def _role(message: ChatMessage) -> str:
    """A tool turn is a user turn as it stands; `training.masks` says why."""
    return "user" if message.role == "tool" else message.role


def _conversation(row: SftRow, turns: list[dict[str, Any]]) -> Row:
    return {"messages": turns, "uid": row.uid, "question": row.question, "data_source": row.data_source}
