"""Reasons to reject an R-Search episode. None of these filters asks a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from trailforge.filters.answers import content_stems
from trailforge.filters.base import count_faults, reject_low_reward, reject_malformed
from trailforge.filters.bundles import gold_in_queries
from trailforge.filters.guesses import admitted_guess, find_admission
from trailforge.filters.thoughts import find_tag, find_unseen_names
from trailforge.protocols import R_SEARCH
from trailforge.protocols.nl_dag import SearchPlan
from trailforge.rewards import evidence_recall, mentions
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import BundleQuestion, SearchEpisode, Verdict

_AFTER_ID = (
    r"(?=\s*(?:$|[,;:?!)\]}]|\.\s*$|['’]s\b|(?:in|on|at|of|and|or|for|with|by|to|from|during|before|after|since|who"
    r"|which|that|where|when|was|were|is|are|has|had|did|does)\b))"
)
"""What may follow a pointer: `found in A and B` points, `results in B cells` does not."""
_WHOLE = r"(?:\s*$|\s*[,;?!)\]}]|\.(?:\s|$))"
_FOUND = r"found|given|named|identified|mentioned|returned|answered|obtained|discovered|retrieved|described|determined"
_STEP = r"search|node|query|step"
_ORDER = r"previous|prior|preceding|earlier|first|second|third|fourth|last|other"
_ID = r"(?P<id>\w+)"
_POINTERS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"[\[{{<][^\[\]{{}}<>]*?\b{_ID}\s*[\]}}>]",
        rf"[\[{{<]\s*{_ID}['’]s\b[^\[\]{{}}<>]*[\]}}>]",
        rf"(?<!\w)[#$]{_ID}",
        rf"\((?:(?:as|see|cf\.?|in|of|from|by|via|per)\s+)+(?:{_STEP})?\s*{_ID}\)",
        rf"\b(?:node|step|query)\s+{_ID}\b",
        rf"\b(?:{_FOUND}|findings?|output|answer)\b[^,;]*?\b(?:in|by|from|of|with|to)\s+(?:the\s+)?(?:(?:{_STEP})\s+)?"
        rf"{_ID}{_AFTER_ID}",
        rf"\bresults?\s+(?:of|from)\s+(?:(?:{_STEP})\s+)?{_ID}{_AFTER_ID}",
        rf"\b(?:from|using|via|per|based on|according to)\s+{_ID}(?!\s+to\s){_AFTER_ID}",
        rf"(?:^|\b(?:of|for|by|with|in|to|about|from|on|and)\s+){_ID}['’]s\s",
    )
]
"""`[A]`, `[agency from A]`, `#A`, `(from A)`, `step A`, `found in A`, `result of A`, `based on A`, `A's director`."""
_POINTS_BACK = re.compile(
    rf"\b(?:{_FOUND}|listed)\s+(?:above(?!\s+(?:\d|the\b|an?\b|sea\b|ground\b))|earlier{_WHOLE}|previously{_WHOLE})"
    rf"|\b(?:from|of|by|in|with|using)\s+the\s+(?:{_ORDER}|above)\s+(?:{_STEP}|result|answer)s?{_WHOLE}"
    r"|\baforementioned\b|\bsee above\b|\{[^{}]+\}|<[^\W\d][^<>]*>|\[[^\[\]]+\s[^\[\]]+\]",
    re.IGNORECASE,
)
"""`identified above`, `from the first search`, `{city}`, `[the author]`: no id, and a pointer all the same."""

_BODIES = (
    "House Senate Congress Parliament Assembly Council Cabinet Supreme Court Department Ministry Agency Commission "
    "Committee Subcommittee Bureau Board Administration Government Senator Representative Congressional Federal "
    "Governor Mayor Minister Secretary Chair Bill Act Amendment Law"
)
"""Words for bodies, offices and what these pass: each says of which kind something is and names nothing by itself."""

_FIGURE = re.compile(r"(?<![\w.-])(?:\d+\.\d+|\d{2,}|\d+(?=[kKmMbBtT]\b))[kKmMbBtT]?(?!\w)")
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilterConfig:
    """Which filters an episode must pass, with their limits. The generator ranks its draws by the same `min_reward` and
    `min_evidence`.
    """

    min_reward: float
    min_evidence: float
    most_gold: float = 1.0
    """Most of a query's words that only the gold documents give, as a share; see `gold_in_episode`."""


def judge_episode(episode: SearchEpisode, row: BundleQuestion, config: EpisodeFilterConfig) -> list[Verdict]:
    """Return every filter's verdict on an episode of the question, in the order in which a rejection gives the reason.

    An episode that was given up after its search has no answer, and so is `malformed_conversation`; the verdicts on its
    plan come first, since they tell why it was given up.
    """
    form, of_plan = malformed_conversation(episode), judge_plan(episode, row, config)
    is_given_up = bool(episode.messages) and episode.messages[-1].role == "tool"
    first = [*of_plan, form] if is_given_up else [form, *of_plan]
    last = "" if is_given_up or not episode.messages else episode.messages[-1].content
    names = () if episode.options else (episode.answer, episode.final_answer)
    read = [f"{passage.title}. {passage.text}" for search in episode.searches for passage in search.passages]
    guess = admitted_guess(find_admission(last, names, read))
    return [*first, guess, low_reward(episode, least=config.min_reward)]


