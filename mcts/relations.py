"""MuSiQue's gold hops of the form `subject >> relation` as questions. The relations are Wikidata properties."""

from __future__ import annotations

_QUESTIONS = {
    "award received": "Which award did {} receive?",
    "based on": "What is {} based on?",
    "capital of": "What is {} the capital of?",
    "contains administrative territorial entity": "Which administrative area does {} contain?",
    "country of citizenship": "Of which country is {} a citizen?",
    "crosses": "What does {} cross?",
    "distributed by": "Who distributed {}?",
    "educated at": "Where was {} educated?",
    "followed by": "What follows {}?",
    "follows": "What does {} follow?",
    "founded by": "Who founded {}?",
    "has part": "What is a part of {}?",
    "headquarters location": "Where are the headquarters of {}?",
    "instance of": "What kind of thing is {}?",
    "licensed to broadcast to": "To which place is {} licensed to broadcast?",
    "located in or next to body of water": "In or next to which body of water is {} located?",
    "located in the administrative territorial entity": "In which administrative area is {} located?",
    "located on terrain feature": "On which landform is {} located?",
    "location of formation": "Where was {} formed?",
    "member of": "Of which group is {} a member?",
    "member of political party": "Of which political party is {} a member?",
    "member of sports team": "Which sports team did {} play for?",
    "mouth of the watercourse": "Where is the mouth of {}?",
    "named after": "What is {} named after?",
    "occupant": "Who occupies {}?",
    "owned by": "Who owns {}?",
    "part of": "What is {} part of?",
    "part of the series": "Of which series is {} a part?",
    "participant in": "What did {} take part in?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "present in work": "In which work is {} present?",
    "shares border with": "What shares a border with {}?",
    "work location": "Where did {} work?",
}
_PERSONS = set(
    "author,cast member,child,composer,creator,director,father,mother,performer,producer,screenwriter,sibling,spouse,"
    "winner".split(",")
)


def as_question(subject: str, relation: str) -> str:
    """`Fritz Lang`, `place of birth` -> `Where was Fritz Lang born?`; by the relation's name where that will do."""
    if relation in _QUESTIONS:
        return _QUESTIONS[relation].format(subject)
    return f"{'Who' if relation in _PERSONS else 'What'} is the {relation} of {subject}?"
