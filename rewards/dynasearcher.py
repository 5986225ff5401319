"""The rewards of DynaSearcher (section 3.2): accuracy, recall, a penalty for searches, and the gain they make.

Where the paper is silent, here decided: the outcome of eq. 6 is r_acc of eq. 1; words are counted after normalisation,
as F1 and cover-EM see them; of several gold answers the best counts; t counts searches that were executed, one for a
request that asks both tools; the gain is paid only when the format holds; without a number of hops or supporting
documents there is no gain. Of recall's two ways, title or embedding similarity, the second is asked for what the first
does not find. Penalty and recall are reported whether paid or not.

Known holes of the paper's formula: with i >= 2, an episode that never searches gains +0.1, which
`DynaSearcherConstants.require_search` closes; and stopping before the gold hops pays more than reaching them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trailforge.rewards.answers import is_yes_and_no
from trailforge.rewards.text import cover_exact_match, exact_match, f1, has_words, normalize_answer
from trailforge.schemas import remove_invisible


class Titled(Protocol):
    """The interface of a document or passage with a title."""

    @property
    def title(self) -> str:
        """Return the title, by which the document is recognised."""
        ...


class TitledText(Titled, Protocol):
    """The interface of a document or passage with a title and a text."""

    @property
    def text(self) -> str:
        """Return the text of the document; empty where it is not known."""
        ...


Similarity = Callable[[str, str], float]
"""A function that returns the cosine of two passages' embeddings from their texts, -1 to 1, as
`retrieval.encoders.encoder.Encoder.similarity`."""


_FEWEST_WORDS = 8
"""Of a text that is known again by its words: fewer may stand anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynaSearcherConstants:
    """The constants of the equations; all but the last two have the paper's values by default."""

    format_floor: float = 0.1
    """Reward of a wrong answer in the right format (eq. 1)."""
    length_ratio: float = 3.0
    """Length of an answer, as a multiple of the gold answer's words, from which on F1 counts and not cover-EM (n of eq.
    2)."""
    gain_scale: float = 0.5
    """Weight of the gain (alpha of eq. 4, section 4.1)."""
    penalty_floor: float = -0.2
    """Lowest penalty, that is, the largest bonus for stopping early (beta of eq. 5)."""
    penalty_decay: float = 0.9
    """Decay of the penalty with each search (gamma of eq. 5)."""
    require_search: bool = True
    """Whether only an episode that searched is paid the gain. The paper does not ask for it."""
    cover_characters: bool = False
    """Whether an answer covers a gold one by characters, as the published evaluators have it: "1944" covers "4", and
    "yes no" both. False: by whole words, and yes and no at once are no answer."""
    recall_similarity: float = 1.0
    """Similarity from which on a passage of another title counts as a supporting document (eq. 3), as chunks and web
    pages may. 1: only a passage that holds the document's words, or is part of it, counts, which needs no encoder.
    Below 1 the result depends on the encoder, and the paper gives no number."""


PAPER = DynaSearcherConstants(require_search=False, cover_characters=True)
"""The paper's literal constants, with the gap that an episode without searches gains."""

DEFAULT = DynaSearcherConstants()
"""The paper's constants, with the gain for episodes that searched only, and answers compared by whole words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynaSearcherReward:
    """The parts of DynaSearcher's reward, and their sum."""

    total: float
    """r_acc + r_gain (eq. 6); with the paper's constants from -0.4 to 1.6, without gold hops from 0 to 1."""
    r_acc: float
    """Accuracy (eq. 1): 0.0, or from the format floor to 1."""
    r_ans: float
    """How right the answer is (eq. 2), in [0, 1]."""
    r_recall: float | None
    """Share of the supporting documents that were retrieved (eq. 3), in [0, 1]; None when no supporting document is
    known."""
    r_penalty: float | None
    """Penalty for searches (eq. 5), from the penalty floor to below 1, negative for fewer searches than hops; None when
    the number of hops is not known."""
    r_gain: float
    """Gain (eq. 4); 0.0 when it is not paid."""


def r_ans(prediction: str, golds: Sequence[str], constants: DynaSearcherConstants = DEFAULT) -> float:
    """Return how right the answer is (eq. 2), in [0, 1]: F1 if it has at least n times the gold's words, else cover-EM.

    A gold answer of which normalising leaves nothing ("A") has no words, and F1 compares it unnormalised.
    """
    if is_yes_and_no(prediction) and not constants.cover_characters and not exact_match(prediction, golds):
        return 0.0
    return max((_r_ans(prediction, gold, constants) for gold in golds), default=0.0)