def judge_plan(episode: SearchEpisode, row: BundleQuestion, config: EpisodeFilterConfig) -> list[Verdict]:
    """Return the verdicts of the filters that need no answer. An episode that one of them rejects is dropped before it
    is asked for an answer.
    """
    return [
        placeholder_query(episode),
        answer_before_search(episode),
        unread_figure(episode, row),
        picked_options(episode),
        evidence_not_found(episode, row, least=config.min_evidence),
        one_search_suffices(episode, row),
        gold_in_episode(episode, row, most=config.most_gold),
    ]


def malformed_conversation(episode: SearchEpisode) -> Verdict:
    """Reject an episode that breaks the protocol's grammar, or whose plan breaks a rule.

    Score: how many rules are broken.
    """
    return reject_malformed(R_SEARCH.validate(episode.messages, strict=True))


def placeholder_query(episode: SearchEpisode) -> Verdict:
    """Reject an episode with a query that points to another search's result: queries run as written, and nothing is
    filled in.

    The score is the number of such queries. `[A]`, `#A`, `found in A`, `A's director`, `identified above` point; the
    `A` of `vitamin A` does not.
    """
    ids = {node.node_id for node in episode.plan_nodes}
    pointing = [node.query for node in episode.plan_nodes if points_elsewhere(node.query, ids)]
    return count_faults("placeholder_query", pointing, lambda query: f"{query!r} points to another search")


def answer_before_search(episode: SearchEpisode) -> Verdict:
    """Reject an episode that says the answer before it has searched: it would teach to answer from memory.

    Score: how many of thought and queries mention the answer. What stands in the question, as options do, is no leak.
    """
    early = [episode.thought, *_queries(episode)]
    if episode.options or mentions(episode.question, episode.answer):
        early = []
    leaks = [text for text in early if mentions(text, episode.answer)]
    return count_faults("answer_before_search", leaks, lambda text: f"{episode.answer!r} stands in {text[:200]!r}")


def unread_figure(episode: SearchEpisode, row: BundleQuestion) -> Verdict:
    """Reject an episode whose thought or query has a figure of the evidence or the answer (`13M`) that the question
    does not have.

    Nothing has been read yet, so the figure is recalled, and the search only has to confirm it. Years and single digits
    do not count: they stand in any query. Score: how many of thought and queries have such a figure.
    """
    known = _figures(" ".join((row.question, *row.options)))
    gold = _figures(" ".join((*(hop.evidence for hop in row.hops), row.answer))) - known
    leaks = [(text, found) for text in (episode.thought, *_queries(episode)) if (found := _figures(text) & gold)]
    return count_faults("unread_figure", leaks, lambda leak: f"{leak[0][:200]!r} knows {', '.join(sorted(leak[1]))}")


def picked_options(episode: SearchEpisode) -> Verdict:
    """Reject an episode whose queries name some of the options and not the others: it chooses before anything is read.
    The score is the number of options that no query names, where some are named. Options that the question itself names
    do not count.
    """
    options = [option for option in episode.options if not mentions(episode.question, option)]
    unnamed = [option for option in options if not any(mentions(query, option) for query in _queries(episode))]
    left_out = unnamed if len(unnamed) < len(options) else []
    return count_faults("picked_options", left_out, lambda option: f"queries name other options, and not {option!r}")


def low_reward(episode: SearchEpisode, *, least: float) -> Verdict:
    """Reject an episode whose reward is too low: mostly a wrong answer in the right form. Score: the reward."""
    reward = episode.reward
    parts = f"format {reward.format:g}, plan {reward.dag:g}, answer {reward.answer:g}"
    return reject_low_reward(reward.total, least, parts)


def evidence_not_found(episode: SearchEpisode, row: BundleQuestion, *, least: float) -> Verdict:
    """Reject an episode whose searches do not bring the evidence: its answer would not follow from what was read.

    Score: share of the question's hops whose evidence stands in a passage that was found.
    """
    found = [passage for search in episode.searches for passage in search.passages]
    share = evidence_recall([hop.evidence for hop in row.hops], found)
    missing = next((hop for hop in row.hops if not evidence_recall([hop.evidence], found)), None)
    keep = share >= least
    detail = "" if keep or missing is None else f"no search shows {missing.evidence[:100]!r} of {missing.document_id}"
    return Verdict(keep=keep, reason="evidence_not_found", score=round(share, 6), detail=detail)


