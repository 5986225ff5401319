"""Turn questions and a knowledge graph into annotated search episodes, pairs of them for preference training, and rows
for supervised fine-tuning, or SFT (DynaSearcher).
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names
from trailforge.generators.search_options import GRAPH, KG_FILTER, QUESTION_HINTS, SEARCHED
from trailforge.pipelines import DataSet, Stage, Table
from trailforge.protocols import KG_SEARCH
from trailforge.schemas import ContrastivePair, KgTrajectory, Question, SftRow

if TYPE_CHECKING:
    from trailforge.generators.kg_trajectories.reading import Reading as Reading
    from trailforge.generators.kg_trajectories.reading import SearchTool as SearchTool
    from trailforge.generators.kg_trajectories.reading import clean_answer as clean_answer
else:
    __getattr__, __dir__ = lazy_names(__name__)


NAME = "kg_trajectories"
SEARCH, EPISODE, FILTER = "search", "episode", "filter"
"""The names of the lines in the run's books that count searches, episodes and filtered episodes."""
_HERE = "trailforge.generators.kg_trajectories"
EARLIER_REASONS = {
    "answer_leaked": "answer_before_read",
    "malformed": "malformed_conversation",
    "redundant_search": "idle_search",
    "wrong_intermediate": "wrong_hop_answer",
}
"""The names that reasons of rejection had in runs of before, each with its name of now."""

DATASET = DataSet(
    name=NAME,
    config=f"{_HERE}.config:KgRunConfig",
    preset="dynasearcher",
    inputs=Table(
        record=Question,
        decided="product",
        source="id",
        patterns={"question": lambda row: (row.question,), "answer": lambda row: row.golds},
        role="questions",
        protocol=KG_SEARCH.name,
    ),
    tables={
        NAME: Table(
            record=KgTrajectory,
            kind=("origin",),
            decided="product",
            made_of=lambda row: (("inputs", row.question_id),),
            source="question_id",
            transcript=f"{_HERE}.rows:transcript_of",
        ),
        "pairs": Table(
            record=ContrastivePair,
            decided="product",
            made_of=lambda row: ((NAME, row.good_uid),),
            source="question_id",
            role="pairs",
            protocol=KG_SEARCH.name,
        ),
        "sft": Table(record=SftRow, role="sft"),
    },
    rows=NAME,
    conversations=NAME,
    stages=(Stage(name=SEARCH, unit="questions"),),
    life=f"{_HERE}.work:LIFE",
    counted=FILTER,
    configure=f"{_HERE}.config:configure",
    packages="trailforge.generators.search_options:packages",
    estimate=f"{_HERE}.estimate:estimate",
    take_in="trailforge.generators.search_options:take_in",
    card=f"{_HERE}.card:card_of",
    show=f"{_HERE}.show:SHOW",
    beside={"plots": r"(funnel|rewards)\.png"},
    about="Turn questions into annotated search episodes over documents and a knowledge graph (DynaSearcher).",
    earlier_reasons=EARLIER_REASONS,
    hints=QUESTION_HINTS,
    demo="demo",
    own_options={"kg": GRAPH, "kg_filter": KG_FILTER, **SEARCHED},
    examples=(
        "kg build sample_data/kg --out kgs/sample",
        "kg-trajectories --preset demo --kg kgs/sample --questions my_questions.jsonl --out out/kg",
        "kg-trajectories --kg kgs/wikidata5m --scope question --questions musique.jsonl.gz --out out/kg",
        "kg-trajectories --kg kgs/wikidata5m --documents indexes/wiki --questions train.jsonl.gz --out out/kg",
    ),
)
