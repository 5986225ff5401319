"""A model small enough to train in a test, its tokenizer, and what it is trained on: questions over sample_data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.support.sft_rows import sft_row
from tests.support.turns import answer_turn, result_turn, search_turn
from trailforge.pipelines.runs.finished import MANIFEST
from trailforge.protocols import REACT
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.rewards.episode import RewardPreset
from trailforge.rewards.msearcher import MSearcherConstants
from trailforge.schemas import (
    ChatMessage,
    Document,
    FileEntry,
    GroundTruth,
    PreferenceRow,
    RewardModel,
    RlRow,
    SftRow,
    to_dict,
    write_parquet,
)
from trailforge.training.config import RlConfig, SftConfig, TrainPreset
from trailforge.training.generation import Continuation
from trailforge.training.masks import IGNORED, MaskedTokens
from trailforge.training.sets.files import SetManifest

SAMPLE = Path(__file__).resolve().parents[2] / "sample_data"
FACTS = (
    ("Who led NASA from 1961 to 1968?", "James Webb", "NASA from 1961 to 1968"),
    ("Of what is the primary mirror of the James Webb Space Telescope made?", "beryllium", "Webb mirror segments"),
    ("When was the Hubble Space Telescope launched?", "24 April 1990", "Hubble launched from Florida"),
    ("From where was the James Webb Space Telescope launched?", "Kourou", "Webb launched from Kourou"),
)
"""Question, answer, and the query that finds it."""
RULES = "Think, then search or answer."
"""A system prompt that is shorter than a protocol's own, for the sake of the tests' time."""


def trained_runs(tokens: MaskedTokens) -> list[list[int]]:
    """The ids that the loss is taken on, turn by turn."""
    runs: list[list[int]] = [[]]
    for label in tokens.labels:
        if label != IGNORED:
            runs[-1].append(label)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def documents() -> list[Document]:
    """Those of sample_data."""
    lines = (SAMPLE / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    return [Document(id=row["id"], title=row["title"], text=row["text"]) for row in map(json.loads, lines)]


def retriever() -> Bm25Retriever:
    """Over them."""
    return Bm25Retriever(documents())


def conversation(question: str, answer: str, query: str, passages: str) -> tuple[ChatMessage, ...]:
    """One search, then the answer, as `react` has it."""
    return (
        ChatMessage(role="system", content=RULES),
        ChatMessage(role="user", content=question),
        ChatMessage(role="assistant", content=search_turn(REACT, "Look it up.", query)),
        ChatMessage(role="tool", content=passages),
        ChatMessage(role="assistant", content=answer_turn(REACT, "It says so.", answer)),
    )


def sft_rows(copies: int = 1, *, searched: bool = False) -> list[SftRow]:
    """A row for each fact; `searched`: with what the search finds, not with a line in its place."""
    rows = []
    for copy in range(copies):
        for number, (question, answer, query) in enumerate(FACTS):
            result = f"<tool_response>\n1. (Found) {answer} is in the passage.\n</tool_response>"
            if searched:
                result = result_turn(REACT, asyncio.run(retriever().retrieve(query, 1)))
            said = conversation(question, answer, query, result)
            rows.append(sft_row(f"{number}-{copy}", said, protocol="react", question=question, answer=answer))
    return rows


def rl_rows(protocol: str = "react", copies: int = 1) -> list[RlRow]:
    """A question for each fact."""
    return [
        RlRow(
            uid=f"{number}-{copy}",
            data_source="mcts_trajectories",
            prompt=(ChatMessage(role="system", content=RULES), ChatMessage(role="user", content=question)),
            ability="search",
            question_id=f"{number}-{copy}",
            question=question,
            reward_model=RewardModel(style="rule", ground_truth=truth(answer, protocol)),
            corpus_id="sample",
            curriculum_stage=1,
            difficulty=0.0,
            provenance_id=str(number),
        )
        for copy in range(copies)
        for number, (question, answer, _) in enumerate(FACTS)
    ]


def truth(answer: str, protocol: str = "react") -> GroundTruth:
    """Gold of a fact."""
    return GroundTruth(
        target=(answer,),
        answer_kind="text",
        options=(),
        correct_options=(),
        num_hops=1,
        hops=(),
        support_titles=(),
        dag_text="",
        allowed_tools=(),
        reward_preset="msearcher",
        protocol=protocol,
    )


def training_set(
    folder: Path,
    *,
    sft: Sequence[SftRow] = (),
    rl: Sequence[RlRow] = (),
    held_out: Sequence[RlRow] = (),
    pairs: Sequence[PreferenceRow] = (),
) -> Path:
    """Rows as the trainers read them."""
    files = []
    splits = (
        ("sft/train", SftRow, sft),
        ("rl/train", RlRow, rl),
        ("rl/validation", RlRow, held_out),
        ("pairs/train", PreferenceRow, pairs),
    )
    for split, record, rows in splits:
        if rows:
            path = folder / split / "part-00000.parquet"
            path.parent.mkdir(parents=True)
            write_parquet(path, record, rows)
            name = path.relative_to(folder).as_posix()
            files.append(FileEntry(path=name, rows=len(rows), sha256=sha256(path.read_bytes()).hexdigest()))
    manifest = SetManifest(inputs=(), config="{}", measured_by="estimate", stages=(), counts=(), files=tuple(files))
    (folder / MANIFEST).write_text(json.dumps(to_dict(manifest)), encoding="utf-8")
    return folder


def _trained_tokenizer(vocabulary: int, *, speaks_chatml: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", *(["<|im_start|>", "<|im_end|>"] if speaks_chatml else [])]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [message.content for row in sft_rows() for message in row.messages] * 4
    tokenizer.train_from_iterator([*texts, *(document.text for document in documents()[:20])], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[-1])


def save_tiny_model(
    folder: Path,
    *,
    vocabulary: int = 512,
    window: int = 2048,
    speaks_chatml: bool = True,
    spare: int = 0,
    tokenizer: Any = None,
) -> Path:
    """A byte-level BPE tokenizer trained on the sample, and a random Qwen2 with two layers of 64.

    `speaks_chatml`: its tokenizer knows the marks of turns. `spare`: weights for so many tokens more than there are.
    `tokenizer`: another one.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    fast: Any = tokenizer or _trained_tokenizer(vocabulary, speaks_chatml=speaks_chatml)
    torch.manual_seed(0)
    model: Any = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(fast) + spare,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=window,
            tie_word_embeddings=True,
            pad_token_id=fast.pad_token_id,
            bos_token_id=None,
            eos_token_id=fast.eos_token_id,
        )
    )
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


