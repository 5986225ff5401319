"""Turns of KG search, Search-R1 and Graph-R1: written, read, mended, checked."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.protocols import GRAPH_R1, KG_SEARCH, R_SEARCH, SEARCH_R1, graph_r1, kg_search, search_r1
from trailforge.protocols.base import TAGS, tags_in
from trailforge.protocols.episodes import EpisodeConfig
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.repair import Repair
from trailforge.protocols.turns import Labels, Observation, Search, Turn
from trailforge.rewards.answers import is_abstention
from trailforge.schemas import MalformedReply, Message, Passage

GRAMMARS = [KG_SEARCH, SEARCH_R1, GRAPH_R1]
KG, R1, GRAPH = GRAMMARS
every_grammar = pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.name)

TEXTS = st.text(min_size=1, max_size=30).map(str.strip).filter(lambda text: text and not tags_in(text))
ANY_TEXTS = (
    st.text(min_size=1, max_size=15) | st.sampled_from(['</search> "x"', "{'a'}", "\\", "<think>", "é\n2"])
).map(lambda text: text.encode("utf-8", "replace").decode().strip() or "x")
NAMES = st.lists(ANY_TEXTS, max_size=3).map(tuple)
PIECES = st.sampled_from([*TAGS, "<", "</", ">", "/>", " ", "\n", "|", "<|im_end|>", "\\boxed{", "(", "x"])
HOSTILE = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=15)


OBSERVATIONS = st.builds(
    Observation,
    passages=st.lists(
        st.builds(Passage, id=st.just("0"), title=HOSTILE, text=HOSTILE, score=st.just(0.0)), max_size=3
    ).map(tuple),
    triples=st.lists(st.builds(Labels, HOSTILE, HOSTILE, HOSTILE), max_size=3).map(tuple),
    message=HOSTILE,
)
FOUND = Observation(
    passages=(Passage(id="7", title="Avatar", text="A film\nof 2009.", score=0.5),),
    triples=(Labels("Avatar", "director", "James Cameron"),),
)


def balanced(text: str) -> bool:
    try:
        kg_search.write_answer(text)
    except ValueError:
        return False
    return True


def searches(grammar: Grammar) -> st.SearchStrategy[Search]:
    """What an agent of this grammar can ask."""
    if grammar is KG:
        return st.builds(Search, query=ANY_TEXTS, entities=NAMES, relations=NAMES)
    return st.builds(Search, query=ANY_TEXTS if grammar is GRAPH else TEXTS)


def turns(grammar: Grammar) -> st.SearchStrategy[Turn]:
    """Flawless turns."""
    answers = TEXTS.filter(balanced) if grammar is KG else TEXTS
    return st.builds(Turn, thought=TEXTS, search=searches(grammar)) | st.builds(Turn, thought=TEXTS, answer=answers)


def conversation(grammar: Grammar, *contents: str) -> list[Message]:
    """The opening, then assistant and tool in turn."""
    messages = list(grammar.opening("Who directed Avatar?"))
    for number, content in enumerate(contents):
        role = "tool" if number % 2 else "assistant"
        messages.append(Message(role=role, content=content, train=role == "assistant"))
    return messages


def good(grammar: Grammar) -> list[Message]:
    """One search, one answer."""
    return conversation(
        grammar,
        grammar.render_turn(Turn(thought="I look it up.", search=Search(query="Avatar director"))),
        grammar.render_result(FOUND),
        grammar.render_turn(Turn(thought="That is it.", answer="James Cameron")),
    )


# Written and read


def test_a_kg_search_in_the_form_of_the_paper() -> None:
    search = Search(query="Who directed it?", entities=("Avatar",), relations=("director",))
    assert KG.render_turn(Turn(thought="why", search=search)) == (
        "<think>why</think>\n"
        '<search>{"query": "Who directed it?", "entity": ["Avatar"], "relation": ["director"]}</search>'
    )
    assert KG.render_turn(Turn(thought="so", answer="James Cameron")) == (
        "<think>so</think>\n<answer>The final answer is \\boxed{James Cameron}</answer>"
    )
    assert KG.render_result(FOUND) == (
        "<result>\nDocuments:\n1. (Avatar) A film of 2009.\nTriples:\n1. (Avatar | director | James Cameron)\n</result>"
    )


def test_search_r1_and_graph_r1_in_their_forms() -> None:
    search = Turn(thought="why", search=Search(query="who"))
    assert R1.render_turn(search) == "<think>why</think>\n<search>who</search>"
    assert R1.render_turn(Turn(thought="so", answer="he")) == "<think>so</think>\n<answer>he</answer>"
    assert R1.render_result(FOUND) == "<information>\nDoc 1(Title: Avatar) A film of 2009.\n</information>"
    assert GRAPH.render_turn(search) == '<think>why</think>\n<query>{"query": "who"}</query>'
    assert GRAPH.render_result(FOUND) == "<knowledge>\n1. (Avatar) A film of 2009.\n</knowledge>"


@every_grammar
@given(data=st.data())
def test_parsing_a_rendered_turn_gives_the_turn(grammar: Grammar, data: st.DataObject) -> None:
    turn = data.draw(turns(grammar))
    assert grammar.parse_turn(grammar.render_turn(turn)) == turn


@every_grammar
@given(data=st.data())
def test_whatever_is_rendered_is_valid(grammar: Grammar, data: st.DataObject) -> None:
    contents: list[str] = []
    for _ in range(data.draw(st.integers(0, 2))):
        contents.append(grammar.render_turn(data.draw(st.builds(Turn, thought=TEXTS, search=searches(grammar)))))
        contents.append(grammar.render_result(data.draw(OBSERVATIONS)))
    messages = conversation(grammar, *contents, grammar.render_turn(Turn(thought="so", answer="x")))
    assert grammar.validate(messages, strict=True) == []
    assert grammar.format_reward(messages) == min(1.0, 0.5 * (1 + len(contents) // 2)) or grammar is not GRAPH
    assert grammar.final_answer("\n".join(message.content for message in messages[2:])) == "x"


@every_grammar
@given(observation=OBSERVATIONS)
def test_no_tag_of_any_protocol_survives_in_a_result(grammar: Grammar, observation: Observation) -> None:
    text = grammar.render_result(observation)
    assert tags_in(text) == [f"<{grammar.result_tag}>", f"</{grammar.result_tag}>"]
    assert "<|im_end|>" not in text


@every_grammar
def test_a_result_says_when_there_is_nothing_or_what_went_wrong(grammar: Grammar) -> None:
    tag = grammar.result_tag
    assert grammar.render_result(Observation()) == f"<{tag}>\nNothing was found.\n</{tag}>"
    assert grammar.render_result(Observation(message="It failed.")) == f"<{tag}>\nIt failed.\n</{tag}>"
    both = grammar.render_result(replace(FOUND, message="Slow today."))
    assert both == grammar.render_result(FOUND).replace(f"<{tag}>\n", f"<{tag}>\nSlow today.\n")


def test_an_answer_whose_braces_do_not_match_cannot_be_boxed() -> None:
    for answer in ("a}b", "{a", "}{", "a\\"):
        with pytest.raises(ValueError, match="cannot be boxed"):
            KG.render_turn(Turn(thought="so", answer=answer))


# Mended

JSON = '{"query": "q", "entity": ["e"], "relation": ["r"]}'
SEARCH = Search(query="q", entities=("e",), relations=("r",))


@pytest.mark.parametrize(
    ("text", "thought", "repairs"),
    [
        (f"<think>a</think><search>{JSON}</search>", "a", []),
        (f"\n<think>\na\n</think>\n\n<search>\n{JSON}\n</search>\n", "a", []),
        (f"<think>a</think><search>{JSON}", "a", ["closing_tag"]),
        (f"<think>a<search>{JSON}</search>", "a", ["closing_think"]),
        (f"a</think><search>{JSON}</search>", "a", ["opening_think"]),
        (f"a <search>{JSON}</search>", "a", ["untagged_thought"]),
        (f"<search>{JSON}</search>", "", ["missing_thought"]),
        (f"<think></think><search>{JSON}</search>", "", ["missing_thought"]),
        (f"Well. <think>a</think><search>{JSON}</search>", "a", ["loose_text"]),
        (f"<think>a</think> Now: <search>{JSON}</search>", "a", ["loose_text"]),
        (f"<Think>a</think><search>{JSON}</ SEARCH >", "a", ["tag_spelling"]),
        (f"<think>a</think><search>{JSON}</search/>", "a", ["tag_spelling"]),
        (f"a <SEARCH>{JSON}", "a", ["tag_spelling", "closing_tag", "untagged_thought"]),
        (f"<think>a</think><search>{JSON[:-1]}</search>", "a", ["missing_bracket"]),
    ],
)
def test_slips_around_a_search_are_mended_and_named(text: str, thought: str, repairs: list[Repair]) -> None:
    assert KG.parse_turn(text) == Turn(thought=thought, search=SEARCH, repairs=tuple(repairs))


@pytest.mark.parametrize(
    ("body", "search", "repairs"),
    [
        ("who is she?", Search(query="who is she?"), ["plain_text"]),
        ('{"query": " q "}', Search(query="q"), ["missing_key", "missing_key"]),
        ('{"query": "q", "entity": "e, f", "relation": null}', None, ["text_for_list", "missing_key"]),
        ('{"query": "q", "entity": ["e", " "], "relation": []}', Search(query="q", entities=("e",)), ["blank_item"]),
        ('{"query": ["q"], "entity": [], "relation": []}', Search(query="q"), ["list_for_text"]),
        ('{"Query": "q", "entities": ["e"], "relation": ["r"]}', SEARCH, ["key_spelling"] * 2),
        (JSON[:-1] + ', "top_k": 5}', SEARCH, ["number_as_text", "unknown_key"]),
    ],
)
def test_slips_in_a_kg_search_are_mended_and_named(body: str, search: Search | None, repairs: list[Repair]) -> None:
    assert kg_search.read_search(body) == (search or Search(query="q", entities=("e, f",)), repairs)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('{"entity": ["e"]}', "expected a query, found none"),
        ('{"query": "  "}', "expected a query, found none"),
        ('{"query": ["a", "b"]}', "expected one query, found 2"),
        ('{"query": "a", "Queries": "b"}', "more than one query"),
        ('["a"]', "found no `{`"),
        ('{"query": "a', "expected the end of a text in quotes"),
    ],
)
def test_a_kg_search_without_a_plain_meaning_is_refused(body: str, problem: str) -> None:
    with pytest.raises(MalformedReply, match=re.escape(problem)):
        kg_search.read_search(body)


@pytest.mark.parametrize(
    ("body", "answer", "repairs"),
    [
        ("The final answer is \\boxed{Oslo}", "Oslo", []),
        ("\\boxed{ \\text{Oslo} } it is", "\\text{Oslo}", []),
        ("\\boxed{{1, 2} and {3}}", "{1, 2} and {3}", []),
        ("\\boxed{a \\} b}", "a \\} b", []),
        ("\\boxed{Oslo}, that is \\boxed{Oslo}", "Oslo", []),
        ("\\boxed{Oslo", "Oslo", ["unclosed_box"]),
        ("Oslo", "Oslo", ["unboxed_answer"]),
    ],
)
def test_the_box_of_an_answer(body: str, answer: str, repairs: list[Repair]) -> None:
    assert kg_search.read_answer(body) == (answer, repairs)


@pytest.mark.parametrize("body", ["\\boxed{Rome}? No: \\boxed{Oslo}", "\\boxed{Oslo} or \\boxed{Rome"])
def test_boxes_that_differ_are_no_answer(body: str) -> None:
    with pytest.raises(MalformedReply, match="2 boxes that differ"):
        kg_search.read_answer(body)
    assert KG_SEARCH.final_answer(f"<answer>{body}</answer>") == ""


def test_the_rules_tell_how_many_turns_there_are() -> None:
    assert EpisodeConfig().max_turns == kg_search.MAX_TURNS
    assert "at most 10 turns" in KG_SEARCH.opening("Why?")[0].content
    fewer = kg_search.with_turns(4)
    assert "at most 4 turns" in fewer.opening("Why?")[0].content
    assert replace(fewer, system_prompt=KG_SEARCH.system_prompt) == KG_SEARCH


def test_the_rules_of_search_r1_tell_how_many_searches_there_are_and_what_to_say_in_the_end() -> None:
    rules = SEARCH_R1.opening("Why?")[0].content
    assert "at most 5 times" in rules and is_abstention(rules.rpartition("the answer is: ")[2])
    fewer = search_r1.with_searches(1)
    assert "at most once" in fewer.opening("Why?")[0].content
    assert replace(fewer, system_prompt=SEARCH_R1.system_prompt) == SEARCH_R1


def test_graph_r1_takes_a_query_as_object_or_statement() -> None:
    assert graph_r1.read_search('{"query": "q"}') == (Search(query="q"), [])
    assert graph_r1.read_search("q") == (Search(query="q"), ())
    assert graph_r1.read_search("{'query': 'q', 'mode': 'x'}") == (Search(query="q"), ["quotes", "unknown_key"])
    with pytest.raises(MalformedReply, match="expected a query"):
        graph_r1.read_search('{"text": "q"}')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Oslo", "expected a thought, then one search or one answer; found no tags"),
        ("<think>a</think>", "found <think> </think>"),
        ("<think>a</think><search>q</search><answer>x</answer>", "found <think> </think> <search>"),
        ("<think>a</think><search>q</search> <result> x </result>", "found <think> </think> <search> </search> <res"),
        ("<think>a</think><think>b</think><search>q</search>", "found <think> </think> <think>"),
        ("<think>a<knowledge></think><search>q</search>", "found <think> <knowledge> </think>"),
        ("<search>q</search><think>a</think>", "found <search> </search> <think> </think>"),
        ("<think>a</think><search>q</search> so", "text after </search>"),
        ("<think>a</think><search> </search>", "empty search"),
        ("<think>a</think><search>", "empty search"),
        ("<think>a</think><answer></answer>", "empty answer"),
        ("<think>a</think><query>q</query>", "found <think> </think> <query> </query>"),
    ],
)
def test_a_malformed_turn_is_refused_with_its_reason(text: str, problem: str) -> None:
    with pytest.raises(MalformedReply, match=re.escape(problem)):
        R1.parse_turn(text)
    with pytest.raises(MalformedReply, match=re.escape(problem)):
        KG.parse_turn(text)


TURN_PIECES = st.sampled_from(
    [f"<{end}{tag}>" for tag in ("think", "search", "query", "answer") for end in ("", "/")]
    + ["\\boxed{", "}", "{", '"query":', '"a"', " ", "x"]
)


@every_grammar
@given(parts=st.lists(TURN_PIECES))
def test_any_text_is_read_or_refused(grammar: Grammar, parts: list[str]) -> None:
    text = "".join(parts)
    try:
        turn = grammar.parse_turn(text)
    except MalformedReply:
        return
    assert (turn.search is None) != (turn.answer is None)
    assert turn.thought in text
    assert (turn.search.query if turn.search else turn.answer or "") in text


# Checked


@every_grammar
def test_validate_names_message_and_rule(grammar: Grammar) -> None:
    messages = good(grammar)
    assert grammar.validate(messages, strict=True) == []
    answer, tool = messages[4], messages[3]
    for broken, problem in [
        ([], "0 messages; expected system"),
        (messages[:4], "4 messages; expected system"),
        (messages[:3], "message 2: the conversation ends without an answer"),
        ([messages[1], messages[0], *messages[2:]], "message 0: role user, expected system"),
        ([*messages[:2], answer, tool, answer], "message 2: answers before the last turn"),
        ([*messages[:3], replace(tool, train=True), answer], "message 3: train is True on a turn of tool"),
        ([*messages[:4], replace(answer, train=False)], "message 4: train is False on a turn of assistant"),
        ([*messages[:3], replace(tool, content="x"), answer], f"message 3: expected <{grammar.result_tag}>"),
        ([*messages[:3], replace(tool, content=tool.content + "x"), answer], "message 3: text outside the result"),
        ([*messages[:4], replace(answer, content="x")], "message 4: expected a thought, then one"),
    ]:
        assert any(found.startswith(problem) for found in grammar.validate(broken)), problem


@every_grammar
def test_a_mended_turn_is_valid_but_costs_the_format_reward(grammar: Grammar) -> None:
    messages = good(grammar)
    messages[2] = replace(messages[2], content=messages[2].content.replace("</think>", ""))
    assert grammar.validate(messages) == []
    assert grammar.validate(messages, strict=True) == ["message 2: needs repair: closing_think"]
    assert grammar.parse_turn(messages[2].content).repairs == ("closing_think",)
    assert grammar.format_reward(good(grammar)) == 1.0
    assert grammar.format_reward(messages) == (0.5 if grammar is GRAPH else 0.0)


def test_the_final_answer_is_the_last_one() -> None:
    assert R1.final_answer("<answer>a</answer> so <answer> b </answer>") == "b"
    assert R1.final_answer("<answer>a") == ""
    assert KG.final_answer("x <answer>It is \\boxed{b}.</answer> y") == "b"
    assert KG.final_answer("<answer>\\boxed{}</answer>") == ""


@every_grammar
def test_prompts_name_every_tag(grammar: Grammar) -> None:
    system, user = grammar.opening("Why?")
    assert {"<think>", f"<{grammar.search_tag}>", f"<{grammar.result_tag}>", "<answer>"} <= set(tags_in(system.content))
    assert user.content == "Why?" + grammar.user_suffix


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("<think>a</think><search>b</search><result>c</result><answer>d", "<think>a</think><search>b</search>"),
        ("<think>I may write </search> or </answer>.</think><answer>b</answer> and more",
         "<think>I may write </search> or </answer>.</think><answer>b</answer>"),
        ("I may write </search>.</think><search>b</search>c", "I may write </search>.</think><search>b</search>"),
        ("<search>b</ Search >c", "<search>b</ Search >"),
        ("<think>a </answer>", None),
        ("<think>a</think><search>b", None),
        ("", None),
    ],
    ids=["goes on", "drafts", "opened by the prompt", "spelling", "still thinking", "stopped", "nothing"],
)  # fmt: skip
def test_a_turn_ends_at_its_first_closing_tag_outside_of_a_thought(text: str, turn: str | None) -> None:
    assert R_SEARCH.up_to_end(text) == turn
