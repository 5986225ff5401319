"""What follows from the fields of a row that a person fixed, and whether the row can be trusted with them.

Conversation, gold answer and rewards have to say the same. What a fix decides is put in its other places, too: a new
question into the conversation, a new final answer into its last turn. What was searched for and found stays as it was,
so an answer is taken only when the row's own searches or evidence say it. Scores of filters that ask a model, or know
the other rows, were measured on the row as it was: those are dropped, the others measured again.

Each function takes the row with its fixes and the row as the run made it, and raises `InvalidInput` when they leave no
row that a trainer can trust.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from trailforge.filters import bundles, trajectories
from trailforge.generators.kg_questions.filters import judge_unasked
from trailforge.generators.mcts_trajectories.story import answer_in, mismatch, thought_in, user_turn, with_answer
from trailforge.rewards import mcts_reward, mentions, normalize_answer, same_answer, score_answer
from trailforge.schemas import (
    BundleQuestion,
    FilterScore,
    InvalidInput,
    KgQuestion,
    Trajectory,
    Verdict,
    estimate_tokens,
)

_JOINED = "; "
"""Between the texts of the correct options."""
_LONG = 4
"""Letters of a word that says something; shorter ones join others."""
_LEAST_SUPPORT = 0.5
"""Share of such words in an answer in own words that its evidence has."""
_MEASURED_ON_OTHERS = frozenset(
    ("not_answerable", "fewer_documents_suffice", "closed_book", "duplicate_question", "contaminated")
)
"""Of a bundle's question: by a model, or against other questions."""


def trajectory(row: Trajectory, old: Trajectory) -> Trajectory:
    """With the question in its first turn, the final answer in its last one, and rewards and length of what it says."""
    row = _with_turns(row, old)
    _check(trajectories.malformed_tags(row))
    row = _with_golds(row, old)
    problem = mismatch(row) or next(_rewritten(row, old), "")
    if problem:
        raise InvalidInput(f"the conversation says otherwise: {problem}", field="messages")
    _check_question(row.question, old.question, (row.answer, *row.answer_aliases))
    _check(trajectories.wrong_answer(row), trajectories.answer_leaked(row))
    reward = score_answer(row.final_answer, (row.answer, *row.answer_aliases))
    tokens = sum(estimate_tokens(message.content) for message in row.messages)
    return replace(row, reward=reward, token_estimate=tokens)


def kg_question(row: KgQuestion, old: KgQuestion) -> KgQuestion:
    """With the scores of the filters that ask no model."""
    _check_aliases(row.answer_aliases)
    if [replace(hop, question="") for hop in row.decomposition] != [
        replace(hop, question="") for hop in old.decomposition
    ]:
        raise InvalidInput("of sub-questions only the wording can be fixed: all else follows from the facts")
    verdicts = judge_unasked(row)
    _check(*verdicts)
    is_asked_anew = (row.question, row.answer_aliases) != (old.question, old.answer_aliases)
    dropped = {"closed_book"} if is_asked_anew else set()
    return replace(row, filters=_measured(row.filters, verdicts, dropped))


def bundle_question(row: BundleQuestion, old: BundleQuestion) -> BundleQuestion:
    """With the answer of its options, and the scores of the filters that ask no model."""
    if row.options:
        row = _with_chosen(row, old)
    verdicts = [bundles.bad_options(row), bundles.answer_in_question(row)]
    _check(*verdicts)
    new = _chosen(row) - _chosen(old) if row.options else {row.answer} - {old.answer}
    for answer in sorted(new):
        if not _is_supported(answer, row):
            raise InvalidInput(f"no evidence of the question says {answer!r}", field="answer")
    return replace(row, filters=_measured(row.filters, verdicts, _MEASURED_ON_OTHERS))


def _check(*verdicts: Verdict) -> None:
    for verdict in verdicts:
        if not verdict.keep:
            raise InvalidInput(f"filter {verdict.reason} rejects it then: {verdict.detail}")


def _with_turns(row: Trajectory, old: Trajectory) -> Trajectory:
    """Question and final answer stand in the conversation, unless its turns were fixed: then these are to say them."""
    if len(row.messages) != len(old.messages):
        raise InvalidInput("no turn can be added or left out: the searches are those of the run", field="messages")
    messages = list(row.messages)
    if messages[1] == old.messages[1]:
        messages[1] = replace(messages[1], content=user_turn(row.question))
    for number, (new, was) in enumerate(zip(messages, old.messages, strict=True)):
        if was.role != "assistant" and new not in (was, replace(was, content=user_turn(row.question))):
            problem = f"turn {number} is not the agent's: fix `question`; what a search found stays as it was"
            raise InvalidInput(problem, field="messages")
    final_answer = row.final_answer
    if final_answer == old.final_answer:
        final_answer = answer_in(messages[-1])
    elif messages[-1] == old.messages[-1]:
        messages[-1] = with_answer(messages[-1], final_answer)
    return replace(row, messages=tuple(messages), final_answer=final_answer)


