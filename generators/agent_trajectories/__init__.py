"""Turn questions into verified episodes of any agent over any back end, with rows for supervised fine-tuning (SFT) in
the agent's protocol, and pairs of a better and a worse episode for preference training (DPO).
"""

from pathlib import Path

from trailforge.generators.search_options import KG_FILTER, QUESTION_HINTS, SEARCHED
from trailforge.pipelines import DataSet, RunOption, Stage, Table
from trailforge.protocols import REACT, SEARCH_R1
from trailforge.schemas import AgentTrajectory, ContrastivePair, Question, SftRow

NAME = "agent_trajectories"
DRAW, EPISODE, FILTER = "draw", "episode", "filter"
"""The names of the lines in the run's books that count draws, episodes and filtered episodes."""
_HERE = "trailforge.generators.agent_trajectories"
EARLIER_REASONS = {
    "answer_leaked": "answer_before_read",
    "malformed": "malformed_conversation",
}
"""The names that reasons of rejection had in runs of before, each with its name of now."""

DATASET = DataSet(
    name=NAME,
    config=f"{_HERE}.config:AgentRunConfig",
    inputs=Table(
        record=Question,
        decided="product",
        source="id",
        patterns={"question": lambda row: (row.question,), "answer": lambda row: row.golds},
        role="questions",
        protocol=SEARCH_R1.name,
    ),
    tables={
        NAME: Table(
            record=AgentTrajectory,
            kind=("agent",),
            decided="product",
            made_of=lambda row: (("inputs", row.question_id),),
            source="question_id",
        ),
        "pairs": Table(
            record=ContrastivePair,
            kind=("agent",),
            decided="product",
            made_of=lambda row: ((NAME, row.good_uid),),
            source="question_id",
            role="pairs",
        ),
        "sft": Table(record=SftRow, role="sft"),
    },
    rows=NAME,
    conversations=NAME,
    stages=(Stage(name=DRAW, unit="questions"),),
    life=f"{_HERE}.work:LIFE",
    counted=FILTER,
    configure=f"{_HERE}.config:configure",
    packages="trailforge.generators.search_options:packages",
    estimate=f"{_HERE}.estimate:estimate",
    take_in="trailforge.generators.search_options:take_in",
    card=f"{_HERE}.card:card_of",
    show=f"{_HERE}.show:SHOW",
    beside={"plots": r"funnel\.png"},
    about="Turn questions into verified episodes of any agent over any back end, with SFT rows and pairs.",
    own_options={
        "agent": RunOption(help="A protocol, or single_shot, search_o1, graph_search, browse. Default: the preset's."),
        **SEARCHED,
        "kg": RunOption(help="Knowledge graph (from `kg build`), for agents that search one.", takes=Path),
        "kg_filter": KG_FILTER,
    },
    earlier_reasons=EARLIER_REASONS,
    hints=QUESTION_HINTS,
    demo="demo",
    examples=(
        "agent-trajectories --questions musique_train.jsonl.gz --scope question --out out/agents",
        f"agent-trajectories --questions train.jsonl.gz --documents indexes/wiki --agent {REACT.name} --out out/agents",
        "agent-trajectories --preset browse --questions worlds/long/questions.jsonl --documents indexes/long …",
        "agent-trajectories --preset demo --questions sample_data/musique_style_questions.jsonl …",
    ),
)
