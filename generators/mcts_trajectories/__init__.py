"""Turn questions into search trees, and these into the trajectories of right and of corrected searches and rows for
supervised fine-tuning, or SFT (MSearcher).
"""

from trailforge.generators.search_options import QUESTION_HINTS, SEARCHED
from trailforge.pipelines import DataSet, Stage, Table
from trailforge.protocols import REACT
from trailforge.schemas import Question, SearchTree, SftRow, Trajectory

NAME = "mcts_trajectories"
_HERE = "trailforge.generators.mcts_trajectories"
EARLIER_REASONS = {
    "answer_leaked": "answer_before_found",
    "malformed_tags": "malformed_conversation",
    "other_answers": "ambiguous_passages",
    "unclear_question": "garbled_question",
    "ungrounded_answer": "ungrounded_step",
    "wrong_answer": "unrewarded_answer",
}
"""The names that reasons of rejection had in runs of before, each with its name of now."""

DATASET = DataSet(
    name=NAME,
    config=f"{_HERE}.config:MctsRunConfig",
    preset="tree-search",
    inputs=Table(
        record=Question,
        decided="product",
        source="id",
        patterns={"question": lambda row: (row.question,), "answer": lambda row: row.golds},
        role="questions",
        protocol=REACT.name,
    ),
    tables={
        NAME: Table(
            record=Trajectory,
            kind=("reflection_error", "kind"),
            decided="product",
            made_of=lambda row: (("inputs", row.question_id),),
            source="question_id",
            fixable=("question", "answer", "answer_aliases", "final_answer", "messages"),
            refit=f"{_HERE}.fix:refit",
        ),
        "trees": Table(record=SearchTree),
        "sft": Table(record=SftRow, role="sft"),
    },
    rows=NAME,
    conversations=NAME,
    stages=(Stage(name="search", unit="questions"),),
    life=f"{_HERE}.work:LIFE",
    counted="filter",
    configure=f"{_HERE}.config:configure",
    packages="trailforge.generators.search_options:packages",
    estimate=f"{_HERE}.estimate:estimate",
    take_in="trailforge.generators.search_options:take_in",
    card=f"{_HERE}.card:card_of",
    show=f"{_HERE}.show:SHOW",
    beside={"plots": r"funnel\.png"},
    about="Turn multi-hop questions into correct and self-reflective search trajectories (MSearcher).",
    own_options=SEARCHED,
    earlier_reasons=EARLIER_REASONS,
    hints=QUESTION_HINTS,
    demo="demo",
    preview={"limit": 2},
    examples=(
        "mcts-trajectories --preset demo --questions sample_data/musique_style_questions.jsonl --out out/demo",
        "mcts-trajectories --documents indexes/wiki --questions train.jsonl.gz --model URL --out out/musique",
        "mcts-trajectories --preset msearcher --questions train.jsonl.gz --model URL --out out/paper   the paper's way",
        "mcts-trajectories --preset msearcher --dry-run --questions train.jsonl.gz             what it would take",
    ),
)
