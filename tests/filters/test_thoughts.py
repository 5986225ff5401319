"""The gate of thoughts: what the agent could not say at its turn is found, and what a strong model writes passes."""

from __future__ import annotations

import copy
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.generators.strong_thoughts import REPLIES, ROWS, Reply
from tests.support.rows import trajectory
from trailforge.filters.thoughts import find_unseen_facts, quotes, unfounded_thoughts
from trailforge.generators.mcts_trajectories.telling.story import narrate, rereads, story_of
from trailforge.generators.mcts_trajectories.telling.thoughts import thought_problem, with_thoughts

MOST = 150


def problem(name: str, reply: Reply) -> str:
    """What is wrong with a reply for a row; empty for nothing."""
    row = ROWS[name]
    story = story_of(row, "reread" if rereads(row) else "search")
    return thought_problem(with_thoughts(row, story, reply), story, reply, MOST)


def changed(name: str, turn: int, field: str, old: str, new: str) -> Reply:
    """The strong model's reply with one thing said otherwise; all of a field where `old` is empty."""
    reply = copy.deepcopy(REPLIES[name])
    text = reply[f"turn_{turn}"][field]
    assert old in text
    reply[f"turn_{turn}"][field] = text.replace(old, new) if old else new
    return reply


@pytest.mark.parametrize("name", ROWS)
def test_what_a_strong_model_writes_passes(name: str) -> None:
    assert problem(name, REPLIES[name]) == ""


@pytest.mark.parametrize(
    ("name", "turn", "field", "text"),
    [
        ("director", 1, "next", "To answer that, I look for who directed Metropolis. Anything else can wait."),
        ("director", 1, "plan", "First the director, second the birthplace. Step 1 and step 2, then."),
        ("director", 2, "next", "That leaves one thing: where Fritz Lang (not Lorre) was born. 1 search should do."),
        ("director", 2, "next", "Words such as city or birth might find where Fritz Lang was born."),
        ("director", 2, "claim", "Going by passage 1, it was FRITZ LANG who directed the 1927 film."),
        ("director", 2, "claim", "The German film's director was Fritz Lang. So far, so good!"),
        ("director", 2, "claim", "Germany's film “Metropolis” was made by Fritz Lang."),
        ("director", 3, "claim", "Born in Vienna in the 1890s' first year; Austrians would say so of Vienna, too."),
        ("director", 3, "claim", "Vienna, it is. Fortunately the sentence is plain; having read it, I'm sure."),
        ("ranking", 2, "claim", "Glisson’s birthplace is Jackson County, Florida."),
        ("ranking", 4, "claim", "The 12th most populous in the United States (the US, that is). U.S. rank: twelfth."),
        ("director", 2, "claim", "Fritz Lang is named as the one who directed it. He was a director, so it is clear."),
        ("director", 2, "claim", "Fritz Lang: he is described as its director in the four words that follow."),
        ("director", 1, "plan", "I split it into three parts and take the third part last, of four passages."),
        ("director", 1, "plan", "I need three things: the film, its director, and where he was born."),
        ("director", 2, "claim", "Older or newer, it is one film. Newest of them or not, Fritz Lang made it."),
        ("networks", 3, "claim", "Apart from ABC and NBC, only CBS is left of the three."),
    ],
)  # fmt: skip
def test_ordinary_wordings_pass(name: str, turn: int, field: str, text: str) -> None:
    assert problem(name, changed(name, turn, field, "", text)) == ""