def _with_golds(row: Trajectory, old: Trajectory) -> Trajectory:
    """Aliases of another answer go, unless they were fixed, too. A gold answer is one that the conversation finds."""
    golds = {normalize_answer(gold): gold for gold in (*old.answer_aliases, old.answer)}
    is_new = normalize_answer(row.answer) not in golds
    if is_new and not mcts_reward(row.final_answer, (row.answer,)):
        # As the filter says it: the aliases may still be those of the old answer.
        detail = f"final answer {row.final_answer!r}, gold {row.answer!r}"
        raise InvalidInput(f"filter wrong_answer rejects it then: {detail}", field="answer")
    aliases = row.answer_aliases
    if row.answer != old.answer and aliases == old.answer_aliases:
        aliases = tuple(gold for gold in (old.answer, *aliases) if not is_new or same_answer(gold, row.answer))
    _check_aliases(aliases)
    return replace(row, answer_aliases=tuple(dict.fromkeys(alias for alias in aliases if alias != row.answer)))


def _rewritten(row: Trajectory, old: Trajectory) -> Iterator[str]:
    """What changed turns of the agent do not say any more, or say too early."""
    golds = [gold for gold in (row.answer, *row.answer_aliases) if not mentions(row.question, gold)]
    for number, (new, was) in enumerate(zip(row.messages, old.messages, strict=True)):
        if new.role != "assistant" or new == was:
            continue
        thought, before, is_last = thought_in(new), thought_in(was), number == len(row.messages) - 1
        for step in row.steps:
            told = (step.answer, row.final_answer) if is_last and step is row.steps[-1] else (step.answer,)
            if mentions(before, step.answer) and not any(mentions(thought, each) for each in told):
                yield f"turn {number} does not say {step.answer!r} any more, which a step found"
        early = [gold for gold in golds if mentions(thought, gold)]
        if early and not is_last and not any(mentions(before, gold) for gold in golds):
            yield f"turn {number} says {early[0]!r} before it was found"


def _check_question(question: str, old: str, golds: Sequence[str]) -> None:
    named = [gold for gold in golds if mentions(question, gold) and not mentions(old, gold)]
    if named:
        raise InvalidInput(f"it names its answer {named[0]!r}", field="question")


def _check_aliases(aliases: Iterable[str]) -> None:
    if not all(any(map(str.isalnum, normalize_answer(alias))) for alias in aliases):
        raise InvalidInput("says nothing once articles and punctuation are taken away", field="answer_aliases")


def _with_chosen(row: BundleQuestion, old: BundleQuestion) -> BundleQuestion:
    """The answer of a question with options is what the correct ones say."""
    letters = [chr(ord("A") + number) for number in range(len(row.options))]
    told = dict(zip(letters, row.options, strict=True))
    answer = _JOINED.join(told.get(letter, "") for letter in row.correct_options)
    if row.answer not in (old.answer, answer):
        raise InvalidInput(f"the correct options say {answer!r}; fix options or correct_options", field="answer")
    if (row.options, row.correct_options) == (old.options, old.correct_options):
        return row
    return replace(row, answer=answer)


def _chosen(row: BundleQuestion) -> set[str]:
    """Texts of the correct options."""
    return {text for number, text in enumerate(row.options) if chr(ord("A") + number) in row.correct_options}


def _is_supported(answer: str, row: BundleQuestion) -> bool:
    """Does the evidence say it? A fact word for word; what is said in own words by half of these at least."""
    texts = [hop.evidence for hop in row.hops]
    if any(mentions(text, answer) for text in texts):
        return True
    words = {word for word in normalize_answer(answer).split() if len(word) >= _LONG or word.isdecimal()}
    if row.type == "factual" or not words:
        return False
    return sum(any(mentions(text, word) for text in texts) for word in words) / len(words) >= _LEAST_SUPPORT


def _measured(
    scores: Sequence[FilterScore], verdicts: Sequence[Verdict], dropped: AbstractSet[str]
) -> tuple[FilterScore, ...]:
    """The scores of a row that its fixes leave, those of these verdicts anew."""
    anew = {each.reason: FilterScore(name=each.reason, score=each.score, passed=each.keep) for each in verdicts}
    return tuple(anew.get(score.name, score) for score in scores if score.name not in dropped)
