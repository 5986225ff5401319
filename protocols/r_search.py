"""The R-Search episode (eq. 1): one thought, one plan of searches, their results, one answer.

    system      the rules
    user        the question, with USER_SUFFIX
    assistant   <think>…</think><search>plan</search>
    tool        <result>what the plan's searches found</result>
    assistant   <answer>…</answer>

To the model it is one text that stops at `</search>` and continues after `</result>`; as messages, what it did not
write is a turn of its own, on which no loss is taken (section 3.4). Plans are written as `protocols.nl_dag` says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from trailforge.protocols.grammar import Grammar
from trailforge.protocols.nl_dag import (
    TOP_K,
    SearchPlan,
    execute,
    find_problems,
    find_repairs,
    parse,
    read_passages,
    render,
    render_results,
)
from trailforge.protocols.repair import Repair
from trailforge.protocols.turns import Observation, Search, read_plain_answer
from trailforge.rewards.r_search import MAX_NODES, TOOLS
from trailforge.schemas import MalformedReply

if TYPE_CHECKING:
    from trailforge.retrieval import Retriever

USER_SUFFIX = "Put the final answer between <answer> and </answer>."

HOLDINGS = {
    "News": "news articles",
    "Academic": "abstracts of research papers",
    "General": "all of these and everything else",
}
"""What each tool holds, unless the corpus in use says otherwise."""


def system_prompt(top_k: int = TOP_K, holdings: Mapping[str, str] = HOLDINGS) -> str:
    """Return the rules, and how plans are run: the number of passages of each search, and what each tool contains."""
    held = "; ".join(f"{tool} holds {what}" for tool, what in holdings.items())
    return (
        "You answer questions with one round of searches that you plan yourself. "
        "First reason between <think> and </think> about what you know and what is missing. "
        "Then write a search plan between <search> and </search>: a line `Nodes:`, below it a line `A: query (Tool)` "
        f"for each search, at most {MAX_NODES}; then a line `Edges:`, below it which search comes before which, as "
        "`A -> B; C -> B`, or nothing when their order does not matter. "
        "An edge carries nothing over: `A -> B` says that only what A brings tells what of B's results is meant, "
        "so A is run and shown first. Searches for things that the question names, as both sides of a comparison, "
        "have none. Search once for each thing that is missing; a search that brings the same again is idle. "
        "All queries are written before any search is run, and each is run word for word as it stands: nothing that "
        "one search finds is filled into another. So a query never points to another search, and calls what is not "
        "known yet by what the question says of it. "
        f"Each search brings the {top_k} best passages of its tool. "
        f"The tools are {', '.join(TOOLS)}. {held}. "
        "After </search> you stop: what the searches find comes back to you between <result> and </result>. "
        "Then write the answer between <answer> and </answer>, and nothing before or after it, no second <think>; "
        "to a question with options, answer with the letters of all correct ones, as `A, C`."
    )


SYSTEM_PROMPT = system_prompt()


def read_search(body: str) -> tuple[Search, Sequence[Repair]]:
    """Read the plan of a search. Returns it as the agent wrote it, with the repairs that are made when it is run. A
    plan that cannot be read is returned, too: running it answers with the reason.
    """
    return Search(query=body), find_repairs(body)


def write_search(search: Search) -> str:
    """Return the plan on lines of its own."""
    return f"\n{search.query}\n"


def write_result(observation: Observation) -> str:
    """Return the results of each node of the plan as text."""
    return render_results(observation.nodes)


def plan_problems(text: str, tools: Collection[str] = TOOLS) -> list[str]:
    """Return everything that is wrong with a plan, one line each; empty when it is valid, repaired or not."""
    return [problem.message for problem in find_problems(text, tools=tools)]


R_SEARCH = Grammar(
    name="r_search",
    system_prompt=SYSTEM_PROMPT,
    user_suffix=" " + USER_SUFFIX,
    searches="plan",
    reward="r-search",
    training="r-search",
    search_tag="search",
    result_tag="result",
    read_search=read_search,
    write_search=write_search,
    read_answer=read_plain_answer,
    write_answer=str,
    write_result=write_result,
    read_passages=read_passages,
    format_rule="sections",
    joint="",
    answer_has_thought=False,
    num_searches=1,
    suffix_own_line=True,
    plan_problems=plan_problems,
)


def search_of(plan: SearchPlan) -> Search:
    """Return the search by which an agent asks for this plan."""
    return Search(query=render(plan))


def read_plan(turn: str) -> tuple[str, SearchPlan] | None:
    """Read thought and plan from a turn that searches; None unless the turn has no error, plan included. The plan need
    not be valid.

    Rows teach the form that the prompt asks for, so a turn that needs repair makes none.
    """
    try:
        read = R_SEARCH.parse_turn(turn, strict=True)
        return (read.thought, parse(read.search.query)) if read.search else None
    except MalformedReply:
        return None


async def run_plan(plan: SearchPlan | str, tools: Mapping[str, Retriever], top_k: int = TOP_K) -> Observation:
    """Run a plan and return what its searches found, or why it was not run."""
    try:
        nodes = await execute(parse(plan) if isinstance(plan, str) else plan, tools, top_k)
    except MalformedReply as error:
        return Observation(message=f"The plan was not run: {error}")
    return Observation(nodes=tuple(nodes), passages=tuple(passage for node in nodes for passage in node.passages))
