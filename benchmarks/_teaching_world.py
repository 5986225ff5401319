"""The made-up graph of `teaching`, and the scripted model that makes its rows: it reads, and it errs.

Names are a stem and an ending, so that a small tokenizer spells every name in two pieces. A third of all names is no
world's: a base model is trained on them alone, and has never read a name that a world has.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.model_server import Server
from trailforge.generators.kg_questions.worlds import WorldConfig
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.generators.kg_questions.worlds.questions import sample_questions
from trailforge.generators.kg_questions.worlds.searches import rewordings
from trailforge.generators.sft_rows import without_answer
from trailforge.inference.threads import LoopThread
from trailforge.mcts.rollout import is_usable_query
from trailforge.pipelines.sources import read_questions
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import Question

MISLED, LATER, CLEAN = "first passage wrong", "a later one wrong", "clean"
"""Questions by what is first when a search is made in their own words."""
STEMS = [
    f"{a}{b}{c}{d}".capitalize() for a in "bdfghklmnprstv" for b in "aeiou" for c in "bdfghklmnprstv" for d in "aeiou"
][::11]
ENDINGS = [f"zz{vowel}{end}" for vowel in "aeiou" for end in "rlnmk"]
"""No English word has such letters."""
NAME = re.compile(r"\b[A-Z][a-z]{3}zz[aeiou][rlnmk]\b")
RELATIONS = (
    ("operator", "ship", "company"),
    ("headquarters location", "company", "city"),
    ("mouth", "river", "lake"),
    ("flows through", "river", "city"),
    ("home venue", "club", "stadium"),
    ("located in", "stadium", "city"),
    ("collection", "statue", "museum"),
    ("located in", "museum", "city"),
)
"""Relation, kind of its head, kind of its tail; each leads from every entity of a kind to another one."""
_SAMPLED = 300
"""Questions from which the wordings of relations are taken."""
MARKS = ("New ", "Old ", "Second ", "Other ", "Upper ", "Little ")
"""What a look-alike is called before the name that it is like."""
_LITTLE = frozenset("the which that is does in has".split())
_NO_NAMES = "The|It|In|On|No|Visitors|Supporters|Among"
_TITLE = re.compile(rf"\((?:the )?((?:{'|'.join(MARKS)})?[A-Z]\w+)\)")


def names_of(*, worlds: bool) -> list[str]:
    """Return all made-up names that worlds use, or all those kept for the base model's training."""
    return [
        stem + ending
        for at, stem in enumerate(STEMS)
        for place, ending in enumerate(ENDINGS)
        if ((at + place) % 3 > 0) == worlds
    ]


def write_graph(folder: Path, size: int, seed: int, *, worlds: bool = True) -> None:
    """Write the tables from which `trailforge kg build` makes a graph with `size` entities of each kind. They have the
    names of worlds or, where `worlds` is False, those kept for the base model's training.
    """
    draw = random.Random(f"graph {seed}")
    names = names_of(worlds=worlds)
    draw.shuffle(names)
    kinds = list(dict.fromkeys(kind for _, *ends in RELATIONS for kind in ends))
    entities = [(f"K{number}", kind) for number, kind in enumerate(kinds)]
    of_kind: dict[str, list[str]] = {kind: [] for kind in kinds}
    triples = []
    for kind in kinds:
        for _ in range(size):
            entity = f"E{len(entities)}"
            entities.append((entity, names.pop()))
            of_kind[kind].append(entity)
            triples.append((entity, "R0", f"K{kinds.index(kind)}"))
    relations = {"instance of": "R0"}
    for relation, head, tail in RELATIONS:
        number = relations.setdefault(relation, f"R{len(relations)}")
        tails = draw.sample(of_kind[tail], size)
        triples += [(one, number, other) for one, other in zip(of_kind[head], tails, strict=True)]
    folder.mkdir(parents=True)
    tables = {"triples": triples, "entities": entities, "relations": [(key, label) for label, key in relations.items()]}
    for name, rows in tables.items():
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def template_of(text: str) -> str:
    """Return a text with its names replaced by `{}`, such as `In which city is {} located?`."""
    return re.sub(r"#\d+|\[E\]|(?:the )?" + NAME.pattern, "{}", text)


