"""The ReAct form of MSearcher (appendix A, "Model Training: SFT Data Example"): think, then search or answer.

    system      the rules
    user        the question, with USER_SUFFIX
    assistant   <think>…</think><search>query</search>      } any number of times
    tool        <tool_response>passages</tool_response>     }
    assistant   <think>…</think><answer>…</answer>

The paper's printed example leaves some tags open; its rules, which we hold to, close every one.
"""

from __future__ import annotations

from trailforge.protocols.base import passages_of_result
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.turns import read_plain_answer, read_plain_search, write_passages, write_plain_search

SYSTEM_PROMPT = (
    "You answer questions step by step with the help of a search engine. "
    "Begin every turn by reasoning between <think> and </think>. "
    "When knowledge is missing after that, search with <search> query </search>, once in a turn; "
    "the best results come back between <tool_response> and </tool_response>. "
    "Do not hurry to an answer: check what you have found, and search again where it does not hold. "
    "When you are sure, end the task with the final answer between <answer> and </answer>."
)
USER_SUFFIX = " Put the final answer between <answer> and </answer>."

REACT = Grammar(
    name="react",
    system_prompt=SYSTEM_PROMPT,
    user_suffix=USER_SUFFIX,
    searches="documents",
    reward="msearcher",
    training="msearcher",
    search_tag="search",
    result_tag="tool_response",
    read_search=read_plain_search,
    write_search=write_plain_search,
    read_answer=read_plain_answer,
    write_answer=str,
    write_result=write_passages,
    read_passages=passages_of_result,
    joint="",
)
