"""A scripted model for all that happens in a night: bundles, and trajectories of the questions that it made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from tests.retrieval.kg.support import store_of
from tests.support import bundle_world
from tests.support.bundle_rows import sample_documents
from tests.support.world import listed_questions
from trailforge.presets import load_night
from trailforge.protocols import KG_SEARCH, kg_search
from trailforge.protocols.turns import Search, Turn
from trailforge.schemas import SourceDocument

PRESET = """\
model: {{name: scripted, max_in_flight: {in_flight}}}
schedule: {{questions_in_flight: 2}}
document_bundles:
  encoder: {{name: "{url}#words"}}
  content: {{min_words: 20, min_characters: 100}}
  bundles: {{method: greedy, min_cosine: 0.25}}
  selection: {{most_alike: 0.99}}
  tools: {{kind: bm25}}
  output: {{documents_per_shard: 4, bundles_per_shard: 1, questions_per_shard: 1}}
mcts_trajectories:
  filters: {{grounded: false}}
  retrieval: {{kind: bm25}}
  output: {{shard_size: 1}}
kg_trajectories:
  generator: {{episodes: 2, top_k: 2}}
  retrieval: {{kind: bm25}}
  output: {{shard_size: 1}}
"""
"""For all three data sets; the names that the model invents stand in no document. Of two questions more words are the
same than the encoder, which knows nothing but words, would let pass."""
RELATION = "joined as"
_JOINED = re.compile(r"(?:joins|shared by) “?(.+?)”? and “(.+?)”")


@dataclass(frozen=True)
class Model:
    """Answers every prompt of a night."""

    def __call__(self, prompt: str, seed: int) -> str:
        """The reply to a prompt."""
        if "Choose the triples that help" in prompt:
            return json.dumps({"keep": [int(n) for n in re.findall(rf"^(\d+)\. .* \| {RELATION} \| ", prompt, re.M)]})
        if kg_search.USER_SUFFIX in prompt:
            return _turn(prompt)
        if "other search queries that look for the same" in prompt:
            return f"{_last(prompt, 'Query: ').rstrip('?')}, by name"
        if "Break one question into exactly two" in prompt:
            return _split(_last(prompt, "Question: "))
        if "Which of the questions below can be divided" in prompt:
            return "\n".join("Yes" if "joins" in asked else "No" for asked in listed_questions(prompt))
        if "\nPassages:\n" in prompt:
            return _answer(_last(prompt, "Question: "))
        return bundle_world.Model()(prompt, seed)


def documents_of(days: Sequence[str], bundles: Sequence[int]) -> list[SourceDocument]:
    """Four documents for each day, which make the sample bundle of that number (from 0)."""
    samples = sample_documents()
    pairs = zip(days, bundles, strict=True)
    return [replace(each, published=day) for day, at in pairs for each in samples[4 * at : 4 * at + 4]]


def graph_of(folder: Path, bundles: Sequence[int]) -> Path:
    """A store that knows the name which joins any two titles of a bundle."""
    titles = [[each.title for each in documents_of([""], [at])] for at in bundles]
    pairs = [pair for of_bundle in titles for pair in permutations(of_bundle, 2)]
    triples = [(f"e:{pair[0]}", RELATION, f"e:{bundle_world.names_of(pair)[0]}") for pair in pairs]
    store_of(folder, triples, {end: (end[2:],) for head, _, tail in triples for end in (head, tail)})
    return folder


def write_preset(path: Path, url: str, *, in_flight: int = 4) -> Path:
    """`PRESET` in a file. `url`: of `model_server`, which encodes documents and questions, too."""
    path.write_text(PRESET.format(url=url, in_flight=in_flight))
    return path


def write_makes(path: Path, preset: str, kg_preset: str = "") -> Path:
    """The list of a night's data sets, all by one preset but for `kg_preset`."""
    makes = load_night("nightly")["makes"]
    presets = {"kg": kg_preset or preset}
    path.write_text(json.dumps({"makes": [each | {"preset": presets.get(each["folder"], preset)} for each in makes]}))
    return path


def _split(asked: str) -> str:
    found = _JOINED.search(asked)
    first, second = found.groups() if found else (asked, asked)
    halves = {"first": f"Which text is called “{first}”?", "second": f"What name is shared by [E] and “{second}”?"}
    return json.dumps({"decompositions": [halves]})


def _answer(asked: str) -> str:
    if called := re.search(r"Which text is called “(.+)”", asked):
        return called[1]
    found = _JOINED.search(asked)
    return bundle_world.names_of(found.groups())[0] if found else "nobody"


def _turn(prompt: str) -> str:
    """Search for the question, then answer."""
    asked, said = prompt.split(kg_search.USER_SUFFIX, maxsplit=1)
    question = asked.splitlines()[-1]
    if "<result>" in said:
        return KG_SEARCH.render_turn(Turn(thought="That is all.", answer=_answer(question)))
    found = _JOINED.search(question)
    search = Search(query=question, entities=found.groups()[:1] if found else (), relations=(RELATION,))
    return KG_SEARCH.render_turn(Turn(thought="I look for it.", search=search))


def _last(prompt: str, label: str) -> str:
    return prompt.rsplit(label, 1)[1].splitlines()[0].strip()
