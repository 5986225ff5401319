"""Configuration of which paths are wanted, and which of them make no question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trailforge.schemas import InvalidInput, KgShape, check_least

MOST_HOPS = 4
"""Most facts of a path whose starts are named."""
MOST_FACTS = 9
"""Most facts of a path, those that describe its starts counted."""
_FEWEST_TO_DESCRIBE = 2
CLOSED_LISTS = (
    "architect|author|child|commander|composer|creator|director|discoverer or inventor|founded by|librettist|"
    "people aboard|screenwriter|separates|sibling|spouse"
)
MANY_TAILS = (
    "award received|cast member|child|country of citizenship|diplomatic relation|discoverer or inventor|educated at|"
    "employer|ethnic group|field of work|founded by|genre|has part|industry|influenced by|instrument|"
    "languages spoken, written, or signed|languages spoken, written or signed|medical condition|member of|"
    "member of political party|member of sports team|movement|named after|narrative location|notable works|"
    "notable work|occupant|part of|people aboard|position held|practiced by|product or material produced|record label|"
    "residence|separates|shares border with|sibling|spouse|sport|student of|symptoms|time period|unmarried partner|"
    "use|uses|visited|cause of death|flows through|official language"
)
NEEDS_KIND = (
    "located in|located in the administrative territorial entity|located in the administrative terroritorial entity|"
    "location|part of|capital|highest point|home venue|longest river"
)
ONE_HEAD = "capital|first monarch|first president|highest point|home venue|longest river|mascot"
KIND_RELATIONS = "instance of|subclass of|occupation|sex or gender|gender"
PASSING = (
    "head of state|head of government|chief executive officer|chairperson|officeholder|manager/director|head coach|"
    "parent organization|parent organisation|owned by|operator|member of sports team|current member of|residence|"
    "airline hub|population"
)
DISPUTED = (
    "religion|religion or worldview|ethnic group|political ideology|movement|part of|time period|symptoms|practiced by"
)
PRIVATE = "unmarried partner|partner|significant person|relative|medical condition|sexual orientation|manner of death"
GONE = (
    "historical country|former country|former sovereign state|historical unrecognized state|historical period|"
    "ancient civilization"
)
PLACES = (
    "place of birth|place of death|place of burial|headquarters location|location of formation|formed in|"
    "place of detention|work location"
)
COARSE = (
    "country|state|nation|continent|province|region|county|republic|canton|department|prefecture|governorate|oblast"
)
TOWNS = (
    "city|town|village|municipality|commune|comune|metropolis|capital|borough|neighborhood|neighbourhood|district|area|"
    "settlement|suburb"
)
RANKS = (
    "capital|former capital|national capital|state capital|largest city|second largest city|megacity|county seat|"
    "state or insular area capital in the united states|district capital|border town|college town|"
    "tourist attraction|tourist destination|cultural property|landmark"
)
TELLS_ROLE = (
    "architect|author|cast member|commander|composer|creator|director|discoverer or inventor|editor|film editor|"
    "head of state|librettist|performer|producer|screenwriter|director of photography|lyrics by|voice actor"
)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a path: from the answer back, `stem` facts, then either a starting entity or two chains that meet, of
    as many facts as `branches` says.
    """

    stem: int
    branches: tuple[int, ...] = ()
    describing: int = 0
    """Number of further facts, by which its starts are described and not named."""

    @property
    def hops(self) -> int:
        """Return the number of facts in a path of this form."""
        return self.stem + sum(self.branches) + self.describing

    @property
    def shape(self) -> KgShape:
        """Return the shape of the paths of this form."""
        if not self.branches and not self.describing:
            return "chain"
        return "intersection" if self.branches and not self.stem else "intersection_inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class KgPathConfig:
    """Which paths are sampled from a graph. Relations are given by label, ignoring case, or by id. Raises
    `InvalidInput` for values out of range.
    """

    hops: tuple[int, ...] = (2, 3, 4)
    """Numbers of facts of a path, 1 to 9; all have equal shares. Every triple counts as one. Of five or more, one to
    four lead from the starts to the answer, and by all others starts are described and not named, one after another."""
    spare_hops: tuple[int, ...] = ()
    """Numbers of facts of the paths that are taken where the graph has no more of `hops`."""
    intersections: float = 0.4
    """Share of paths in which two chains meet, among those of two hops or more. See `share_out`."""
    blurred: float = 0.0
    """Share of paths of which one start is described, not named: two or three facts, true together of it alone in the
    graph, are put before the others, and it has to be found too."""
    max_degree: int = 200
    """Most triples of a bridge or an answer; an entity with more is a hub. Starts may have any number, as they are
    named."""
    max_fan_out: int = 50
    """Most entities that a fact's relation may lead to from its known end."""
    min_functionality: float = 0.75
    """Smallest functionality of a relation that is to lead to one entity, in its direction: how many entities it leads
    from, over how many triples it has; 1 when it never leads to two."""
    min_triples: int = 10
    """Fewest triples of a relation that is to lead to one entity; fewer do not show how many it usually leads to."""
    max_guess: float = 0.1
    """Largest chance of guessing the answer from the relation of the last fact alone: the answer's share of its
    triples, or one over what it leads to in all. A continent is guessed."""
    min_kind_share: float = 0.01
    """Smallest share of a relation's triples whose end is of the kind that a fact's end has: a religion has no official
    language, whatever a triple says."""
    many_tails: tuple[str, ...] = tuple(MANY_TAILS.split("|"))
    """Relations that lead from a head to more tails than a graph knows: one known tail proves little. They are
    followed from heads only where chains meet."""
    closed_lists: tuple[str, ...] = tuple(CLOSED_LISTS.split("|"))
    """Relations of which a graph may know all tails of a head. Where chains meet, one of the two facts leads along such
    a list, and of all others on it the graph says something else in the place of the other fact: what it lacks proves
    nothing. A country of today and one of the past are no list, and do not meet."""
    tells_apart: tuple[str, ...] = ("cast member", "cause of death")
    """Relations with many tails that tell entities of a closed list apart all the same. Others of `many_tails` (genre,
    record label, instrument) do not meet with anything: an entity with one of them may have another."""
    closed_heads: tuple[str, ...] = ()
    """Relations of which a graph has all heads of a tail, as all films of a director; none, unless it is whole."""
    one_head: tuple[str, ...] = tuple(ONE_HEAD.split("|"))
    """Relations that lead from a tail to one head in the world too. No others are followed from tails, but where
    chains meet: that a graph knows one film of a director says more of the graph than of the director."""
    needs_kind: tuple[str, ...] = tuple(NEEDS_KIND.split("|"))
    """Relations that join a thing with several of different kinds: a town is located in a county, in a state and in a
    country. They are followed only to what the graph knows the kind of, so that it can be said."""
    places: tuple[str, ...] = tuple(PLACES.split("|"))
    """Relations that lead to a town or a building: a coarser place is what a graph has for want of better."""
    coarse: tuple[str, ...] = tuple(COARSE.split("|"))
    """Nouns of the kinds of such coarser places: a non-metropolitan county, a canton of Switzerland."""
    impersonal: tuple[str, ...] = ("location of formation", "formed in", "headquarters location", "inception")
    """Relations whose head is no person, though graphs have singers that were formed somewhere."""
    max_same: int = 1
    """Most facts of one relation in a path: nobody asks for the country of the country of a town."""
    excluded: tuple[str, ...] = tuple("|".join((KIND_RELATIONS, PASSING, DISPUTED, PRIVATE)).split("|"))
    """Relations that are not followed: kinds, which join nearly everything; what is over before a graph is read, as who
    heads an office; what sources dispute or leave vague; and what concerns people's private life."""
    symmetric: tuple[str, ...] = ("spouse", "unmarried partner", "partner", "sibling", "shares border with",
                                  "diplomatic relation", "twinned administrative body")  # fmt: skip
    """Relations that hold both ways, stated once or twice."""
    kinds: tuple[str, ...] = ("instance of",)
    """Relations that say what an entity is."""
    buildings: tuple[str, ...] = ("place of burial",)
    """Relations that lead to a building or a cemetery: a town is coarser."""
    towns: tuple[str, ...] = tuple(TOWNS.split("|"))
    """Nouns for the kinds of towns and of parts of towns."""
    ranks: tuple[str, ...] = tuple(RANKS.split("|"))
    """Kinds that say what part something plays, not what it is; they are told of entities that have no other kind."""
    roles: tuple[str, ...] = ("occupation",)
    """Relations that say what a person does; they are told of persons with a single occupation."""
    tells_role: tuple[str, ...] = tuple(TELLS_ROLE.split("|"))
    """Relations that say themselves what their tail does: a director who acts as well is no actor there."""
    ends: tuple[str, ...] = ("year",)
    """Kinds that a path may begin or end in but not pass."""
    gone: tuple[str, ...] = tuple(GONE.split("|"))
    """Kinds of things that are no more. They are named, but not found, as what was true of them is true of others
    today."""
    of_today: tuple[str, ...] = ("country",)
    """Relations of which what is no more does not count: a town is in the country that is there today."""
    max_per_found: int = 3
    """Most paths in which one entity is found, as the answer or a bridge."""
    max_per_answer: int = 1
    """Most paths with one answer, by its name."""
    max_pair_share: float = 0.05
    """Largest share of the wanted paths in which the same two relations stand; three paths are always allowed."""
    max_shared: float = 0.5
    """Largest share of the facts of either of two paths that both may have. 1: all, if one path has more beside."""
    by_heart: tuple[str, ...] = ()
    """Relations of which models know most facts by heart, as where cities lie: no path is of these alone."""
    known_share: float = 1.0
    """The least known entities are this share of all. A path has to rest on one of them (`query.Fame`), because a
    question about well-known ones is answered from memory. 1: it may rest on any."""
    choices: int = 1
    """Number of paths that are grown for one that is taken, which is the one that rests on the least known entities."""
    max_attempts: int = 300
    """Most attempts for one path of a given form, before another form is drawn."""
    max_counted: int = 100
    """Number up to which `left_without` counts."""

    def __post_init__(self) -> None:
        for name in ("hops", "spare_hops"):
            wanted = getattr(self, name)
            if not (wanted or name == "spare_hops") or not all(1 <= hops <= MOST_FACTS for hops in wanted):
                raise InvalidInput(f"must be numbers from 1 to {MOST_FACTS}", field=name)
        shares = ("intersections", "min_functionality", "max_guess", "min_kind_share", "max_shared", "max_pair_share",
                  "known_share", "blurred")  # fmt: skip
        for name in shares:
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput("must be from 0 to 1", field=name)
        counts = ("max_degree", "max_same", "max_per_found", "max_per_answer", "choices", "max_attempts")
        check_least(self, 1, *counts, must="must be")
        check_least(self, 2, "max_fan_out", "max_counted", must="must be")

    @property
    def shares(self) -> dict[Form, float]:
        """Return the share of each form among the wanted paths, which add up to 1. All numbers of hops have equal
        parts.
        """
        return _share_forms(self.hops, self.intersections)

    @property
    def spare_shares(self) -> dict[Form, float]:
        """Return the share of each form among the spare paths, which are taken where the graph has no more of the
        wanted ones.
        """
        return _share_forms(self.spare_hops, self.intersections)


