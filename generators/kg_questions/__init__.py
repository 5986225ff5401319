"""Sample paths of facts in a knowledge graph that lead to one entity, turn them into questions, measure these, and keep
those that differ.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names
from trailforge.generators.search_options import GRAPH
from trailforge.pipelines import DataSet, RunOption, Stage, Table
from trailforge.protocols import KG_SEARCH
from trailforge.schemas import FactChain, KgQuestion

if TYPE_CHECKING:
    from trailforge.generators.kg_questions.worlds import make_world as make_world
    from trailforge.generators.kg_questions.worlds.config import WorldConfig as WorldConfig
    from trailforge.generators.kg_questions.worlds.pages import PageWorldConfig as PageWorldConfig
    from trailforge.generators.kg_questions.worlds.pages import make_page_world as make_page_world
    from trailforge.generators.kg_questions.worlds.searches import describe as describe
else:
    __getattr__, __dir__ = lazy_names(__name__)


NAME = "kg_questions"
WRITE, FILTER = "write", "filter"
"""The names of the lines in the run's books that count written and filtered questions."""
_HERE = "trailforge.generators.kg_questions"
EARLIER_REASONS = {
    "answer_in_question": "answer_named",
    "closed_book": "right_from_memory",
    "duplicate_question": "same_facts",
    "malformed": "malformed_question",
    "other_answers": "ambiguous_question",
}
"""The names that reasons of rejection had in runs of before, each with its name of now."""

DATASET = DataSet(
    name=NAME,
    config=f"{_HERE}.config:KgQuestionRunConfig",
    inputs=Table(
        record=FactChain,
        decided="source",
        source="id",
        patterns={
            "relation": lambda row: [fact.triple.relation_label for fact in row.facts],
            "entity": lambda row: [node.label for node in (*row.starts, *row.found)],
            "answer": lambda row: (row.answer.label, *row.answer.aliases),
        },
    ),
    tables={
        NAME: Table(
            record=KgQuestion,
            kind=("shape",),
            decided="product",
            made_of=lambda row: (("inputs", row.chain.id),),
            source="chain.id",
            is_input=True,
            fixable=("question", "answer_aliases", "decomposition"),
            refit=f"{_HERE}.fix:refit",
            role="questions",
            protocol=KG_SEARCH.name,
        ),
        "candidates": Table(record=KgQuestion),
    },
    rows=NAME,
    candidates="candidates",
    stages=(
        Stage(name=WRITE, unit="questions", run=f"{_HERE}.work:write_stage"),
        Stage(
            name="select",
            unit="questions",
            run=f"{_HERE}.work:run_selection",
            follow=f"{_HERE}.work:selection_shards",
            asks_model=False,
        ),
    ),
    configure=f"{_HERE}.config:configure",
    preview={"count": 8},
    estimate=f"{_HERE}.estimate:estimate",
    take_in=f"{_HERE}.work:take_in",
    checks=f"{_HERE}.checks:KgQuestionRowChecks",
    card=f"{_HERE}.card:card_of",
    show=f"{_HERE}.show:SHOW",
    option="--kg",
    files=None,
    takes_folder=True,
    makes_questions=True,
    beside={"plots": r"funnel\.png"},
    lists={"questions.jsonl": f"{_HERE}.selection:line_of"},
    about="Make multi-hop questions from a knowledge graph's facts, each with one answer in the graph.",
    earlier_reasons=EARLIER_REASONS,
    hints={
        "right_from_memory": "the model knows the answers by heart: sample more paths (--count), or from a less known "
        "graph",
        "malformed_question": "the model does not keep to the form that it is asked in: take another model",
        **dict.fromkeys(
            ("malformed_reply", "start_missing", "ungrounded_name", "bridge_named", "answer_named"),
            "the model does not word the facts as it is asked to: take another model, or `writer: {kind: templates}`",
        ),
        **dict.fromkeys(
            ("not_unique", "shortcut"), "the graph has several entities for what is asked: give it more facts of each"
        ),
        **dict.fromkeys(
            ("ambiguous_question", "doubtful_fact", "unclear_question"),
            "the model doubts facts or wording: see whether the graph is right, or set `filters: {check: false}`",
        ),
        **dict.fromkeys(
            ("ambiguous_description", "unknown_description"),
            "the graph lacks much of what its descriptions are true of: name what questions start from "
            "(`paths: {blurred: 0}`), or take a larger graph",
        ),
        "agreed_otherwise": "the model reads other facts out of the questions: take another model",
    },
    demo="demo",
    own_options={
        "kg": GRAPH,
        "count": RunOption(
            help="Paths to sample; fewer questions pass the filters. Default: the preset's.", takes=int, least=1
        ),
        "as_of": RunOption(help="Date of the graph, e.g. 2019-07; recorded in every row."),
    },
    examples=(
        "kg build sample_data/kg --out kgs/sample",
        "kg-questions --preset demo --kg kgs/sample --out out/questions",
        "kg-questions --kg kgs/wikidata5m --as-of 2019-07 --count 50000 --out out/questions",
    ),
)
