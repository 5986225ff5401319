"""The prompts and the layout of results with which released checkpoints were trained, word for word; no other file
repeats them.

Search-R1 (Jin et al., 2025): github.com/PeterGriffinJin/Search-R1 at a14dc3a, `scripts/data_process/nq_search.py` (user
turn) and `search_r1/llm_agent/generation.py` (results, what an unreadable turn is told). Apache License 2.0.

Graph-R1 (Luo et al., 2025): github.com/LHRLAB/Graph-R1 at ab09130, `script_process.py` (user turn),
`agent/vllm_infer/run.py` (system turn with its tool), `verl/trainer/config/ppo_trainer.yaml` and `graphr1/operate.py`
(results). MIT License, Copyright (c) 2025 Haoran Luo. RAGSearch prints the user turn with "query" for "tool call".

DynaSearcher (Hao et al., 2025), table 1 (system turn), and MSearcher (under review for ICLR 2026), appendix A, "RL
Prompt" (both turns): quoted from the papers, which come without a program. They do not print how a result is put into
the text; here it is as their rollouts show it, DynaSearcher's behind the agent's words, MSearcher's in a turn of the
user, as Qwen2.5 is shown what tools say.

R-Search's prompt is not here: its released program (github.com/wentao0429/Reasoning-search at 9cf6475) has no licence.

Search-R1 and Graph-R1 were trained on one text: the user turn in Qwen2.5's marks, then turns and results in a row. Ours
are the escapes of what could pose as a tag in retrieved text. Search-R1 was shown titles in quotes, as its corpus has
them; an overlong result lost its closing tag in training, and keeps it here. Graph-R1 was shown hyperedges, a sentence
or so each, with the score of a fusion of ranks; here they are whatever passages a back end gives, with its own scores.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from trailforge.protocols import GRAPH_R1, KG_SEARCH, REACT, SEARCH_R1, Grammar, Observation, Turn, one_line
from trailforge.schemas import InvalidInput, MalformedReply, estimate_tokens

TEMPLATE = "<|im_start|>system\n{{system}}<|im_end|>\n<|im_start|>user\n{{user}}<|im_end|>\n<|im_start|>assistant\n"
"""The template of a conversation in Qwen2.5's marks."""

QWEN_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
"""The system turn that the template of Qwen2.5-Instruct adds by itself. The base model's is "You are a helpful
assistant.".
"""

