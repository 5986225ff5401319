"""Train the base model of the benchmark `teaching`: a Llama of a million weights that can copy text in a world's
language and no more.

It is trained on documents, look-alikes among them, on questions with the answers that they state, and on other words
for the same search. All names in them are drawn again in every text, from those that no world has: it learns to copy
what stands there, since there is nothing to remember. It has seen no turn of an agent and no search.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from _teaching_world import ENDINGS, MARKS, NAME, STEMS, ErringModel, Lore, names_of, read_lines, template_of

from trailforge.inference.prompts import Prompts
from trailforge.protocols import REACT

_PIECES = r"</?[a-z_]+>|[.?!:;,\"()\n]+ ?|[^<.?!:;,\"()\n]+"
"""What a token never goes beyond: tags, marks, and the words between them and names."""

_SHORT, _LONG = 0.2, 256
"""Share of the steps on single texts, from which copying is learnt soonest, and the tokens of the rows after that, in
which what is copied stands further back."""


@dataclass(frozen=True, kw_only=True)
class BaseConfig:
    """Size of the base model and length of its training."""

    width: int = 128
    layers: int = 3
    steps: int = 4000
    batch: int = 16
    learning_rate: float = 3e-3
    window: int = 1024
    seed: int = 0


class Texts:
    """An endless supply of made-up texts in the language of the benchmark's worlds."""

    def __init__(self, graph: Path, world: Path) -> None:
        self.lore = Lore.of(graph, world)
        documents = read_lines(world / "corpus.jsonl")
        texts = {each["title"]: each["text"] for each in documents}
        reader = ErringModel(self.lore, misreads=0.0, believes=1.0)
        self._tasks: list[tuple[str, list[tuple[str, str, str]]]] = []
        """A sub-question's template, and of one or two documents what they are, say, and answer to it."""
        for search in read_lines(world / "searches.jsonl"):
            found = [(search["title"], texts[search["title"]], search["answer"])]
            if search["is_misled"]:
                title = search["first_title"]
                query = search["query"].replace(search["title"], title)
                told = f"Question: {query}\nPassages:\n1. ({title}) {texts[title]}"
                if (answer := reader(told, 0)) != "unknown":
                    found.append((title, texts[title], answer))
            self._tasks.append((search["query"].replace(search["title"], "{}"), found))
        self._others = [f"({each['title']}) {each['text']}" for each in documents]
        self._names = names_of(worlds=False)

    def __call__(self, draw: random.Random) -> str:
        """One text: two documents or three, then what is asked of them, and how else it may be asked."""
        template, found = draw.choice(self._tasks)
        lines = [f"({title}) {text}" for title, text, _ in found] + draw.sample(self._others, 3 - len(found))
        draw.shuffle(lines)
        asked = []
        for title, _, answer in found:
            query = template.replace("{}", title)
            ways = self.lore.wordings.get(template_of(query.replace(title, found[0][0])), [])
            asked.append(f"{query} {answer}")
            if ways:
                name = f"the {title}" if f"the {title}" in query else title
                asked.append(f"{query} {draw.choice(ways).replace('{}', name)} {answer}")
        draw.shuffle(asked)
        return self._renamed("\n".join([*lines, *asked]) + "\n", draw)

    def _renamed(self, text: str, draw: random.Random) -> str:
        known: dict[str, str] = {}
        return NAME.sub(lambda found: known.setdefault(found[0], draw.choice(self._names)), text)


def make_tokenizer(texts: Texts) -> Any:
    """Return a byte-level BPE tokenizer whose tokens are whole phrases, except that a name is two tokens: its stem and
    its ending.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=2700,
        min_frequency=3,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    cut = re.compile(f"{NAME.pattern}|{'|'.join(MARKS)}")
    lines = [part for text in _sample_texts(texts) for part in cut.split(text)]
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in (*STEMS, *ENDINGS, *MARKS)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[2])


def _sample_texts(texts: Texts) -> Iterator[str]:
    draw = random.Random("tokenizer")
    yield from (texts(draw) for _ in range(3000))
    pools = Prompts("trailforge.generators.mcts_trajectories", "trailforge.generators").pools("connectives")
    name = f"{STEMS[0]}{ENDINGS[0]}"
    frame = f"<|im_end|>\n<|im_start|>{{}}\n<tool_response>\n1. ({name}) </tool_response>"
    system, user = REACT.opening(name)
    yield from [f"{system.content}\n{user.content}"] * 400
    for _ in range(40):
        yield from (f"{role}\n" for role in ("system", "user", "assistant"))
        yield f"</think><search>{name}</search><think> </think><answer>{name}</answer>{frame}"
        for pool in pools.values():
            for sentence in pool:
                fields = {field: name for field in ("plan", "sub_question", "query", "answer", "title")}
                yield f"<think>{sentence.format(number=draw.randint(1, 2), **fields)} "


def make_base(graph: Path, world: Path, out: Path, config: BaseConfig) -> None:
    """Train the base model on texts of a graph and its world, and write it with its tokenizer to `out`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    texts = Texts(graph, world)
    tokenizer = make_tokenizer(texts)
    torch.manual_seed(config.seed)
    model: Any = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.width,
            intermediate_size=3 * config.width,
            num_hidden_layers=config.layers,
            num_attention_heads=config.width // 32,
            num_key_value_heads=config.width // 32,
            max_position_embeddings=config.window,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    tokenizer.save_pretrained(out)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, config.steps))
    draw, began, seen, losses = random.Random(f"base {config.seed}"), time.monotonic(), 0, list[float]()
    for step in range(config.steps):
        rows = [tokenizer.encode(texts(draw)) for _ in range(config.batch)]
        if step >= config.steps * _SHORT:  # as long as a conversation, and none is padded
            joined = [token for row in rows for token in row]
            rows = [joined[at : at + _LONG] for at in range(0, len(joined) - _LONG + 1, _LONG)]
        width = max(map(len, rows))
        ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
        # Texts are padded on the right, and nothing that counts looks to the right: no mask is wanted.
        labels = ids.masked_fill(ids == tokenizer.pad_token_id, -100)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        seen += sum(map(len, rows))
        losses.append(loss.item())
        if (step + 1) % 200 == 0:
            right = copied(model, tokenizer, texts, 60)
            seconds = time.monotonic() - began
            print(
                f"base: step {step + 1:,}, {seen:,} tokens, {seconds:,.0f} s, loss {sum(losses[-200:]) / 200:.3f}, "
                f"{right:.0%} of answers copied",
                flush=True,
            )
        if (step + 1) % 800 == 0 or step + 1 == config.steps:
            model.save_pretrained(out)


def _rate(step: int, steps: int) -> float:
    warm = min(200, steps // 10 + 1)
    return (step + 1) / warm if step < warm else 0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2


def copied(model: Any, tokenizer: Any, texts: Texts, count: int) -> float:
    """Return the share of `count` texts whose last line's answer the model generates when it is given everything before
    it.
    """
    import torch

    draw, right = random.Random("held out"), 0
    model.eval()
    with torch.no_grad():
        for text in islice(iter(lambda: texts(draw), None), count):
            names = list(NAME.finditer(text))
            end = names[-1].end() if names else len(text)
            ids = tokenizer.encode(text[:end])
            found = model(input_ids=torch.tensor([ids])).logits[0, -3:-1].argmax(-1).tolist()
            right += found == ids[-2:]
    model.train()
    return right / count