def _r_ans(prediction: str, gold: str, constants: DynaSearcherConstants) -> float:
    words, gold_words = (len(normalize_answer(text).split()) for text in (prediction, gold))
    if words >= constants.length_ratio * gold_words:
        return f1(prediction, (gold,))
    return cover_exact_match(prediction, (gold,), word_boundary=not constants.cover_characters)


def r_acc(answer: float, *, format_holds: bool, constants: DynaSearcherConstants = DEFAULT) -> float:
    """Return the accuracy (eq. 1) from `answer` = r_ans: at least the format floor, but 0 when the format is broken."""
    return max(constants.format_floor, answer) if format_holds else 0.0


def same_title(supporting: Titled, retrieved: Titled) -> bool:
    """Tell whether two documents have the same title, ignoring case and white space."""
    return _title(supporting) == _title(retrieved)


def nearest_similarities(
    supporting: Sequence[TitledText], retrieved: Sequence[TitledText], similarity: Similarity | None
) -> tuple[float | None, ...]:
    """Return for each supporting document the highest similarity to a retrieved passage: 1 where one holds the other's
    words.

    It is None where it is not needed, because a passage has the title, and where it is not known: without a text of
    either, and for texts of different words without `similarity`.
    """
    texts = list(dict.fromkeys(passage.text for passage in retrieved if passage.text))
    return tuple(
        None
        if not document.text or any(same_title(document, passage) for passage in retrieved)
        else _nearest(document.text, texts, similarity)
        for document in supporting
    )


def _nearest(text: str, others: Sequence[str], similarity: Similarity | None) -> float | None:
    if any(same_words(text, other) for other in others):
        return 1.0
    return max((similarity(text, other) for other in others), default=None) if similarity else None


def same_words(one: str, other: str) -> bool:
    """Tell whether one of two texts holds the other whole, as a document holds its chunks. Texts of less than 8 words
    never do."""
    shorter, longer = sorted((normalize_answer(one), normalize_answer(other)), key=len)
    return len(shorter.split()) >= _FEWEST_WORDS and has_words(longer, shorter)


def r_recall(
    supporting: Sequence[Titled],
    retrieved: Sequence[Titled],
    *,
    nearest: Sequence[float | None] = (),
    threshold: float = 1.0,
) -> float | None:
    """Return TP / (TP + FN) (eq. 3): the share of the supporting documents that was retrieved; None when there are
    none.

    A document counts as retrieved when a passage has its title, or is at least as near to it as `threshold`. `nearest`:
    the result of `nearest_similarities`, or empty where it was not measured.
    """
    if not supporting:
        return None
    near = nearest or [None] * len(supporting)
    found = sum(
        any(same_title(document, passage) for passage in retrieved) or (likeness is not None and likeness >= threshold)
        for document, likeness in zip(supporting, near, strict=True)
    )
    return found / len(supporting)


def r_penalty(searches: int, hops: int, constants: DynaSearcherConstants = DEFAULT) -> float:
    """Return max(beta, 1 - gamma^(t - i)) (eq. 5), t searches, i gold hops.

    It is 0 when they are equal, rises towards 1 with every search more, and is negative (a bonus in eq. 4) for fewer.
    """
    return max(constants.penalty_floor, 1.0 - constants.penalty_decay ** (searches - hops))


def r_gain(recall: float, penalty: float, constants: DynaSearcherConstants = DEFAULT) -> float:
    """Return the gain (eq. 4), alpha * (r_recall - r_penalty): what an episode is paid for its searches beside its
    accuracy.
    """
    return constants.gain_scale * (recall - penalty)


def dynasearcher_reward(
    *,
    prediction: str,
    golds: Sequence[str],
    format_holds: bool,
    recall: float | None,
    searches: int,
    hops: int | None,
    constants: DynaSearcherConstants = DEFAULT,
) -> DynaSearcherReward:
    """Return all parts and the total (eq. 6). `recall`: the result of `r_recall`; `searches`: number of executed
    searches."""
    answer = r_ans(prediction, golds, constants)
    accuracy = r_acc(answer, format_holds=format_holds, constants=constants)
    penalty = None if hops is None else r_penalty(searches, hops, constants)
    is_paid = format_holds and (searches > 0 or not constants.require_search)
    gain = r_gain(recall, penalty, constants) if is_paid and recall is not None and penalty is not None else 0.0
    return DynaSearcherReward(
        total=accuracy + gain, r_acc=accuracy, r_ans=answer, r_recall=recall, r_penalty=penalty, r_gain=gain
    )


def _title(document: Titled) -> str:
    return " ".join(remove_invisible(document.title)[0].casefold().split())  # as agents are shown it
