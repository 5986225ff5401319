"""A scripted model that writes what back ends ask for while they are built and searched, over the world's sentences."""

from __future__ import annotations

import json
import re

_SAYS = re.compile(r"The (?P<relation>\w[\w ]*?) of (?P<subject>[^.\n]+?) is (?P<object>[^.\n]+)\.")
_OPENINGS = {
    "List the named entities": "names",
    "Write down what the passage below says as triples": "triples",
    "A search goes from facts": "filter",
    "Take the passage below apart": "facts",
    "The passage below was taken apart": "no_facts",
    "Write down the entities that the passage": "graph",
    "From the passage below, entities and relations": "no_graph",
    "Several passages describe": "text",
    "The entities below belong together": "report",
    "Reports on groups of entities follow": "points",
    "Answer the question from the points": "text",
    "Write one summary": "text",
}
"""What prompts begin with, and what they want."""


def write_for_index(prompt: str) -> str | None:
    """The reply to a prompt of a back end; None for other prompts."""
    at = {text: place for text in _OPENINGS if (place := prompt.find(text)) >= 0}
    if not at:
        return None
    wanted = _OPENINGS[min(at, key=lambda text: at[text])]
    found = [match.groupdict() for match in _SAYS.finditer(prompt)]
    names = list(dict.fromkeys(name for each in found for name in (each["subject"], each["object"])))
    said = [f"The {each['relation']} of {each['subject']} is {each['object']}." for each in found]
    described = [{"name": name, "kind": "thing", "description": f"{name} is named."} for name in names]
    related = [
        {"source": each["subject"], "target": each["object"], "description": text, "strength": 5}
        for each, text in zip(found, said, strict=True)
    ]
    entities = [{"name": name, "type": "thing", "description": f"{name}.", "importance": 50} for name in names]
    facts = [
        {"fact": text, "completeness": 9, "entities": [each["subject"], each["object"]]}
        for each, text in zip(found, said, strict=True)
    ]
    triples = [{"subject": e["subject"], "relation": f"has {e['relation']}", "object": e["object"]} for e in found]
    return {
        "names": json.dumps({"names": names}),
        "triples": json.dumps({"triples": triples}),
        "filter": json.dumps({"useful": [1, 2]}),
        "facts": json.dumps({"entities": entities, "facts": facts}),
        "no_facts": json.dumps({"entities": [], "facts": []}),
        "graph": json.dumps({"entities": described, "relations": related}),
        "no_graph": json.dumps({"entities": [], "relations": []}),
        "report": json.dumps({"title": "What is said", "summary": " ".join(said), "findings": [], "rating": 5}),
        "points": json.dumps({"points": [{"description": " ".join(said), "reports": [0, 1, 2], "score": 80}]}),
        "text": " ".join(said) or "Nothing is said.",
    }[wanted]