Script = Callable[[str, int], str]
"""(the episode so far as text, number of the continuation in its batch) -> the agent's next turn."""


@dataclass
class Scripted:
    """A generator that says what a script says, and keeps what it was asked."""

    tokenizer: Any
    script: Script
    logprob: float | None = None
    asked: list[list[list[int]]] = field(default_factory=list)
    """Prompts of each round."""

    @property
    def end_ids(self) -> Collection[int]:
        """The tokenizer's end of turn."""
        return (self.tokenizer.eos_token_id,)

    def goes_on(self, wanted: bool) -> bool:
        """Alone."""
        return wanted

    def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], stop: Sequence[str]
    ) -> list[Continuation]:
        """The script's turns."""
        self.asked.append([list(prompt) for prompt in prompts])
        made = []
        for number, (prompt, room) in enumerate(zip(prompts, rooms, strict=True)):
            text = self.script(self.tokenizer.decode(list(prompt), skip_special_tokens=False), number)
            ids = self.tokenizer.encode(text, add_special_tokens=False)[:room]
            made.append(Continuation(ids, None if self.logprob is None else [self.logprob] * len(ids)))
        return made


def searching(text: str, number: int) -> str:
    """Searches once with the fact's query, then answers; every second episode answers wrongly."""
    question, answer, query = next(fact for fact in FACTS if fact[0] in text)
    if "<tool_response>\n" not in text and "<result>\n" not in text:
        return search_turn(REACT, "Look it up.", query)
    return answer_turn(REACT, "It says so.", answer if number % 2 else f"not what {question} asks")


def preset(**changes: Any) -> TrainPreset:
    """A preset for the tiny model. `sft` and `rl` are laid over its sections."""
    sft = {"batch_size": 4, "epochs": 1, "max_tokens": 1024, "learning_rate": 3e-3, "base_model": "none"}
    rl = {
        "algorithm": "grpo",
        "base_model": "none",
        "prompts_per_step": 2,
        "samples": 4,
        "mini_batch": 8,
        "per_device": 4,
        "epochs": 1,
        "learning_rate": 1e-3,
        "max_tokens": 1500,
        "max_observation_tokens": 80,
        "max_searches": 3,
        "top_k": 2,
        "rollouts": "transformers",
    }
    common = {"precision": "float32", "logging": "none", "save_steps": 2, "gradient_checkpointing": False}
    rl |= changes.get("rl", {})
    msearcher = MSearcherConstants(max_tokens=rl["max_tokens"], cache_tokens=100)
    return TrainPreset(
        name="tiny",
        protocol=changes.get("protocol", "react"),
        reward=RewardPreset(name="msearcher", constants=msearcher),
        sft=SftConfig(**(common | sft | changes.get("sft", {}))),
        rl=RlConfig(**(common | rl)),
    )
