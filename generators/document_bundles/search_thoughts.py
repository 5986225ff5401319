"""Write the thought before a gold search plan: what is asked, where to start, what is missing, in which order.

It is told from the question and the plan alone, as an agent that has searched for nothing yet could tell it: neither
evidence nor answer is looked at. A model words it, which is shown no more than that either, or sentences are drawn from
`prompts/search_thoughts.yaml` by a seeded generator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trailforge.inference import Asker, Prompts, Reply, Sampling, fill
from trailforge.protocols import one_line
from trailforge.protocols.nl_dag import SearchPlan, levels, render
from trailforge.retrieval.english import DATE
from trailforge.schemas import BundleQuestion, PlanNode, ThoughtSource, check_least

PROMPTS = Prompts("trailforge.generators.document_bundles", "trailforge.generators")
POOLS = "search_thoughts"
PROMPT = "plan_thought"
_MOST_NAMES = 3
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_TIME = re.compile(rf"{DATE}|{_YEAR.pattern}")
_WORD = re.compile(rf"[^\w\s]*{DATE}\S*|\S+")
"""A date is one word."""
_INITIAL = re.compile(r"[^\W\d_]\.")
_WITHIN = frozenset({"of", "de", "la", "du", "von", "van", "der", "del", "al"})
"""Words that may stand inside a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanThoughtConfig:
    """Settings of how the thought before a gold plan is worded, by rule or by the model, and how the model is
    called.
    """

    source: ThoughtSource = "templates"
    """What words the thought. `model`: one call for an episode that is kept and would have the templates'; they stay
    where code cannot confirm what the model says."""
    max_tokens: int = 4096
    temperature: float = 0.0
    top_p: float = 1.0
    max_words: int = 150
    """Most words of a thought, and of what a reasoning model thought before its turn that may become its thought."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for no room."""
        check_least(self, 1, "max_tokens", "max_words")


async def ask_for_thought(row: BundleQuestion, plan: SearchPlan, config: PlanThoughtConfig, asker: Asker) -> Reply:
    """Ask the model for the thought of a plan, showing it the question and the plan alone."""
    prompt = fill(
        PROMPTS.text(PROMPT),
        question=row.asked().text,
        plan=render(plan),
        max_words=str(config.max_words),
    )
    sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)
    return await asker.text(prompt, purpose="thought", sampling=sampling)


def think(row: BundleQuestion, plan: SearchPlan, *, seed: str) -> str:
    """Write the thought of a plan as one paragraph; it is the same for the same seed."""
    rng, pools = random.Random(seed), PROMPTS.pools(POOLS)

    def pick(role: str, **fields: str) -> str:
        return rng.choice(pools[role]).format(**fields)

    sentences = [pick(f"open_{row.type}")]
    names = [one_line(name) for name in names_in(row.question)]
    if not all(_YEAR.fullmatch(name) for name in names):  # a year alone is nothing to begin with
        sentences.append(pick("known_one" if len(names) == 1 else "known_many", names=join_phrases(names)))
    for node in (node for level in levels(plan) for node in level):
        sentences.append(pick(_role(node, pools), node=node.node_id, query=one_line(node.query)))
    if plan.edges:
        for node, sources in _needs(plan):
            sentences.append(pick("order_needs", node=node, sources=join_phrases(sources)))
    elif len(plan.nodes) > 1:
        sentences.append(pick("order_free"))
    sentences.append(pick("blind"))
    return " ".join(sentences)


def names_in(question: str) -> list[str]:
    """Return the first names, dates and years in a question: runs of capitalised words after the first word."""
    runs: list[list[str]] = [[]]
    for word in _WORD.findall(question)[1:]:
        plain = word.strip("\"'“”‘’(),.;:?!")
        bare = re.sub(r"['’]s$", "", plain)
        if _TIME.fullmatch(bare):
            runs += [[bare], []]
        elif _INITIAL.fullmatch(word):
            runs[-1].append(word)
            continue
        elif bare[:1].isupper():
            runs[-1].append(bare)
        elif plain in _WITHIN and runs[-1]:
            runs[-1].append(plain)
            continue
        else:
            runs.append([])
        if bare != plain or not word.endswith(plain):
            runs.append([])  # a mark or a genitive ends the name
    names = (" ".join(_without_tail(run)) for run in runs)
    return list(dict.fromkeys(name for name in names if len(name) > 1))[:_MOST_NAMES]


def _without_tail(run: Sequence[str]) -> Sequence[str]:
    return _without_tail(run[:-1]) if run and run[-1] in _WITHIN else run


def _role(node: PlanNode, pools: Mapping[str, tuple[str, ...]]) -> str:
    role = f"search_{node.tool.casefold()}"
    return role if role in pools else "search_general"


def _needs(plan: SearchPlan) -> Iterator[tuple[str, list[str]]]:
    """Each node that waits for others, with these, in the order of execution."""
    for level in levels(plan):
        for node in level:
            if sources := [edge.src for edge in dict.fromkeys(plan.edges) if edge.dst == node.node_id]:
                yield node.node_id, sources


def join_phrases(parts: Sequence[str]) -> str:
    """Join phrases: `a`, `a and b`, `a, b and c`; empty for none."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
