"""Why an R-Search episode is rejected. No filter asks a model."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from trailforge.filters.base import count_faults, reject_low_reward
from trailforge.protocols import R_SEARCH
from trailforge.rewards import evidence_recall, mentions
from trailforge.schemas import BundleQuestion, SearchEpisode, Verdict

_BRACKETED = re.compile(r"[\[{<](\w+)[\]}>]|#(\w+)")
_POINTING = re.compile(
    r"\b(?:found|given|named|identified|mentioned|returned|answered?|results?|findings?|output)\b[^,;]*?"
    r"\b(?:in|by|from|of|with)\s+(?:node\s+|step\s+|search\s+)?(\w+)",
    re.IGNORECASE,
)
"""`found in A`, `result of B`, `the person named by node A`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilterConfig:
    """What is asked of an episode. Both are those of the generator's configuration, which ranks its draws by them."""

    min_reward: float
    min_evidence: float


def judge_episode(episode: SearchEpisode, row: BundleQuestion, config: EpisodeFilterConfig) -> list[Verdict]:
    """Every filter's verdict on an episode of the question."""
    return [
        malformed(episode),
        placeholder_query(episode),
        answer_leaked(episode),
        low_reward(episode, least=config.min_reward),
        evidence_not_found(episode, row, least=config.min_evidence),
        needless_search(episode, row),
    ]


def malformed(episode: SearchEpisode) -> Verdict:
    """It breaks the protocol's grammar, or its plan breaks a rule. Score: how many rules are broken."""
    return count_faults("malformed", R_SEARCH.validate(episode.messages, strict=True), str)


def placeholder_query(episode: SearchEpisode) -> Verdict:
    """A query points to another search's result: queries are run as written, none is filled in. Score: how many do.

    `[A]`, `{A}`, `#A` are pointers, and so is `found in A`; an `A` elsewhere is not.
    """
    ids = {node.node_id for node in episode.plan_nodes}
    pointing = [node.query for node in episode.plan_nodes if _points(node.query, ids)]
    return count_faults("placeholder_query", pointing, lambda query: f"{query!r} points to another search")


def answer_leaked(episode: SearchEpisode) -> Verdict:
    """It says the answer before it has searched: it would teach to answer from memory.

    Score: how many of thought and queries mention the answer. What stands in the question is no leak, and options do.
    """
    early = [episode.thought, *(node.query for node in episode.plan_nodes)]
    if episode.options or mentions(episode.question, episode.answer):
        early = []
    leaks = [text for text in early if mentions(text, episode.answer)]
    return count_faults("answer_leaked", leaks, lambda text: f"{episode.answer!r} stands in {text[:200]!r}")


def low_reward(episode: SearchEpisode, *, least: float) -> Verdict:
    """Too low a reward: a wrong answer, mostly, where the form is right. Score: the reward."""
    reward = episode.reward
    parts = f"format {reward.format:g}, plan {reward.dag:g}, answer {reward.answer:g}"
    return reject_low_reward(reward.total, least, parts)


def evidence_not_found(episode: SearchEpisode, row: BundleQuestion, *, least: float) -> Verdict:
    """Its searches do not bring the evidence: its answer would not follow from what was read.

    Score: share of the question's hops whose evidence stands in a passage that was found.
    """
    found = [passage for search in episode.searches for passage in search.passages]
    share = evidence_recall([hop.evidence for hop in row.hops], found)
    missing = next((hop for hop in row.hops if not evidence_recall([hop.evidence], found)), None)
    keep = share >= least
    detail = "" if keep or missing is None else f"no search shows {missing.evidence[:100]!r} of {missing.document_id}"
    return Verdict(keep=keep, reason="evidence_not_found", score=round(share, 6), detail=detail)


def needless_search(episode: SearchEpisode, row: BundleQuestion) -> Verdict:
    """It searches more than once where one of its searches brings all evidence.

    It would teach to ask for what is at hand: its plan has parts and an order that it has no need of. Score: the
    largest share of the question's evidence that one search brings. A single search is never needless.
    """
    evidence = [hop.evidence for hop in row.hops]
    shares = {search.node_id: evidence_recall(evidence, search.passages) for search in episode.searches}
    enough = [node_id for node_id, share in shares.items() if share == 1.0]
    keep = len(shares) < 2 or not enough
    detail = "" if keep else f"{enough[0]} alone brings the evidence of all hops"
    score = round(max(shares.values(), default=0.0), 6)
    return Verdict(keep=keep, reason="needless_search", score=score, detail=detail)


def _points(query: str, ids: Collection[str]) -> bool:
    named = [name for found in _BRACKETED.findall(query) for name in found if name]
    return any(name in ids for name in (*named, *_POINTING.findall(query)))