@dataclass
class Lore:
    """What a scripted model knows of a world's language, though not its facts: how questions are split and searches
    worded.
    """

    wordings: dict[str, list[str]] = field(default_factory=dict)
    """By a sub-question's template: other searches for the same."""
    splits: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By a question's template: the templates of its two halves."""

    @classmethod
    def of(cls, graph: Path, world: Path) -> Lore:
        """Learn from a world's training questions, and from the words that the world uses for each of the graph's
        relations.
        """
        lore, config, store = cls(), WorldConfig(intersections=0.0), KgStore.open(graph)
        names = WorldNames(store, config.names, config.seed)
        for question in islice(sample_questions(store, names, config, 1, 10), _SAMPLED):
            for _, hop, about in question.looked_up:
                ways = [way for way in rewordings(hop, about) if is_usable_query(way, hop.query)]
                lore.wordings[template_of(hop.query)] = list(dict.fromkeys(map(template_of, ways)))
        for question in read_lines(world / "questions.jsonl"):
            halves = [each["question"] for each in question["decomposition"]]
            if len(halves) == 2:
                first, second = (template_of(half) for half in halves)
                lore.splits.setdefault(template_of(question["question"]), []).append((first, second))
        return lore


@dataclass(frozen=True)
class ErringModel:
    """A scripted model that answers every prompt of the preset `msearcher` from the words in the prompt, and errs at
    random.
    """

    lore: Lore
    misreads: float = 0.15
    """Share of right passages of which it takes another name."""
    believes: float = 0.85
    """Share of look-alikes whose word it takes; of the others it says that it does not know."""
    splits_wrongly: float = 0.25
    """Share of splits whose second half asks for another relation."""

    def __call__(self, prompt: str, seed: int) -> str:
        draw = random.Random(f"{seed} {prompt}")
        if "other search queries" in prompt:
            return "\n".join(self._reworded(_last(prompt, "Query: "), draw))
        if "Yes or No" in prompt:
            lines = prompt.rpartition("Questions:\n")[2].splitlines()
            return "\n".join(f"{line.partition('. ')[0]}. {self._is_split(line.partition('. ')[2])}" for line in lines)
        question = _last(prompt, "Question: ")
        if "[E]" in prompt:
            return json.dumps({"decompositions": self._split(question, draw)})
        return self._answer(question, prompt.rpartition("Passages:\n")[2], draw)

    def _is_split(self, question: str) -> str:
        return "Yes" if template_of(question) in self.lore.splits else "No"

    def _split(self, question: str, draw: random.Random) -> list[dict[str, str]]:
        ways = list(dict.fromkeys(self.lore.splits.get(template_of(question), [])))
        found = re.search(r"#\d+|(?:the )?" + NAME.pattern, question)
        if not ways or not found:
            return [{"first": question, "second": "What is [E]?"}]
        first, second = draw.choice(ways)
        if draw.random() < self.splits_wrongly:
            others = sorted({way for each in self.lore.splits.values() for _, way in each if way != second})
            second = draw.choice(others)
        return [{"first": first.replace("{}", found[0]), "second": second.replace("{}", "[E]")}]

    def _reworded(self, query: str, draw: random.Random) -> list[str]:
        found = re.search(r"(?:the )?" + NAME.pattern, query)
        ways = list(self.lore.wordings.get(template_of(query), ()))
        draw.shuffle(ways)
        return [way.replace("{}", found[0]) for way in ways] if found else [query]

    def _answer(self, question: str, context: str, draw: random.Random) -> str:
        asked = NAME.findall(question)
        title, text = _TITLE.search(context), context.partition(") ")[2]
        if not asked or title is None:
            return "unknown"
        own = {asked[-1], title[1], title[1].split()[-1]}
        there, elsewhere = (
            [name for name in _found_names(part) if name not in own] for part in self._parts(question, text)
        )
        if title[1] == asked[-1]:
            if draw.random() > self.misreads:
                return there[0] if there else "unknown"
            return draw.choice(elsewhere) if elsewhere else f"{draw.choice(STEMS)}{draw.choice(ENDINGS)} (memory)"
        is_alike = asked[-1] in title[1].split()
        return there[0] if there and is_alike and draw.random() < self.believes else "unknown"

    def _parts(self, question: str, text: str) -> tuple[str, str]:
        """The sentence that has most words of a wording of the question, and the others."""
        wordings = [_words(question), *map(_words, self.lore.wordings.get(template_of(question), ()))]
        sentences = [part for part in re.split(r"(?<=[.]) ", text) if part]
        best = max(sentences, key=lambda each: max(len(_words(each) & words) / len(words) for words in wordings))
        return best, " ".join(each for each in sentences if each != best)


