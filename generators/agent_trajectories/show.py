"""Show agents' episodes, and pairs of a better and a worse one, to people."""

from __future__ import annotations

from trailforge.evaluation.results import describe_timeline
from trailforge.generators.agent_trajectories import EARLIER_REASONS
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.show import (
    Chips,
    Code,
    Conversation,
    DataTable,
    Fold,
    Note,
    Parts,
    Scores,
    Show,
    ShownTable,
    StyledText,
    Tab,
    Tabs,
    Title,
    tab,
)
from trailforge.pipelines.show.common import (
    QUESTIONS,
    SFT,
    contrast,
    count_searches,
    find_side,
    head,
    provenance,
    with_earlier,
)
from trailforge.schemas import AgentTrajectory, BrowseRecord, ContrastivePair

_MEANINGS = with_earlier(
    {
        "unfinished": "1: it gives an answer",
        "malformed_conversation": "rules of the protocol's grammar that it breaks",
        "malformed_turns": "turns of a long episode that the protocol did not understand",
        "doubtful_gold": "1: the gold answer is not of the kind that is asked for",
        "ambiguous_answer": "right answers that it lists, where it is a list of such",
        "near_miss": "1: wrong, and part of a gold answer's name",
        "wrong_answer": "1: right by the one matcher",
        "no_search": "executed searches",
        "admitted_guess": "1: its last turn says that it guesses",
        "unread_query": "its queries that name what it had not read",
        "missing_evidence": "share of the hops that its searches bear out",
        "ungrounded_answer": "turns it was given that state the answer which its searches brought",
        "other_answers": "facts behind its answer for which another answer was found, too",
        "unstated_answer": "facts behind its answer that were not found when it was read once more",
        "open_branch": "names that fit a link, too, and of which no thought says why not",
        "answer_before_read": "turns that say the answer before anything it was given does, or a hop's out of turn",
        "speaks_of_data_set": "turns that speak of the index or of how the question was made",
        "repeated_search": "searches that ask what was asked before",
        "unshown_page": "calls on pages whose ids it had not been shown",
        "unread_pages": "share of the cited pages that it opened, or found words in",
        "uncited_answer": "results of cited parts that state the answer",
        "too_few_calls": "calls",
        "too_many_calls": "calls",
        "repeated_calls": "calls made again while their results were still shown",
        "dead_end": "most turns in a row that led nowhere",
        "unused_pages": "share of the opened pages that no later turn names",
        "right_by_chance": "share of the draws on the question that are right, corrected for chance",
        "too_long": "tokens of the conversation, estimated",
        "known_from_memory": "share of right answers without any search, half right ones by half, corrected for chance",
    },
    EARLIER_REASONS,
)
"""Explanation of each filter's score, by the filter's name."""


def agent_trajectory(run: OpenRun, row: AgentTrajectory) -> Parts:
    """Return what the inspector shows of a row of `agent_trajectories`."""
    pairs = run.table("pairs").matching("good_uid", row.uid) if "pairs" in run.tables else ()
    tabs = [] if row.episode.browse is None else [_calls_of_pages(row.episode.browse)]
    tabs += [
        tab("Conversation", lambda: [Conversation(row.episode.messages, golds=row.episode.golds)]),
        tab("Searches", lambda: _searches(row)),
        tab("Why it is kept", lambda: _reasons(row)),
    ]
    if row.episode.calls:
        tabs.append(tab("Calls beside it", lambda: _calls(row)))
    if pairs:
        against = tab("Against a worse one", lambda: [p for n in pairs for p in _contrast(run, run.record("pairs", n))])
        tabs.append(against)
    return [*_head(row), Tabs(tabs)]


def pair(run: OpenRun, row: ContrastivePair) -> Parts:
    """Return what the inspector shows of a row of `pairs`: both episodes from the message in which they first
    differ.
    """
    return [Title(row.question), Note(row.answer, "right"), *_contrast(run, row)]


def _head(row: AgentTrajectory) -> Parts:
    episode = row.episode
    chips = [
        StyledText(row.agent),
        StyledText(f"over {row.provenance.retriever}"),
        count_searches(len(episode.searches), row.num_hops),
        *([] if episode.browse is None else [StyledText(f"{episode.browse.figures.calls} calls")]),
        StyledText(f"{row.right_draws} of {row.draws} draws right"),
        StyledText(f"~{row.token_estimate:,} tokens", "", "by the rule of this project; a trainer counts otherwise"),
    ]
    return head(episode.question, row.golds[0], row.golds[1:], episode.answer, episode.scores.right >= 1.0, chips)


def _calls_of_pages(record: BrowseRecord) -> Tab:
    return tab(f"Calls ({record.figures.calls})", lambda: describe_timeline(record))


def _searches(row: AgentTrajectory) -> Parts:
    if not row.episode.searches:
        return [Note("This episode never searched.")]
    found_at = row.episode.scores.found_at
    rows = [
        {
            "search": number + 1,
            "query": search.query,
            "titles": "; ".join(search.titles),
            "triples": len(search.triples),
            "hops found first": ", ".join(str(hop + 1) for hop, at in enumerate(found_at) if at == number),
        }
        for number, search in enumerate(row.episode.searches)
    ]
    return [DataTable(rows, {"hops found first": "Whose supporting documents it was the first to bring."})]


def _reasons(row: AgentTrajectory) -> Parts:
    said = "; ".join(row.memory_answers) or "nobody was asked"
    origin = provenance(row.provenance, uid=row.uid, question_id=row.question_id, agent_config=row.agent_config)
    return [
        Scores(row.filters, _MEANINGS),
        Note(f"Without any search the model says: {said}"),
        origin,
    ]


def _calls(row: AgentTrajectory) -> Parts:
    return [Fold(call.purpose, [Code(call.prompt), Code(call.reply)]) for call in row.episode.calls]


def _contrast(run: OpenRun, row: ContrastivePair) -> Parts:
    sides = (("better", "right", row.good_uid), ("worse", "wrong", row.bad_uid))
    good, bad = (
        [Chips([StyledText(name, kind), StyledText(uid)]), *_measures_of(run, uid)] for name, kind, uid in sides
    )
    return contrast(row, "worse", (good, bad))


def _measures_of(run: OpenRun, uid: str) -> Parts:
    """What the filters measured of a side of a pair; nothing where the run no longer has its episode."""
    row = find_side(run, "agent_trajectories", uid, AgentTrajectory)
    return [] if row is None else [Fold("What the filters measured", [Scores(row.filters, _MEANINGS)])]


SHOW = Show(
    path="agents", title="Agents", icon=":material/travel_explore:",
    tables=(
        ShownTable(
            name="agent_trajectories", title="Episodes", describe=agent_trajectory,
            columns=("episode.question", "episode.answer", "agent", "right_draws", "draws", "num_hops"),
            keys=("uid", "question_id"),
        ),
        ShownTable(
            name="pairs", title="Pairs", describe=pair, columns=("question", "answer", "bad_answer", "reason"),
            kinds=("reason",), keys=("uid", "good_uid", "bad_uid", "question_id"),
        ),
        SFT,
        QUESTIONS,
    ),
    numbers={"token_estimate": "length, tokens (estimated)", "right_draws": "right draws", "num_hops": "hops"},
    hints=("--count 5",),
)  # fmt: skip