def one_search_suffices(episode: SearchEpisode, row: BundleQuestion) -> Verdict:
    """Reject a gold plan that searches more than once where one of its searches brings all evidence.

    It would teach to ask for what is at hand: its plan has parts and an order that it has no need of. Score: the
    largest share of the question's evidence that one search brings. A single search is never needless, and an agent
    could not know what its searches would bring: its draws are ranked by `count_idle_searches`.
    """
    evidence = [hop.evidence for hop in row.hops]
    shares = {search.node_id: evidence_recall(evidence, search.passages) for search in episode.searches}
    enough = [node_id for node_id, share in shares.items() if share == 1.0]
    keep = len(shares) < 2 or not enough or episode.origin != "oracle"
    detail = "" if keep else f"{enough[0]} alone brings the evidence of all hops"
    score = round(max(shares.values(), default=0.0), 6)
    return Verdict(keep=keep, reason="one_search_suffices", score=score, detail=detail)


def count_idle_searches(episode: SearchEpisode, row: BundleQuestion) -> int:
    """Count the searches that find no new evidence beyond the number of hops. An agent that plans one search for each
    fact could not know that the first would find two facts.
    """
    found: set[str] = set()
    idle = 0
    for search in episode.searches:
        brought = {hop.evidence for hop in row.hops if evidence_recall([hop.evidence], search.passages)}
        idle += not brought - found
        found |= brought
    return max(0, min(idle, len(episode.searches) - len(row.hops)))


def count_needless_edges(episode: SearchEpisode, row: BundleQuestion) -> int:
    """Count the edges of a plan beyond those of the question's gold plan; all of them where its hops can be looked up
    independently.
    """
    return max(0, len(episode.plan_edges) - len(row.dag_edges))


def gold_in_episode(episode: SearchEpisode, row: BundleQuestion, *, most: float) -> Verdict:
    """Reject a gold plan whose queries use words that only the gold documents have; the score is that of
    `filters.bundles.gold_in_queries`.

    Such a plan would teach to search with words that no agent can have. An agent's own draws are ranked by it instead:
    what a model guesses of a title is its own knowledge. Titles are those of the passages with the evidence.
    """
    evidence = [hop.evidence for hop in row.hops]
    gold = {hop.document_id for hop in row.hops}
    found = [passage for search in episode.searches for passage in search.passages]
    titles = {each.title for each in found if each.id in gold or evidence_recall(evidence, [each])}
    verdict = gold_in_queries(row, _queries(episode), sorted(titles), most=most)
    return verdict if episode.origin == "oracle" else replace(verdict, keep=True, detail="")


def names_the_missing(episode: SearchEpisode, row: BundleQuestion) -> bool:
    """Tell whether the thought before the search says what each search is for, and what the question asks of it. "Two
    papers are needed" does not: it shares no word with a query, and with the question it shares names at most.
    """
    said = content_stems(episode.thought)
    wanted = content_stems(" ".join(word for word in row.question.split() if word.islower()))
    return bool(said & wanted) and all(said & content_stems(node.query) for node in episode.plan_nodes)


def unfounded_thought(thought: str, row: BundleQuestion, plan: SearchPlan, *, max_words: int) -> Verdict:
    """Reject a thought before a search that says what is not known yet, or is not a plain paragraph. The score is its
    number of faults.

    Known are the question, its options, the queries of the plan, and words for bodies and offices. Faults are the
    answer, names and numbers that are not known, tags, and more than `max_words` words.
    """
    known = [row.question, *row.options, *(node.query for node in plan.nodes), *(node.node_id for node in plan.nodes)]
    faults = [*find_unseen_names(thought, [*known, *TOOLS, _BODIES])]
    words = len(thought.split())
    if not words:
        faults.append("it thinks nothing")
    if words > max_words:
        faults.append(f"{words} words (at most {max_words})")
    if tag := find_tag(thought):
        faults.append(f"it holds the tag {tag}")
    if any(mentions(thought, gold) and not mentions(row.question, gold) for gold in _golds(row)):
        faults.append("it says the answer")
    return count_faults("unfounded_thought", faults, str)


def _queries(episode: SearchEpisode) -> Sequence[str]:
    return [node.query for node in episode.plan_nodes]


def _figures(text: str) -> set[str]:
    """Numbers as they are written, with what is joined to them (`13M`, `37.1`); no single digit and no year."""
    return {found.casefold() for found in _FIGURE.findall(text.replace(",", "")) if not _YEAR.fullmatch(found)}


def _golds(row: BundleQuestion) -> tuple[str, ...]:
    """Of a question with options the texts of the right ones: naming one of them is choosing it."""
    if not row.options:
        return (row.answer,)
    letters = [chr(ord("A") + number) for number in range(len(row.options))]
    return tuple(text for letter, text in zip(letters, row.options, strict=True) if letter in row.correct_options)


def points_elsewhere(query: str, ids: Collection[str]) -> bool:
    """Tell whether a query points to what another search of its plan finds. `ids` are those of the plan's nodes."""
    if _POINTS_BACK.search(query):
        return True
    return any(found["id"] in ids for pointer in _POINTERS for found in pointer.finditer(query))
