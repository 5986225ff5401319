"""What paths are wanted, and which of them make no question."""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.schemas import InvalidInput

MOST_HOPS = 4
OPEN_ENDED = (
    "cast member|cause of death|continent|country|country of birth|country of citizenship|country of origin|currency|"
    "educated at|employer|ethnic group|field of work|genre|has part|industry|influenced by|instrument|"
    "language of work or name|languages spoken, written, or signed|languages spoken, written or signed|located in|"
    "located in the administrative territorial entity|located in the administrative terroritorial entity|"
    "location of formation|formed in|medical condition|member of|member of political party|member of sports team|"
    "movement|named after|narrative location|official language|part of|place of birth|place of burial|place of death|"
    "position held|practiced by|record label|religion|residence|sex or gender|shares border with|sport|symptoms|"
    "time period|year of birth|year of death|year of founding|year of publication|headquarters location|award received|"
    "flows through|collection|occupant|student of|diplomatic relation|legal form|location|"
    "use|uses|product or material produced|parent organization|publisher|performer"
)

MANY_TAILS = (
    "award received|cast member|child|country of citizenship|diplomatic relation|discoverer or inventor|educated at|"
    "employer|ethnic group|field of work|founded by|genre|has part|industry|influenced by|instrument|"
    "languages spoken, written, or signed|languages spoken, written or signed|medical condition|member of|"
    "member of political party|member of sports team|movement|named after|narrative location|notable works|"
    "notable work|occupant|part of|people aboard|position held|practiced by|product or material produced|record label|"
    "residence|separates|shares border with|sibling|spouse|sport|student of|symptoms|time period|unmarried partner|"
    "use|uses|visited|cause of death|flows through"
)
NEEDS_KIND = (
    "located in|located in the administrative territorial entity|located in the administrative terroritorial entity|"
    "location|part of"
)
ONE_HEAD = (
    "capital|chief executive officer|first monarch|first president|head of state|highest point|home venue|"
    "longest river|mascot"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KgPathConfig:
    """Which paths are sampled. Relations go by label (its case aside) or id. Raises `InvalidInput`."""

    hops: tuple[int, ...] = (2, 3, 4)
    """Facts of a path, 1 to 4; all are equally frequent."""
    intersections: float = 0.4
    """Share of paths in which two chains meet, among those of two hops or more."""
    max_degree: int = 200
    """Triples of a bridge or an answer: who has more is a hub. Starts may have any number, they are named."""
    max_fan_out: int = 50
    """Entities that a fact's relation may lead to from its known end."""
    min_functionality: float = 0.75
    """Of relations that are to lead to one entity, in their direction: how many entities they lead from, over how many
    triples they have; 1 when they never lead to two."""
    min_triples: int = 10
    """Of relations that are to lead to one entity: fewer do not show how many they usually lead to."""
    many_tails: tuple[str, ...] = tuple(MANY_TAILS.split("|"))
    """Relations that lead from a head to more tails than a graph knows: that it knows one proves little. They are
    followed from heads only where chains meet."""
    one_head: tuple[str, ...] = tuple(ONE_HEAD.split("|"))
    """Relations that lead from a tail to one head in the world too. No others are followed from tails, but where
    chains meet: that a graph knows one film of a director says more of the graph than of the director."""
    needs_kind: tuple[str, ...] = tuple(NEEDS_KIND.split("|"))
    """Relations that lead from a head to several tails of different kinds: a town is located in a county, in a state
    and in a country. They are followed from heads only to what the graph knows the kind of, so that it can be said."""
    excluded: tuple[str, ...] = ("instance of", "subclass of", "occupation", "sex or gender", "gender")
    """Relations that are not followed: kinds, which join nearly everything."""
    open_ended: tuple[str, ...] = tuple(OPEN_ENDED.split("|"))
    """Relations that lead from a tail to so many heads that two such facts say too little where chains meet: who was
    born in one town and died in another may be anybody. One of the two may be such a fact. Symmetric ones lead so from
    either end: a graph that lacks a country says nothing of whose neighbour it is."""
    symmetric: tuple[str, ...] = ("spouse", "unmarried partner", "partner", "sibling", "shares border with",
                                  "diplomatic relation", "twinned administrative body")  # fmt: skip
    """Relations that hold both ways, stated once or twice."""
    kinds: tuple[str, ...] = ("instance of",)
    """Relations that say what an entity is."""
    roles: tuple[str, ...] = ("occupation",)
    """Relations that say what a person does."""
    ends: tuple[str, ...] = ("year",)
    """Kinds that a path may begin or end in but not pass."""
    max_per_answer: int = 3
    """Paths to one answer."""
    max_attempts: int = 300
    """For one path of a given form, before another form is drawn."""
    max_counted: int = 100
    """How far `left_without` is counted."""

    def __post_init__(self) -> None:
        if not self.hops or not all(1 <= hops <= MOST_HOPS for hops in self.hops):
            raise InvalidInput(f"must be numbers from 1 to {MOST_HOPS}", field="hops")
        for name in ("intersections", "min_functionality"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput("must be from 0 to 1", field=name)
        for name, least in (("max_degree", 1), ("max_fan_out", 2), ("max_per_answer", 1), ("max_attempts", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(f"must be {least} or more", field=name)
        if self.max_counted < 2:
            raise InvalidInput("must be 2 or more", field="max_counted")