def _share_forms(numbers: tuple[int, ...], intersections: float) -> dict[Form, float]:
    shares: dict[Form, float] = {}
    for facts in numbers:
        ways = [facts] if facts <= MOST_HOPS else range(1, min(MOST_HOPS, facts - _FEWEST_TO_DESCRIBE) + 1)
        for hops in ways:
            for form, share in _forms_of(hops, intersections).items():
                described = replace(form, describing=facts - hops)
                shares[described] = shares.get(described, 0.0) + share / len(numbers) / len(ways)
    return {form: share for form, share in shares.items() if share}


def _forms_of(hops: int, intersections: float) -> dict[Form, float]:
    """The forms of so many facts whose starts are named, with their shares."""
    met = intersections if hops > 1 else 0.0
    forms = {Form(hops): 1 - met}
    for stem in range(hops - 1):
        lengths = range(1, (hops - stem) // 2 + 1)
        for shorter in lengths:
            forms[Form(stem, (hops - stem - shorter, shorter))] = met / (hops - 1) / len(lengths)
    return forms


def share_out(shares: Mapping[Form, float], count: int) -> Counter[Form]:
    """Return how many of `count` paths each form gets: whole numbers by the method of largest remainders."""
    exact = {form: share * count for form, share in shares.items()}
    asked = Counter({form: int(number) for form, number in exact.items()})
    rest = sorted(
        exact, key=lambda form: (asked[form] - exact[form], form.hops, form.stem, form.branches, form.describing)
    )
    asked.update(rest[: count - asked.total()])
    return asked


def most_wanting(forms: list[Form], asked: Counter[Form], found: Counter[Form]) -> list[Form]:
    """Return the forms, among `forms`, of which most of the paths asked for are not found yet; when none lacks any,
    those whose number of hops was found least.
    """
    lacking = {form: asked[form] - found[form] for form in forms if found[form] < asked[form]}
    if not lacking:
        by_hops: Counter[int] = Counter()
        for form, number in found.items():
            by_hops[form.hops] += number
        lacking = {form: -by_hops[form.hops] for form in forms}
    most = max(lacking.values())
    return [form for form in forms if lacking.get(form) == most]
