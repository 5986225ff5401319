"""Questions that ask for a sum -> drafts -> signed sums and SFT rows: a data set that trailforge knows nothing of."""

from toy_sums.rows import Sum
from trailforge.pipelines import DataSet, RunOption, Stage, Table
from trailforge.schemas import Question, SftRow

DATASET = DataSet(
    name="toy_sums",
    config="toy_sums.work:SumConfig",
    preset="toy",
    inputs=Table(
        record=Question,
        decided="product",
        source="id",
        patterns={"question": lambda row: (row.question,)},
        role="questions",
        protocol="react",
    ),
    tables={
        "drafts": Table(record=Sum),
        "sums": Table(
            record=Sum,
            kind=("size",),
            decided="product",
            made_of=lambda row: (("inputs", row.question_id),),
            source="question_id",
            fixable=("remark",),
            refit="toy_sums.work:refit",
            sft="toy_sums.work:rows_for_sft",
        ),
        "sft": Table(record=SftRow, role="sft"),
    },
    rows="sums",
    conversations="sums",
    candidates="drafts",
    stages=(
        Stage(name="add", unit="questions", run="toy_sums.work:run_adding", asks_model=False),
        Stage(
            name="sign",
            unit="sums",
            run="toy_sums.work:run_signing",
            follow="toy_sums.work:signing_shards",
            asks_model=False,
        ),
    ),
    take_in="toy_sums.work:take_in",
    checks="toy_sums.checks:SumChecks",
    card="toy_sums.work:card_of",
    lists={"sums.txt": "toy_sums.work:line_of"},
    about="Turn questions that ask for a sum into signed sums.",
    own_options={"most": RunOption(help="The largest sum.", takes=int)},
    examples=("toy-sums --questions sums.jsonl --most 10 --out out/sums",),
)
