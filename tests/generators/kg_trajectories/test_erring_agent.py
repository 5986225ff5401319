"""An agent that errs in three of ten steps gives pairs, and each of them teaches the right thing."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.support import world
from tests.support.kg_agent import searched_store
from tests.support.kg_episodes import context
from trailforge.generators.kg_trajectories.choice import rests_on_form
from trailforge.generators.kg_trajectories.config import KgGeneratorConfig, KgRunConfig
from trailforge.generators.kg_trajectories.work import LIFE
from trailforge.inference import Request
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.turns import Search, Turn
from trailforge.schemas import ContrastivePair, KgTrajectory, MalformedReply, Question, from_dict, parse_json

ERRS = 0.3
THOUGHTS = ("Let me see.", "What is missing?", "One thing after the other.")
FORMS = ("{}", "{}", "{} and kin", "{} & Co", "the {} of old")
"""Of the right answer; some are wrong to the matcher, and none is a mistake."""
EPISODES = KgGeneratorConfig(episodes=8, kg_filter="asked", self_check="off", max_pairs=8)


def needed(question: Question, read: str) -> tuple[str, str] | None:
    """Relation and entity of the first fact that stands in nothing that was read; None when all was read."""
    chain = world.chain_of(question.question)
    for depth in range(1, len(chain)):
        relation, entity = chain[-depth - 1], world.answer_of(chain[-depth:]) if depth > 1 else chain[-1]
        if f"The {relation} of {entity} is " not in read and f"({entity} | {relation} | " not in read:
            return relation, entity
    return None


def searching(thought: str, relation: str, entity: str) -> str:
    search = Search(query=world.ask([relation, entity]), entities=(entity,), relations=(relation,))
    return KG_SEARCH.render_turn(Turn(thought=thought, search=search))


@dataclass
class ErringAgent:
    """Takes the right turn in seven of ten, in changing words."""

    question: Question
    kinds: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Request) -> str:
        rng = random.Random(request.sampling_seed)
        messages = [chat.content for chat in request.prompt if not isinstance(chat, str)]
        read = "\n".join(messages[3::2])
        asked = re.findall(r'"query": "What is the (\w+) of (\w+)\?"', "\n".join(messages[2:]))
        thought, kind = rng.choice(THOUGHTS), "right"
        errors = ["amiss", "early", "malformed", *(["again"] if asked else [])]
        if rng.random() < ERRS:
            kind = rng.choice(errors)
        self.kinds[kind] += 1
        missing = needed(self.question, read)
        match kind:
            case "amiss":
                return searching(thought, rng.choice(world.RELATIONS), world.name_of("nobody", thought))
            case "again":
                return searching(thought, *asked[-1])
            case "early":
                return KG_SEARCH.render_turn(Turn(thought=thought, answer=world.name_of("wrong", str(rng.random()))))
            case "malformed":
                return "I think I know it."
        if missing:
            return searching(thought, *missing)
        answer = rng.choice(FORMS).format(self.question.answer)
        return KG_SEARCH.render_turn(Turn(thought=thought, answer=answer))


def kind_of_turn(question: Question, messages: Sequence[str], place: int) -> str:
    """What the turn at this place is, given what was read before it."""
    try:
        turn = KG_SEARCH.parse_turn(messages[place], strict=True)
    except MalformedReply:
        return "malformed"
    missing = needed(question, "\n".join(messages[3:place:2]))
    if turn.search is None:
        is_right = missing is None and turn.answer in {form.format(question.answer) for form in FORMS}
        return "answer" if is_right else "early"
    if turn.search.query in "\n".join(messages[2:place]):
        return "again"
    is_needed = missing is not None and turn.search.query == world.ask(list(missing))
    return "search" if is_needed else "amiss"


@pytest.fixture(scope="module", params=[1, 3], ids=["one document", "three documents"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[tuple[Question, ContrastivePair]], Counter[str], int]:
    """Pairs with their questions, how often the agent erred, and how many episodes end in another form of the name."""
    questions = [world.question(number, 2 + number % 2) for number in range(24)]
    graph = searched_store(tmp_path_factory.mktemp("kg") / "store", questions)
    episodes = replace(EPISODES, top_k=request.param)
    pairs, kinds, forms = [], Counter[str](), 0
    for question in questions:
        agent = ErringAgent(question)
        result = asyncio.run(LIFE.run_item(question, context(graph, agent, episodes), KgRunConfig(generator=episodes)))
        pairs += [(question, pair) for pair in result.rows["pairs"]]
        kinds += agent.kinds
        rejected = [row for row in result.rows["rejected"] if row.reason == "wrong_answer"]
        forms += sum(rests_on_form(from_dict(KgTrajectory, parse_json(row.payload))) for row in rejected)
    return pairs, kinds, forms


Made = tuple[list[tuple[Question, ContrastivePair]], Counter[str], int]


def test_the_agent_errs_as_often_as_is_said_and_uses_other_names(made: Made) -> None:
    _, kinds, forms = made
    assert 0.25 < 1 - kinds["right"] / kinds.total() < 0.35
    assert min(kinds.values()) > 10 and forms > 5


def test_every_pair_teaches_the_right_turn_in_place_of_a_mistake(made: Made) -> None:
    pairs, _, _ = made
    taught = Counter[str]()
    for question, pair in pairs:
        good, bad = ([message.content for message in each] for each in (pair.good_messages, pair.bad_messages))
        place = pair.diverges_at
        assert good[:place] == bad[:place] and good[place] != bad[place]
        kind = kind_of_turn(question, bad, place)
        assert kind not in ("search", "answer"), f"nothing is wrong with {bad[place]}"
        assert kind_of_turn(question, good, place) in ("search", "answer"), good[place]
        assert KG_SEARCH.validate(pair.good_messages, strict=True) == []
        taught[kind] += 1
    assert set(taught) == {"malformed", "early", "again", "amiss"} and taught.total() > 24, taught


def test_no_pair_rests_on_the_form_of_a_name(made: Made) -> None:
    pairs, _, _ = made
    for question, pair in pairs:
        last = pair.bad_messages[-1].content
        is_named = question.answer in last and "<answer>" in last
        assert not (pair.reason == "wrong_answer" and is_named), last