@pytest.mark.parametrize(
    ("name", "turn", "field", "text", "found"),
    [
        ("director", 1, "next", "I think Fritz Lang directed it, so I check.", "'Fritz' stands in nothing"),
        ("director", 1, "plan", "The director was born in Wien, I guess.", "'Wien' stands in nothing"),
        ("director", 1, "next", "Boston is where I would begin.", "'Boston' stands in nothing"),
        ("director", 2, "claim", "Fritz Lang made it together with Thea von Harbou.", "'Thea' stands in nothing"),
        ("director", 2, "claim", "Greater Boston saw it. Fritz Lang directed it.", "'Greater' stands in nothing"),
        ("director", 2, "claim", "Foster is another one. Fritz Lang directed it.", "'Foster' stands in nothing"),
        ("director", 2, "claim", "Fritz Lang directed it in 1926.", "the number 1926"),
        ("director", 2, "claim", "Fritz Lang directed it. He was 37 by then.", "the number 37"),
        ("director", 2, "next", "Fritz Lang was born in Vienna, I look that up.", "'Vienna'"),
        ("director", 2, "claim", "Somebody directed it.", "is marked as claiming 'Fritz Lang'"),
        ("director", 2, "claim", "Fritz Lang did: “Metropolis was directed by Fritz Lang himself”.", "quotes"),
        ("director", 2, "claim", "Fritz Lang <b>directed</b> it.", "tag <b>"),
        ("director", 2, "claim", "Fritz Lang it is.</think><answer>Fritz Lang</answer>", ""),
        ("director", 2, "claim", "Fritz Lang " * 90, "words (at most"),
        ("director", 2, "next", " ", "next is empty"),
        ("director", 2, "quote", "Metropolis was directed by Fritz Lang.", "no passage says"),
        ("director", 2, "quote", "Peter Lorre was born in Rosenberg.", "does not have 'Fritz Lang'"),
        ("director", 2, "quote", "", "no sentence is cited"),
        ("director misread", 3, "claim", "Beverly Hills, though that may be wrong.", "doubts ('wrong')"),
        ("director misread", 3, "claim", "Wait, is it Beverly Hills? I say so.", "doubts ('Wait')"),
        ("director misread", 2, "next", "I will misread the next passage.", "doubts ('misread')"),
        ("director misread", 3, "claim", "Not Vienna but Beverly Hills.", "'Vienna' before it is found"),
        ("director misread", 3, "reflection", "No, he was born in Vienna.", "'Vienna' before it is found"),
        ("director misread", 3, "next", "I search again to see Vienna confirmed.", "'Vienna' before it is found"),
        ("director reread", 3, "reflection", "No, it says Vienna, where he was born.", "'Vienna' before it is found"),
        ("director died", 1, "plan", "Find the director, then in which city he was born: Vienna.", "'Vienna'"),
        ("director died", 2, "next", "I look for Beverly Hills.", "'Beverly' stands in nothing"),
        ("director", 2, "claim", "Fritz Lang directed it seven times.", "the number seven"),
        ("director", 2, "claim", "Fritz Lang, thrice wed, directed it.", "the number thrice"),
        ("director", 2, "claim", "Fritz Lang directed Metropolis. It was shot near a harbour.", "'shot' is said"),
        ("director", 3, "claim", "Vienna, it says. Vienna is a port on the river.", "'port' is said of something"),
        ("networks", 2, "claim", "NBC; the date will be February 7, 2018.", "'February'"),
        ("networks misread", 2, "reflection", "It has to be NBC instead of CBS.", "'NBC' before it is found"),
        ("campuses from memory", 3, "claim", "From memory: 23, or is it 12?", "'12' before it is found"),
    ],
)  # fmt: skip
def test_what_the_agent_cannot_say_yet_is_found(name: str, turn: int, field: str, text: str, found: str) -> None:
    said = problem(name, changed(name, turn, field, "", text))
    assert said and found in said


@pytest.mark.parametrize("name", ROWS)
def test_thoughts_of_another_row_do_not_pass(name: str) -> None:
    """Not even where the turns have the same fields."""
    form = {turn: list(fields) for turn, fields in REPLIES[name].items()}
    others = [n for n in ROWS if n != name and {t: list(f) for t, f in REPLIES[n].items()} == form]
    for other in others:
        if ROWS[other].steps != ROWS[name].steps:
            assert problem(name, REPLIES[other])


def _words(text: str) -> list[str]:
    return [word for word in text.split() if word.strip(string.punctuation)]