SEARCH_R1_USER = (
    "Answer the given question. "
    "You must conduct reasoning inside <think> and </think> first every time you get new information. "
    "After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> "
    "and it will return the top searched results between <information> and </information>. "
    "You can search as many times as your want. "
    "If you find no further external knowledge needed, you can directly provide the answer inside <answer> and "
    "</answer>, without detailed illustrations. For example, <answer> Beijing </answer>. Question: {question}\n"
)
SEARCH_R1_INVALID = (
    "My previous action is invalid. "
    "If I want to search, I should put the query between <search> and </search>. "
    "If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again."
)
GRAPH_R1_TOOLS = (
    "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
    '{"name": "search", '
    '"description": "Search for information on the internet using Wikipedia as a knowledge source.", '
    '"parameters": {"type": "object", "properties": {"query": {"type": "string", "description": "Search query"}}, '
    '"required": ["query"]}}\n</tools>\n\n'
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML "
    'tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
GRAPH_R1_USER = (
    "Answer the given question. You can query from knowledge base provided to you to answer the question. "
    "You can query knowledge as many times as you want.\n"
    "You must first conduct reasoning inside <think>...</think>. If you need to query knowledge, you can set a query "
    "statement between <query>...</query> to query from knowledge base after <think>...</think>.\n"
    "When you have the final answer, you can output the answer inside <answer>...</answer>.\n\n"
    "Output format for tool call:\n<think>\n...\n</think>\n<query>\n...\n</query>\n\n"
    "Output format for answer:\n<think>\n...\n</think>\n<answer>\n...\n</answer>\nQuestion: {question}"
)
DYNASEARCHER_SYSTEM = (
    "You are a helpful assistant that can solve the given question step by step with the help of the wikipedia search "
    "tool. Given a question, you need to first think about the reasoning process in the mind and then provide the "
    "answer. During thinking, you can invoke the wikipedia search tool to search for fact information about specific "
    "topics if needed. The reasoning process and answer are enclosed within <think> </think> and <answer> </answer> "
    "tags respectively, and the search input and result are enclosed within <search> </search> and <result> </result> "
    'tags respectively. Search input is json format like {"query": "xxx", "entity": ["yyy"], "relation": ["zzz"]} and '
    "applied to the search tools, where query is used to search wikipedia articles, entity(s) and relation(s) are used "
    "to search wikidata, a knowledge base of entities and relations.\n"
    "For example, <think> This is the reasoning process. </think> "
    '<search> {"query": "Who is the director of Avatar", "entity": ["Avatar"], "relation": ["director"]} </search> '
    "<result> search result here </result> <think> This is the reasoning process. </think> "
    "<answer> The final answer is \\boxed{ answer here }</answer>. "
    "In the last part of the answer, the final exact answer is enclosed within \\boxed{} with latex format."
)
MSEARCHER_SYSTEM = (
    "You are a helpful assistant. Answer the following question step by step with the help of web search tools. "
    "You must conduct reasoning inside <think> and </think> first in every turn. "
    "After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> "
    "and it will return the top searched results between <tool_response> and </tool_response>. "
    "You can call the search function once in every turn. "
    "When you arrive at the final answer, output the final answer between <answer> and </answer> to finish the task. "
    "Do not rush to output the final answer so you could check it again midway."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedGrammar(Grammar):
    """A protocol as its released agents know it: with the published prompt, and turns read as the authors' loop reads
    them.
    """

    user: str
    """The user turn, with `{question}` in it."""
    ends_in_question_mark: bool = False
    """Whether a question mark is added to a question without one."""
    segment: str
    """What stands between two turns of the agent in the one text, with `{result}` in it."""
    result_form: str
    """The form of a result, with `{result}` in it."""
    result_tokens: int
    """Most tokens of a result; what is beyond is cut off."""
    invalid: str = ""
    """What an agent is told after an unreadable turn; empty: the episode ends there."""

    def user_turn(self, question: str) -> str:
        """Write the user turn, as `Grammar.user_turn` does."""
        question = question.strip()
        if self.ends_in_question_mark and not question.endswith("?"):
            question += "?"
        return self.user.replace("{question}", question)

    def parse_turn(self, text: str, *, strict: bool = False) -> Turn:
        """Read the first search or answer in a turn whose tag is closed, ignoring the text around it. Raises
        `MalformedReply` when there is none.
        """
        text += self.missing_end(text)
        starts = {name: text.find(f"<{name}>") for name in (self.search_tag, "answer")}
        closed = [
            (start, name, text.find(f"</{name}>", start))
            for name, start in starts.items()
            if start >= 0 and text.find(f"</{name}>", start) >= 0
        ]
        if not closed:
            raise MalformedReply(f"found neither a {self.search_tag} nor an answer")
        start, name, end = min(closed)
        thought, body = text[:start].strip(), text[start + len(name) + 2 : end].strip()
        if not body:
            raise MalformedReply(f"empty {name}")
        if name == "answer":
            return Turn(thought=thought, answer=self.read_answer(body)[0])
        return Turn(thought=thought, search=self.read_search(body)[0])

    def render_result(self, observation: Observation) -> str:
        """Write search results for the model as `Grammar.render_result` does, in the published layout."""
        if observation.message:
            return observation.message
        result = shorten(self.write_result(observation), self.result_tokens)
        return self.result_form.replace("{result}", result)

    def result_segment(self, result: str) -> str:
        """Write the text between two turns of the model, as `Grammar.result_segment` does."""
        if self.invalid and result == self.invalid:
            return f"\n{result}\n"
        return self.segment.replace("{result}", result)

    def refusal(self, problem: str) -> Observation:
        """Return the message that answers a malformed turn: the published words, which are the same whatever the
        problem.
        """
        return Observation(message=self.invalid)


def shorten(text: str, limit: int) -> str:
    """Return the longest beginning of a text that has at most `limit` estimated tokens."""
    if estimate_tokens(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate_tokens(text[:middle]) <= limit else (low, middle - 1)
    return text[:low]


def write_quoted_titles(observation: Observation) -> str:
    """Write one line, `Doc 1(Title: "…") text`, for each passage."""
    passages = enumerate(observation.passages, start=1)
    return "\n".join(f'Doc {n}(Title: "{one_line(p.title)}") {one_line(p.text)}' for n, p in passages)


def write_knowledge(observation: Observation) -> str:
    """Write the passages as a JSON object, each with the back end's score as its "coherence"."""
    results = [
        {"<knowledge>": one_line(f"{p.title}: {p.text}" if p.title else p.text), "<coherence>": round(p.score, 3)}
        for p in observation.passages
    ]
    return json.dumps({"results": results})


def write_numbered(observation: Observation) -> str:
    """Write one line, `1. Title: text`, for each passage."""
    passages = enumerate(observation.passages, start=1)
    return "\n".join(f"{n}. {one_line(f'{p.title}: {p.text}' if p.title else p.text)}" for n, p in passages)


def _as(grammar: Grammar, **changes: Any) -> dict[str, Any]:
    """The fields of a protocol, some of them changed."""
    return {field.name: getattr(grammar, field.name) for field in fields(Grammar)} | changes


_WHOLE = 1 << 20
"""Tokens of a result for which no limit is printed."""
_AS_TOOL = "<|im_end|>\n<|im_start|>user\n{result}<|im_end|>\n<|im_start|>assistant\n"
_AS_TEXT = "<|im_end|><|im_start|>user\n{result}<|im_end|>\n<|im_start|>assistant\n<think>\n"
_PUBLISHED = {
    SEARCH_R1.name: PublishedGrammar(
        **_as(SEARCH_R1, system_prompt=QWEN_SYSTEM, user_suffix="", write_result=write_quoted_titles),
        user=SEARCH_R1_USER,
        ends_in_question_mark=True,
        segment="\n\n{result}\n\n",
        result_form="<information>{result}</information>",
        result_tokens=500,
        invalid=SEARCH_R1_INVALID,
    ),
    GRAPH_R1.name: PublishedGrammar(
        **_as(GRAPH_R1, system_prompt=QWEN_SYSTEM + GRAPH_R1_TOOLS, user_suffix="", write_result=write_knowledge),
        user=GRAPH_R1_USER,
        segment=_AS_TEXT,
        result_form="<knowledge>\n{result}\n</knowledge>",
        result_tokens=4096,
    ),
    KG_SEARCH.name: PublishedGrammar(
        **_as(KG_SEARCH, system_prompt=DYNASEARCHER_SYSTEM, user_suffix=""),
        user="{question}",
        segment=" {result} ",
        result_form="<result>\n{result}\n</result>",
        result_tokens=_WHOLE,
    ),
    REACT.name: PublishedGrammar(
        **_as(REACT, system_prompt=MSEARCHER_SYSTEM, user_suffix="", write_result=write_numbered),
        user="Question: {question}",
        segment=_AS_TOOL,
        result_form="<tool_response>\n{result}\n</tool_response>",
        result_tokens=_WHOLE,
    ),
}


def published_grammar(protocol: str) -> PublishedGrammar:
    """Return a protocol with its published prompt. Raises `InvalidInput`, with the list of protocols that have one, for
    any other.
    """
    if protocol not in _PUBLISHED:
        raise InvalidInput(
            f"no published prompt of {protocol} is kept here; there are those of {', '.join(_PUBLISHED)}; say ours",
            field="prompt",
        )
    return _PUBLISHED[protocol]
