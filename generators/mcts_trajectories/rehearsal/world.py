"""A simulated world in which a search is rehearsed: chains of relations, an engine that depends on wording, a model
that errs.

"What is the patron of the rival of Mobatu?" has two hops. What is true follows from names alone; what the engine finds
follows from what is asked and its wording; what the model says first follows from the prompt, and a further draw says
the same but for a few. How often each of these goes wrong is counted from recorded runs (`counted`).
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trailforge.generators.mcts_trajectories.asking import PURPOSE as WORD
from trailforge.generators.mcts_trajectories.rehearsal.counted import Behaviour, share_of
from trailforge.generators.mcts_trajectories.telling.thoughts import PURPOSE
from trailforge.inference import Meter, Reply, Request
from trailforge.retrieval import Retrieval, Retriever
from trailforge.schemas import Document, Hop, Passage, Question

RELATIONS = "patron rival founder mascot sponsor architect harbour anthem tutor emblem banker festival".split()
_SYLLABLES = "ba do ki lu me na po ri so ta ve zu gra bel mor tan".split()
_SUBJECT = re.compile(r"#\d+|\[E\]|\b(?:[A-Z][a-z]{6,})\b")
_CLAIMED = re.compile(r'^- "(?P<which>\w*)stated": .* that the answer to .* is (?P<answer>.+)\?$', re.MULTILINE)
_TRUTH = re.compile(r"The (\w+) of (\w+) is (\w+)")

_MENDED = 0.5
"""Of the draws that differ from a wrong first answer, the right ones. Not counted: in the strong model's recording no
wrong first answer was drawn again."""
_OTHERS = 3
"""Things that a passage may speak of beside its own."""
_NO_NAMES = ("Question", "Passages", "Little")
"""Words of prompts and passages that begin with a capital."""
_FILLER = "It was there that many of them had come to know one another in those years.".split()


def name_of(*parts: str) -> str:
    """Return an invented name of four syllables, always the same for the same parts."""
    digest = hashlib.sha256("|".join(parts).encode()).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest[:4]).capitalize()


@dataclass(frozen=True, slots=True)
class ChainQuestion:
    """The content of a sub-question: relations from the outermost inwards, and the name, `#k` or `[E]` at which they
    begin.
    """

    relations: tuple[str, ...]
    subject: str

    @property
    def answer(self) -> str:
        """Return the answer that is true in this world."""
        entity = self.subject
        for relation in reversed(self.relations):
            entity = name_of(relation, entity)
        return entity

    def text(self) -> str:
        """Return the question in the policy's words."""
        return f"What is the {' of the '.join(self.relations)} of {self.subject}?"

    def gold_text(self) -> str:
        """Return the question in other words, such as the gold decomposition may use."""
        return f"Who or what is the {' of the '.join(self.relations)} of {self.subject}?"


def read_question(text: str) -> ChainQuestion:
    """Return the content of a question in any wording of this world."""
    words = tuple(word for word in re.findall(r"[a-z]+", text) if word in RELATIONS)
    subjects = _SUBJECT.findall(text)
    return ChainQuestion(words, subjects[-1] if subjects else "")


def make_question(
    number: int, seed: int | str, hops: int, behaviour: Behaviour | None = None, *, has_gold: bool = True
) -> Question:
    """Make question `number` with this many hops, and with its gold decomposition unless `has_gold` is false. The
    decomposition is worded like the policy's as often as `behaviour` counts, by default never.
    """
    rng = random.Random(f"{seed}:{number}")
    chain = rng.sample(RELATIONS, min(hops, len(RELATIONS)))
    alike = share_of(behaviour.alike) if behaviour else 0.0
    entity = start = name_of("start", str(seed), str(number))
    decomposition = []
    for position, relation in enumerate(chain):
        entity = name_of(relation, entity)
        asked = ChainQuestion((relation,), f"#{position}" if position else start)
        text = asked.text() if rng.random() < alike else asked.gold_text()
        decomposition.append(Hop(question=text, answer=entity))
    return Question(
        id=f"chain-{seed}-{number}",
        question=ChainQuestion(tuple(reversed(chain)), start).text(),
        answer=entity,
        decomposition=tuple(decomposition) if has_gold else (),
        paragraphs=(Document(id="0", title=start, text="Made up."),),
        dataset="chains",
    )