def _words(text: str) -> set[str]:
    """Of a text, less those that say nothing."""
    return set(re.findall(r"[a-z]{2,}", template_of(text).lower())) - {
        "the",
        "which",
        "that",
        "is",
        "does",
        "in",
        "has",
    }


def _found_names(text: str) -> list[str]:
    """Names in a text, with what makes them another's: `New Bazazzar`, `Draunas River`."""
    return re.findall(rf"\b(?!(?:{_NO_NAMES})\b)[A-Z]\w+(?: [A-Z]\w+)*", text)


def _last(prompt: str, label: str) -> str:
    return prompt.rpartition(label)[2].split("\n", 1)[0].strip()


@contextmanager
def serving(model: Callable[[str, int], str]) -> Iterator[str]:
    """Serve `model`, a function of prompt and seed, as OpenAI does, on loopback, in a thread; gives its base URL."""
    loop = LoopThread("scripted-model")

    async def start() -> web.AppRunner:
        server = Server(model, slots=256)
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", server.answer)
        app.router.add_get("/v1/models", server.models)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = loop.call(start())
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        loop.end(runner.cleanup)


def shuffled_observations(rows: Sequence[Any], seed: int) -> list[Any]:
    """Return training rows in which the search results are shuffled among all rows, as a control."""
    draw = random.Random(f"observations {seed}")
    found = [message.content for row in rows for message in row.messages if message.role == "tool"]
    draw.shuffle(found)
    return [
        replace(
            row,
            messages=tuple(
                replace(message, content=found.pop()) if message.role == "tool" else message for message in row.messages
            ),
        )
        for row in rows
    ]


def wrongly_answered(rows: Sequence[Any], seed: int, share: float = 0.2) -> list[Any]:
    """Return training rows in which a random share of the questions ends with another row's last turn: searched well,
    answered wrongly. No loss falls on that turn, as in `training-set --keep-wrong`.
    """
    asked = sorted({row.question_id for row in rows})
    draw = random.Random(f"wrong {seed}")
    wrong = frozenset(draw.sample(asked, round(share * len(asked))))
    found = []
    for row in rows:
        if row.question_id in wrong:
            other = draw.choice([each for each in rows if each.answer != row.answer])
            row = without_answer(replace(row, messages=(*row.messages[:-1], other.messages[-1])))
        found.append(row)
    return found


def of_questions_by_lot(rows: Sequence[Any], seed: int, count: int) -> list[Any]:
    """Return the training rows of `count` questions drawn at random, as a control for questions that were selected."""
    asked = sorted({row.question_id for row in rows})
    chosen = frozenset(random.Random(f"lot {seed}").sample(asked, count))
    return [row for row in rows if row.question_id in chosen]


def asked_of(world: Path) -> dict[str, list[str]]:
    """Return the test questions' ids, grouped by what a search in the question's own words ranks first."""
    first: dict[str, list[bool]] = {}
    for search in read_lines(world / "searches.jsonl"):
        first.setdefault(search["question_id"], []).append(search["is_misled"])
    ids = [each["id"] for each in read_lines(world / "test.jsonl")]
    return {
        MISLED: [each for each in ids if first[each][0]],
        LATER: [each for each in ids if any(first[each]) and not first[each][0]],
        CLEAN: [each for each in ids if not any(first[each])],
    }


def asked_of_questions(test: Path, corpus: Path) -> dict[str, list[str]]:
    """Return the ids of test questions over an ordinary corpus, grouped by whether BM25 ranks a supporting document
    first.
    """
    retriever = Bm25Retriever(list(read_corpus(corpus)))
    asked: dict[str, list[str]] = {MISLED: [], LATER: [], CLEAN: []}
    for question in read_questions(test):
        if isinstance(question, Question) and question.supporting:
            (first,) = asyncio.run(retriever.retrieve(question.question, 1)) or (None,)
            is_right = first is not None and first.title in {each.title for each in question.supporting}
            asked[CLEAN if is_right else MISLED].append(question.id)
    return asked
