"""Last turns that admit a guess, and last turns that say where the answer is from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.filters.guesses import admitted_guess, find_admission

READ = ["He was probably born in Paris or Lyon."]
GUESSES = [
    "I could not find where he died, so I'll go with Paris.",
    "There is no information on the place of death; I suppose Paris.",
    "The passages are silent about it. Paris is a fair answer.",
    "The place of death isn't given anywhere, but most directors of that time died in Paris.",
    "None of the results mention where she died. Paris.",
    "Neither document says where he died, so Paris.",
    "I remember that he died in Paris.",
    "From memory, he died in Paris.",
    "It is common knowledge that he died in Paris.",
    "Doc 2 says he moved to Paris in 1930, so he probably died in Paris.",
    "He died in Paris, I believe.",
    "I have to guess: Paris.",
    "My best guess is Paris.",
    "I will assume that he died in Paris.",
    "He must have died in Paris, where he lived.",
    "The search did not bring it. By general knowledge it is Paris.",
    "As everyone knows, he died in Paris.",
    "The documents don't say it, but it's Paris.",
    "The graph is silent on this. He lived in Paris, so Paris.",
    "It's not stated, so I rely on my own knowledge: Paris.",
    "No document gives the place of death. Since he lived in Paris, I answer Paris.",
    "He may have died in Paris.",
    "The results do not tell me where he died. I'd say Paris.",
    "I can't find the place of death, so I answer with the city he lived in, Paris.",
    "Nowhere is it said where he died. Paris seems right.",
    "The exact place is not given, but it was probably Paris.",
    "He is known to have died in Paris, as far as I know.",
    "I do not see his place of death in the results. I answer Paris.",
    "The place of death is missing from the results. Paris it is.",
    "I was unable to find the place of death. Paris.",
    "Nothing was found on his death. The likely answer is Paris.",
    "His place of death remains unknown; Paris is where he worked.",
    "I'm not sure, but Paris.",
    "The other links are found. I'm not fully sure, but that's the best answer.",
    "I am not entirely certain of this, but it is Paris.",
    "It is Paris, though I'm not quite sure.",
    "He lived in Paris. I’m unsure. It fits best.",
    "Without further evidence, Paris is the natural choice.",
    "Both died in the same year. Since the question expects one of them, the one of Paris is meant.",
]
READINGS = [
    "Doc 1 does not say where he died, but Doc 2 says that he died in Paris.",
    "The first document doesn't mention it. The third one says he died in Paris.",
    "The documents do not say it, but the graph gives Paris as his place of death.",
    "I remember that he died in Paris, and Doc 2 confirms it.",
    "The exact day is not given, but 1924 is before 1975, so it is Paris.",
    "The graph says that he was born in Paris. I am sure.",
    "The documents are not about her, but the graph is clear, and it matches what I know.",
    "He was a well-known actor who died in Paris.",
    "He is best known for Paris, Texas, and died in Paris.",
    "So the answer is Paris.",
    "Maybe it is Lyon? No, Doc 2 says that he died in Paris.",
    "It is likely that Doc 1 is about another man. Doc 2 says that he died in Paris.",
    "Document 4 states that he died in Paris. Nothing is missing.",
    "The triple (X | place of death | Paris) answers the question, so I think we are done.",
    "No further search is needed. He died in Paris.",
    "The probable cause was not given, but he died in Paris, says Doc 1.",
    "Both are there, so nothing is lacking. Paris.",
    "He was probably born in Paris.",
    "Now I know that his father is X, and that X died in Paris.",
    "Doc 3 says so: he died in Paris. That is not Paris, Texas.",
    "The result names Paris. The graph has no triple on him, but that does not matter.",
    "According to the second passage he died in Paris; the first does not name a place.",
    "I'm not fully sure, but Doc 2 says that he died in Paris.",
    "I'm not sure of it. The second document states Paris, so it is Paris.",
    "I was not sure at first, but he died in Paris.",
    "I'm not sure why she moved, but she lived in Paris.",
    "I'm not fully sure about his wife, and she is not asked for. He died in Paris.",
    "I am sure: Paris.",
    "Whether she knew him is not sure to me, but he died in Paris.",
    "The answer is not London, which is not mentioned, but Paris.",
    "No other film of that name is mentioned. He died in Paris.",
    'Does the second film count, too? The find said only epic film, "buddy" is missing. Good.',
]


def turn(thought: str) -> str:
    return f"<think>{thought}</think>\n<answer>Paris</answer>"


@pytest.mark.parametrize("thought", GUESSES)
def test_an_admission_is_heard(thought: str) -> None:
    verdict = admitted_guess(find_admission(turn(thought), ["Paris"], READ))
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "admitted_guess", 1.0)


@pytest.mark.parametrize("thought", READINGS)
def test_what_is_read_is_no_guess(thought: str) -> None:
    assert admitted_guess(find_admission(turn(thought), ["Paris"], READ)).keep


def test_a_doubt_of_the_passages_is_no_guess_of_the_agents() -> None:
    thought = "He was probably born in Paris."
    assert not find_admission(turn(thought), ["Paris"], READ) and find_admission(turn(thought), ["Paris"], ["Paris."])


PASSAGES = [
    "Where he died is not known. He was born in Paris. It is widely speculated that he fled.",
    "Paris is the setting of Guess Who, of Call Me Maybe and of The Best Guess. He was jailed for lack of evidence.",
    "The name is perhaps Celtic. He would have been king.",
]


@pytest.mark.parametrize(
    "thought",
    [
        "It is not stated in the first document, but the second says that he was born in Paris.",
        "The first does not mention it; the other one states that he was born in Paris.",
        "Doc 1 says that where he died is not known. He was born in Paris.",
        "Guess Who is set in Paris.",
        "The song Call Me Maybe is set in Paris.",
        "Paris is the setting of The Best Guess, says Doc 2.",
        "He was jailed for lack of evidence and lived in Paris.",
        "It is widely speculated that he fled from Paris.",
        "Paris: the name is perhaps Celtic.",
    ],
)
def test_words_of_passages_and_names_are_no_guess(thought: str) -> None:
    assert not find_admission(turn(thought), ["Paris"], PASSAGES)


@pytest.mark.parametrize(
    "thought",
    [
        "Where he died is not known. I'd say Paris.",
        "Maybe Paris.",
        "He perhaps died in Paris.",
        "My guess is Paris.",
        "I will answer Paris for lack of anything better.",
        "It is not stated in the first document, and the second does not say it either, so Paris.",
    ],
)
def test_a_guess_is_the_agents_own_beside_the_same_passages(thought: str) -> None:
    assert find_admission(turn(thought), ["Paris"], PASSAGES)


@pytest.mark.parametrize(
    "thought",
    [
        "Pete's mother is Paris. Doc 3: she has one son. Vicki's mother is not named.",
        "Cherry Cook's only son is Gerry, whose wife is Paris. Paris's parents are not named.",
        "Gerry's wife is Paris. Paris's parents are not named, so Gerry's mother-in-law is not given.",
        "Paris is the brother of Danielle Lemaster. Grady Lemaster's siblings are not known.",
        "The mother of Emery is Paris; the mother of Zenobia Hyde is not given.",
        "Neither Denny nor Brittany has parents listed. Remains Piper with Paris, the father of her mother Dorinda.",
        "Aline's father is Denny; a grandfather of hers is not named. Piper has the grandfather Paris.",
    ],
)
def test_a_branch_that_is_left_aside_is_no_guess(thought: str) -> None:
    assert not find_admission(turn(thought), ["Paris"], READ)


@pytest.mark.parametrize(
    "thought",
    [
        "Vicki's mother is not named. It is Paris.",
        "Vicki's mother is Paris. Vicki's mother is not named.",
        "He is the son of Vicki. It is Paris. Vicki's mother is not named.",
        "Vicki's mother is not named. Vicki lived with Paris.",
        "Henry Moore's place of death is not named. Moore's wife lived in Paris.",
        "Its director's place of death is not named. It is Paris.",
        "The place of death is not named in Doc 1. Henry lived in Paris.",
        "Pete's mother is probably Paris. Vicki's mother is not named.",
        "Pete's mother is Alexandra. Vicki's mother is not named.",
        "It is Paris. The mother is not named.",
        "Gerry's wife is Paris. For Gerry's mother nothing is named.",
        "Gerry's wife is Paris. Her parents are not named, so Gerry's mother-in-law is not given.",
    ],
)
def test_what_is_asked_for_is_left_aside_by_no_honest_agent(thought: str) -> None:
    assert find_admission(turn(thought), ["Paris"], READ)


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_of_yes_and_no_the_last_clause_is_about_the_answer(answer: str) -> None:
    assert find_admission(turn("Doc 1 is on the first film. So they probably are."), [answer])
    assert not find_admission(turn("Maybe both are. The first is French, the second is Danish."), [answer])


@given(thought=st.lists(st.sampled_from(GUESSES + READINGS), max_size=4).map(" ".join) | st.text())
def test_what_is_quoted_or_answered_is_no_admission(thought: str) -> None:
    quoted = thought.replace('"', "").replace("“", "").replace("”", "").replace("<", "")
    assert not find_admission(f'Doc 1 says "{quoted}".<answer>I guess Paris</answer>', ["Paris"])