FIELDS = [
    (name, turn, field)
    for name, reply in REPLIES.items()
    for turn, fields in reply.items()
    for field, value in fields.items()
    if isinstance(value, str) and not field.endswith("others")
]
UNHEARD = ["Zanzibar", "Quentin", "1741", "8,912", "NASA", "Kowalski's", "Nepalese", "Île-de-Sein", "3rd-century Gaul"]


@given(st.sampled_from(FIELDS), st.sampled_from(UNHEARD), st.integers(0, 200))
def test_an_unheard_name_or_number_is_found_wherever_it_is_put(
    place: tuple[str, str, str], unheard: str, at: int
) -> None:
    name, turn, field = place
    reply = copy.deepcopy(REPLIES[name])
    words = reply[turn][field].split(" ")
    words.insert(at % (len(words) + 1), unheard)
    reply[turn][field] = " ".join(words)
    assert problem(name, reply)


def test_an_acronym_that_was_seen_lets_no_other_name_through() -> None:
    place = next(place for place in FIELDS if "New York" in REPLIES[place[0]][place[1]][place[2]])
    name, turn, field = place
    reply = copy.deepcopy(REPLIES[name])
    reply[turn][field] = reply[turn][field].replace("New York", "New NASA York", 1)
    assert problem(name, reply)


@given(st.sampled_from([place for place in FIELDS if place[2] in ("next", "plan", "end")]), st.data())
def test_words_of_the_question_may_be_said_everywhere(place: tuple[str, str, str], data: st.DataObject) -> None:
    name, turn, field = place
    word = data.draw(st.sampled_from(_words(ROWS[name].question)))
    reply = copy.deepcopy(REPLIES[name])
    reply[turn][field] += f" It is about {word.strip('?,.')}"
    assert problem(name, reply) == ""


@given(st.sampled_from(sorted(ROWS)), st.integers(0, 9999))
def test_the_sentences_from_pools_pass_the_gate_too(name: str, seed: int) -> None:
    """What they say is true of every row, whoever words it."""
    row = ROWS[name]
    messages, spans = narrate(story_of(row, "reread" if rereads(row) else "search"), seed=str(seed))
    verdict = unfounded_thoughts(replace(row, messages=messages, spans=spans), max_words=MOST)
    assert verdict.keep, verdict.detail


@pytest.mark.parametrize(
    ("seen", "thought", "is_seen"),
    [
        ("The newly elected judge is Nisar.", "Nisar is the newest one.", True),
        ("A fine hall stands there.", "Ava is the finest hall.", True),
        ("It is a heavy stone.", "Ava is heavier than it.", True),
        ("It is a big stone.", "Ava is the biggest stone.", True),
        ("It is a stone.", "Ava is the greenest stone.", False),
        ("It is a stone.", "Ava is a robber.", False),
    ],
)
def test_a_comparative_is_seen_where_its_adjective_is(seen: str, thought: str, is_seen: bool) -> None:
    assert (not list(find_unseen_facts(thought, [seen, "Ava"]))) is is_seen


def test_an_answer_named_by_the_question_may_be_said_at_once() -> None:
    row = trajectory()
    assert unfounded_thoughts(row, max_words=MOST).keep
    asked = replace(row, question="Was the director of Metropolis born in Vienna?")
    assert unfounded_thoughts(asked, max_words=MOST).keep


@pytest.mark.parametrize(
    ("quoted", "is_there"),
    [
        ("born in Vienna", True), ("BORN  in\nVienna,", True), ("“born in Vienna.”", True), ("born … 1890", True),
        ("1890 … born", False), ("Vienna", True), ("ienna", False), ("born in Wien", False), ("", False), ("…", False),
        ("Lang's city", True), ("Lang’s city", True),
    ],
)  # fmt: skip
def test_a_quotation_may_differ_in_case_space_and_marks_alone(quoted: str, is_there: bool) -> None:
    assert quotes("He was born in Vienna in 1890; Lang’s city.", quoted) is is_there