class Engine(Retriever):
    """A simulated search engine that finds the passage answering a sub-question, or misses it, depending on the
    question and a little on its wording.
    """

    def __init__(self, question: Question, behaviour: Behaviour, words: int) -> None:
        """`words`: that a passage has at least."""
        self._id, self._behaviour, self._words = question.id, behaviour, words
        self._golds = {read_question(hop.question).relations: hop.question for hop in question.decomposition}

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages for a query, as a real search engine would (`Retriever.retrieve`)."""
        asked = read_question(query)
        innermost, behaviour = asked.relations[-1] if asked.relations else "", self._behaviour
        hop = f"{self._id}|{innermost}|{asked.subject}"
        is_found = random.Random(hop).random() < share_of(behaviour.found)
        if query != self._own_words(ChainQuestion((innermost,), asked.subject)):
            changes = share_of(behaviour.lost if is_found else behaviour.found_reworded)
            is_found ^= random.Random(f"{hop}|{query}").random() < changes
        rng = random.Random(f"{hop}|{is_found or query}")
        found: list[Passage] = []
        if is_found and innermost:
            truth, other = (
                ChainQuestion((innermost,), asked.subject).answer,
                name_of("other", hop, str(rng.randrange(_OTHERS))),
            )
            text = f"The {innermost} of {asked.subject} is {truth}. It was {other} once."
            found.append(self._passage(f"{asked.subject}/{innermost}", asked.subject, text))
        while len(found) < k:
            other = name_of("other", hop, str(_OTHERS + rng.randrange(_OTHERS * k)))
            if all(not passage.id.endswith(other) for passage in found):
                text = f"{asked.subject} and {other} have met more than once. Little else is known of the two."
                found.append(self._passage(f"{asked.subject}/{other}", asked.subject, text))
        return found

    def _own_words(self, asked: ChainQuestion) -> str:
        """What is asked as the gold decomposition words it; the policy's words where there is none."""
        is_other = self._golds.get(asked.relations, "").startswith("Who")
        return asked.gold_text() if is_other else asked.text()

    def _passage(self, name: str, title: str, text: str) -> Passage:
        missing = max(0, self._words - len(text.split()))
        filler = " ".join((_FILLER * (missing // len(_FILLER) + 1))[:missing])
        return Passage(id=name, title=title, text=f"{text} {filler}".strip(), score=1.0)


class Engines(Retrieval):
    """Retrieval in the simulated world: a simulated search engine for each question."""

    def __init__(self, behaviour: Behaviour, words: int = 0) -> None:
        """`words`: of a passage, at least."""
        super().__init__(None, None)
        self._behaviour, self._words = behaviour, words

    async def for_question(self, question: Question) -> Retriever:
        """Return the simulated search engine of a question, as `Retrieval.for_question` returns a real one."""
        return Engine(question, self._behaviour, self._words)

    async def best_sentences(self, query: str, passages: Sequence[Passage], n: int) -> list[tuple[Passage, str]]:
        """Return the first sentence of each passage, which states the fact."""
        sentences = [(p, f"{each.strip(' .')}.") for p in passages for each in p.text.split(". ") if each.strip(" .")]
        return sentences[:n]


class ChainModel:
    """A simulated model client that behaves as was counted. A repeated call is answered from its first reply."""

    def __init__(
        self, behaviour: Behaviour, question: Question, count: Callable[[Request, str], Reply] | None = None
    ) -> None:
        """`question`: what is asked about. `count`: makes the reply of a text; without it no tokens are counted."""
        self._behaviour, self._question = behaviour, question
        self._count = count or (lambda request, text: _reply(request, text))
        self._replies: dict[str, Reply] = {}
        self._first: dict[str, str] = {}
        self.purposes: Counter[str] = Counter()
        """Of the calls, each counted once."""

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """Return a reply to a request as a model's client would (`ModelClient.complete`); `meter` counts the call."""
        reply = self._replies.get(request.key)
        if reply is None:
            prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content
            text = self._text(request, prompt, random.Random(f"{self._question.id}|{request.sampling_seed}"))
            reply = self._replies[request.key] = self._count(request, text)
            self.purposes[request.purpose] += 1
        if meter is not None:
            meter.add(reply)
        return reply

    def _text(self, request: Request, prompt: str, rng: random.Random) -> str:
        if request.purpose == "choose":
            return "1 \n"
        if request.purpose == WORD:
            hops = json.loads(request.json_schema or "")["properties"]["sub_questions"]["minItems"]
            return json.dumps({"clear": True, "sub_questions": [""] * hops})
        if request.purpose == "grade":
            return '{"score": 0}'
        if request.purpose == PURPOSE:
            return _thoughts(request.json_schema or "", prompt, self._behaviour, self._question.id, rng)
        if request.purpose == "rephrase":
            return self._reworded(_last(prompt, "Query: "), prompt, rng)
        if request.purpose in ("judge", "split") and rng.random() < share_of(self._behaviour.malformed):
            return "It can be taken apart."
        if request.purpose == "judge":
            listed = (line.partition(". ")[2] for line in prompt.rpartition("Questions:\n")[2].splitlines())
            return "\n".join("Yes" if len(read_question(each).relations) > 1 else "No" for each in listed)
        asked = read_question(_last(prompt, "Question: "))
        if request.purpose == "split":
            return json.dumps({"decompositions": self._splits(asked, rng)[: _wanted(prompt, "Give")]})
        return self._answer(asked, prompt.strip().rpartition("\n\n")[2], rng)  # what stands before are examples

    def _answer(self, asked: ChainQuestion, prompt: str, rng: random.Random) -> str:
        """The first reply to a prompt follows from the prompt; another one says the same, unless the prompt is one of
        the counted share that has more than one answer."""
        if (first := self._first.get(prompt)) is None:
            reply = self._first_answer(asked, prompt, random.Random(f"{self._question.id}|{prompt}"))
            return self._first.setdefault(prompt, reply)
        is_unstable = random.Random(f"unstable|{self._question.id}|{prompt}").random() < share_of(
            self._behaviour.unstable
        )
        if not is_unstable or rng.random() >= share_of(self._behaviour.redrawn):
            return first
        right = asked.answer if _is_stated(asked, prompt) else f"{asked.answer} (memory)"
        if first != right and rng.random() < _MENDED:
            return right
        return _misread(asked, prompt, {first, asked.answer}, rng)

    def _first_answer(self, asked: ChainQuestion, prompt: str, rng: random.Random) -> str:
        behaviour = self._behaviour
        is_there = _is_stated(asked, prompt)
        if len(asked.relations) > 1:
            is_right = is_there and rng.random() < share_of(behaviour.unsplit)
            return asked.answer if is_right else _misread(asked, prompt, {asked.answer}, rng)
        if rng.random() < share_of(behaviour.read if is_there else behaviour.remembered):
            return asked.answer if is_there else f"{asked.answer} (memory)"
        if not is_there and rng.random() < share_of(behaviour.abstained):
            return "unknown"
        return _misread(asked, prompt, {asked.answer}, rng)

    def _splits(self, asked: ChainQuestion, rng: random.Random) -> list[dict[str, str]]:
        """As many ways to split as the question has relations: every cut, and one cut in other words.

        A wrong split asks for another relation. As many are wrong as make the counted share of whole plans fail.
        """
        cuts = list(range(1, len(asked.relations)))
        rng.shuffle(cuts)
        wrong = 1 - share_of(self._behaviour.plans) ** (1 / max(1, len(self._question.decomposition) - 1))
        splits = []
        for way, cut in enumerate([*cuts, cuts[0]] if cuts else []):
            outer, inner = list(asked.relations[:cut]), list(asked.relations[cut:])
            if rng.random() < wrong:
                changed = rng.choice((outer, inner))
                changed[0] = rng.choice([other for other in RELATIONS if other not in asked.relations])
            second = ChainQuestion(tuple(outer), "[E]").text()
            if way == len(cuts):
                second = f"Which {' of the '.join(outer)} does [E] have?"
            splits.append({"first": ChainQuestion(tuple(inner), asked.subject).text(), "second": second})
        return splits

    def _reworded(self, query: str, prompt: str, rng: random.Random) -> str:
        """As many other wordings as the prompt asks for, of those that it does not show, while there are any; the
        counted share of them can be used, the others are a piece of the query."""
        asked = read_question(query)
        thing = " of the ".join(asked.relations)
        fresh = [way for each in _WAYS if (way := each.format(thing=thing, of=asked.subject)) not in prompt]
        chosen = rng.sample(fresh, min(_wanted(prompt, "Write"), len(fresh)))
        _, are_counted = self._behaviour.wordings
        usable = share_of(self._behaviour.wordings) if are_counted else 1.0
        return "\n".join(way if rng.random() < usable else query.split()[0] for way in chosen)


_WAYS = (
    "{of} {thing} name",
    "Which {thing} belongs to {of}?",
    "known as the {thing} of {of}",
    "Tell which {thing} {of} has",
    "{thing} that {of} is known for",
    "name of the {thing} that goes with {of}",
    "find out which {thing} is that of {of}",
    "who or what is {thing} to {of}",
)


def _is_stated(asked: ChainQuestion, prompt: str) -> bool:
    """Do the passages say what is asked first?"""
    truths = {(relation, subject) for relation, subject, _ in _TRUTH.findall(prompt)}
    return bool(asked.relations) and (asked.relations[-1], asked.subject) in truths


def _misread(asked: ChainQuestion, prompt: str, not_these: set[str], rng: random.Random) -> str:
    """Another name that the passages have; where they have none, one from memory."""
    named = sorted(set(_SUBJECT.findall(prompt)) - {asked.subject, *_NO_NAMES, *not_these})
    return rng.choice(named) if named else f"{name_of('memory', asked.subject, str(rng.randrange(5)))} (memory)"


def _thoughts(schema: str, prompt: str, behaviour: Behaviour, question: str, rng: random.Random) -> str:
    """As many words in each field as a sentence or two have, and a sentence that has the answer where one is cited.

    What the model is asked is true, but of a mistake that it is stated only as often as was counted, and of the first
    claim but in the counted share of questions."""
    is_supported = random.Random(f"supported|{question}").random() >= share_of(behaviour.unsupported)
    turns = {name: turn["properties"] for name, turn in json.loads(schema)["properties"].items()}
    reply = {
        name: {each: kind["type"] == "boolean" or "word " * 25 for each, kind in fields.items()}
        for name, fields in turns.items()
    }
    for name, field, sentence in _cited(prompt):
        reply[name][field] = sentence
    for number, told in enumerate(each for each in reply.values() if "stated" in each):
        if "reflection" in told:
            told["stated"] = rng.random() < share_of(behaviour.stated_mistakes)
        else:
            told["stated"] = bool(number) or is_supported
    return json.dumps(reply)


def _cited(prompt: str) -> Iterator[tuple[str, str, str]]:
    """Of each turn that claims an answer: its name, the field of the sentence that this rests on, and the last sentence
    shown before that has it."""
    for told in _CLAIMED.finditer(prompt):
        turn = re.findall(r"^Turn (\d+)$", prompt[: told.start()], re.MULTILINE)[-1]
        yield f"turn_{turn}", f"{told['which']}quote", _last_sentence(prompt[: told.start()], told["answer"])


def _last_sentence(shown: str, answer: str) -> str:
    """The last sentence that has an answer; empty where none has. A pattern of the whole sentence would be tried from
    each of a prompt's letters."""
    places = [found.span() for found in re.finditer(rf"\b{re.escape(answer)}\b", shown)]
    if not places:
        return ""
    first, last = places[-1]
    begin = max(shown.rfind(end, 0, first) for end in ".\n") + 1
    return (shown[begin:last] + re.split(r"[.\n]", shown[last:], maxsplit=1)[0]).strip()


def _wanted(prompt: str, verb: str) -> int:
    """How many a prompt asks for: one, where it does not say."""
    count = re.search(rf"{verb} (\d+|one)\b", prompt)
    return 1 if count is None or count[1] == "one" else int(count[1])


def _reply(request: Request, text: str) -> Reply:
    return Reply(text=text, finish_reason="stop", prompt_tokens=0, completion_tokens=0, key=request.key)


def _last(prompt: str, label: str) -> str:
    return prompt.rpartition(label)[2].split("\n", 1)[0].strip()
