"""The matcher: which answers are right, which texts have an answer, and what holds for all of them."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rewards import (
    is_near_miss,
    mcts_reward,
    mentions,
    normalize_answer,
    other_names,
    same_answer,
    score_answer,
    states,
)
from trailforge.rewards.figures import spell_in_figures
from trailforge.rewards.names import company_names
from trailforge.rewards.reading import fold, name_key
from trailforge.rewards.targets import right_names

NATIONS = files("trailforge.rewards").joinpath("nations.txt").read_text(encoding="utf-8")
PIECES = st.sampled_from(
    [*"12 twelve 12th not no or and Paris Rome 23,597 3.12 CSU (CSU) May 7 2012 $4.3B million São U.S. the , .".split()]
)
TEXTS = st.lists(PIECES, max_size=7).map(" ".join) | st.text(max_size=20)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("12th", "12th most populous in the United States"),
        ("12th", "12th in the United States"),
        ("12th", "12"),
        ("12th", "twelfth"),
        ("12", "Twelve"),
        ("21st", "twenty-first"),
        ("12", "12 or twelve"),
        ("1234", "1,234"),
        ("2,500,000", "2.5 million"),
        ("205", "two hundred and five"),
        ("5 years", "five years"),
        ("5 years", "5"),
        ("$4.3B", "4.3 billion dollars"),
        ("World War 2", "World War Two"),
        ("120", "120 km/h"),
        ("February 7, 2018", "Feb 7, 2018"),
        ("February 7, 2018", "on 7 February 2018"),
        ("February 7, 2018", "2018-02-07"),
        ("February 2018", "7 February 2018"),
        ("1944", "6 June 1944"),
        ("1944", "June 6, 1944"),
        ("São Paulo", "Sao Paulo"),
        ("SD^2", "SD²"),
        ("SD$^{2}$", "SD2"),
        ("US", "U.S."),
        ("acid-house", "acid house"),
        ("California State University (CSU)", "CSU"),
        ("California State University (CSU)", "California State University"),
        ("CSU", "California State University (CSU)"),
        ("Paris", "Paris, France"),
        ("Paris", "Paris, the capital and largest city of France"),
        ("War and Peace", "War and Peace"),
        ("NBC", "NBC, not CBS"),
        ("NBC", "not CBS but NBC"),
        ("CBS", "CBS rather than NBC"),
        ("1944", "not until 1944"),
        ("French", "France"),
        ("United States", "American"),
        ("United States", "the USA"),
        ("U.S.", "United States military"),
        ("Netherlands", "Dutch"),
        ("Tisch", "New York University's Tisch School of the Arts"),
        ("Jeanne de Bar, Countess of Marle and Soissons", "Jeanne de Bar"),
        ("Philip II, Duke of Burgundy", "Philip II, Duke of Burgundy"),
        ("Metropolis (1927 film)", "Metropolis"),
        ("Tumi Holdings, Inc.", "Tumi Inc."),
        ("Tumi Holdings, Inc.", "Tumi Holdings"),
        ("Tumi", "Tumi Inc."),
        ("Paramount Pictures Corporation", "Paramount Pictures"),
        ("Nestlé S.A.", "Nestle"),
        ("1944", "since 1944"),
        ("before 953", "before 953"),
        ("yes", "Yes, both are Danish"),
        ("no", "No, they are not"),
        ("unknown", "Unknown"),
        ("21.5%", "21.5%, up from 12.3%"),
        ("21.5%", "21.5% against 12.3% of the baseline"),
        ("21.5%", "21.5% in 2024"),
        ("120 km/h", "120 km/h, 75 mph"),
        ("12", "12 in total, 5 in Europe"),
        ("Bengali and Marathi", "Yes, Bengali and Marathi"),
        ("Bengali and Marathi", "In Nepal, Bengali and Marathi"),
        ("Bengali and Marathi", "Bengali and Marathi, both in India"),
        ("Film and Television Institute of India", "Film and Television Institute of India, Pune"),
        ("Washington, D.C.", "Washington, D.C., USA"),
        ("Springfield", "Springfield, Sangamon County, Illinois, USA"),
        ("Illinois", "Chicago, Illinois, USA"),
        ("United States", "Portland, Oregon, United States"),
    ],
)
def test_right_answers_are_right(gold: str, answer: str) -> None:
    assert mcts_reward(answer, ["elsewhere", gold]) == 1.0
    assert same_answer(answer, gold) and same_answer(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("12", "Not 12"),
        ("12", "12 or 13"),
        ("12", "12, 13"),
        ("12", "12-13"),
        ("12", "more than 12"),
        ("12", "over 12"),
        ("12", "at least 12"),
        ("5", "up to 5"),
        ("953", "before 953"),
        ("1944", "shortly after 1944"),
        ("February 7, 2018", "before February 7, 2018"),
        ("France", "Danish"),
        ("India", "Indian Ocean"),
        ("Germany", "East German troops"),
        ("Niger", "Nigerian"),
        ("The Darjeeling Limited", "The Darjeeling"),
        ("Virginia Company", "Virginia"),
        ("Apple Inc.", "Apple Corps"),
        ("Tumi Holdings, Inc.", "Tommy Inc."),
        ("Reno NV", "Reno"),
        ("France", "not French"),
        ("France", "French and Danish"),
        ("Jeanne de Bar, Countess of Marle", "Jeanne de Bar, Duchess of York"),
        ("acid (HCl)", "base"),
        ("p53 (mutant)", "p53 of wild type, not the mutant"),
        ("yes", "yes no"),
        ("no", "yes and no"),
        ("1998", "1998 to 2000"),
        ("12", "3.12"),
        ("312", "3.12"),
        ("12", "2012"),
        ("23", "23,597 students"),
        ("2.5", "2.5 million"),
        ("5", "-5"),
        ("7", "7 May 2012"),
        ("February 7, 2018", "2018"),
        ("February 7, 2018", "February 2018"),
        ("February 7, 2018", "February 8, 2018"),
        ("February 7, 2018", "February 7, 2018 or February 8, 2018"),
        ("February 7, 2018", "not February 7, 2018"),
        ("6 June 1944", "1944"),
        ("Paris", "Paris, London and Rome"),
        ("Paris", "London, Paris and Rome"),
        ("Paris", "London and Paris"),
        ("Paris", "Paris or London"),
        ("Paris", "Paris & London"),
        ("France", "Paris, the capital of France"),
        ("Oslo", "Oslo's harbour"),
        ("CBS", "no longer CBS"),
        ("CBS", "NBC, not CBS"),
        ("CBS", "CBS is not the network"),
        ("CBS", "CBS isn't the network"),
        ("no", "no longer"),
        ("no", "Yes"),
        ("12", "unknown"),
        ("105", "10^5"),
        ("not specified", "not mentioned in the passages"),
        ("CSU", "USC"),
        ("Bengali and Marathi", "Hindi, Bengali and Marathi"),
        ("Bengali and Marathi", "the languages are Hindi, Bengali and Marathi"),
        ("Bengali and Marathi", "Bengali, Hindi and Marathi"),
        ("Bengali and Marathi", "Bengali and Marathi, Hindi"),
        ("Tom, Dick and Harry", "Bill, Tom, Dick and Harry"),
        ("apples, pears", "plums, apples, pears"),
        ("21.5%", "21.5%, 12.3%, 14.8%"),
        ("21.5%", "12.3%, 21.5%"),
        ("21.5%", "On GSM8K 21.5%, HotPotQA 12.3%"),
        ("21.5%", "21.5% on GSM8K, 12.3% on HotPotQA"),
        ("21.5%", "21.5 percent, 12.3"),
        ("$5 million", "$3 million, $5 million"),
        ("12", "12 in 2019, 14 in 2020"),
        ("Paris", "London, Rome, Paris"),
        ("Paris", "London, Paris, Rome"),
        ("Paris", "Paris, London, Rome, Berlin"),
        ("Paris", "Paris, London & Rome"),
        ("France", "Germany, France"),
        ("France", "France, Germany"),
    ],
)
def test_wrong_answers_are_wrong(gold: str, answer: str) -> None:
    assert mcts_reward(answer, [gold]) == 0.0


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("France", {"French Republic", "French", "France"}),
        ("an American", {"United States", "America", "American"}),
        ("Liliom (1934 film)", {"liliom"}),
        ("Jeanne de Bar, the 3rd Countess of Marle", {"jeanne de bar"}),
        ("Tumi Holdings, Inc.", {"Tumi Holdings", "Tumi"}),
        ("The Darjeeling Limited", set()),
        ("Inc.", set()),
        ("Paris, Texas", set()),
        ("Louis, Duke of Orléans", set()),
        ("Philip II, Duke of Burgundy", set()),
        ("p53 (mutant)", set()),
        ("54 (film)", set()),
        ("London, Paris and Rome", set()),
        ("", set()),
        ("a film of France", set()),
        ("(" * 150 + "x (film", set()),
    ],
)
def test_only_whole_names_go_by_others(text: str, names: set[str]) -> None:
    found = set(other_names(text))
    assert names <= found if names else not found


FORMS = (
    "Inc.|Inc|Ltd|Ltd.|Corp.|Corporation|PLC|plc|P.L.C.|S.A.|SA|S.p.A.|SpA|GmbH|AG|KGaA|N.V.|B.V.|GmbH & Co. KG"
    "|SE & Co. KGaA|Pty Ltd|Pty. Limited|(Pty) Ltd|Pte Ltd|Pvt. Ltd.|Private Limited|Co.|Co. Ltd.|Co Ltd|& Co."
    "|& Company|and Company|LLC|L.L.C.|LLP|A/S|AB|ASA|Oyj|Sdn Bhd|K.K.|S.A. de C.V.|S.r.l.|PJSC"
).split("|")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("core", ["Tumi", "Globex", "Ann & Bob", "Bank of Graz", "Nestlé", "4 Seasons"])
@pytest.mark.parametrize("between", [" ", ", "])
def test_a_company_goes_without_its_legal_form_whatever_that_is(core: str, form: str, between: str) -> None:
    name = f"{core}{between}{form}"
    assert core in other_names(name), name
    assert mcts_reward(core, [name]) == mcts_reward(name, [core]) == mcts_reward(f"{core} Inc.", [name]) == 1.0
    assert not mcts_reward(f"{core} Bros", [name])


@pytest.mark.parametrize(
    "name",
    [
        "The Limited",
        "The Darjeeling Limited",
        "Inc.",
        "& Co.",
        "The Company",
        "The Co.",
        "Saving Private",
        "Virginia Company",
        "Georgia, Inc.",
        "Holdings",
        "blood type AB",
        "iPhone SE",
        "The Marshall Mathers LP",
        "Ltd.",
        "The Inc.",
        "AG",
    ],
)
def test_what_is_the_name_itself_or_would_leave_nothing_stays(name: str) -> None:
    assert company_names(name) == ()


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("The Limited, Inc.", ("The Limited",)),
        ("Limited Brands, Inc.", ("Limited Brands",)),
        ("Virginia Company, Ltd.", ("Virginia Company",)),
        ("Tumi Holdings, Inc.", ("Tumi Holdings", "Tumi")),
        ("Group, Ltd.", ("Group",)),
        ("The Group Ltd", ("The Group",)),
    ],
)
def test_more_than_the_legal_form_goes_only_where_a_name_is_left(name: str, names: tuple[str, ...]) -> None:
    assert company_names(name) == names


@given(
    st.lists(st.sampled_from([*"The Limited Company Holdings & and Co. Inc. AG Tumi , Ltd Private".split()])).map(
        " ".join
    )
)
def test_no_name_of_a_company_is_empty_or_longer_than_it_was(name: str) -> None:
    for each in company_names(name):
        assert name_key(each) and len(each) < len(name) and name.startswith(each)


def test_a_nation_name_means_one_nation() -> None:
    """Or a lookup would depend on the order of the lines."""
    names = [fold(n.strip()) for line in NATIONS.splitlines() for n in re.split("[:/]", line)]
    assert len(names) == len(set(names)) > 400


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("Montreal, Quebec", "Montreal", 1.0),
        ("Montreal, Quebec", "Montréal", 1.0),
        ("Claygate, Surrey, England", "Claygate", 1.0),
        ("Paris, France", "Paris", 1.0),
        ("Springfield, Illinois", "Springfield", 1.0),
        ("Peoria, Illinois", "Springfield", 0.0),
        ("Springfield, Illinois", "Springfield, Ohio", 0.0),
        ("Springfield, Illinois", "Illinois", 0.0),
        ("Springfield, Illinois", "Springfield or Peoria", 0.0),
        ("Springfield, Illinois", "Springfield and Peoria", 0.0),
        ("Springfield, Illinois", "not Springfield", 0.0),
        ("Springfield, Illinois", "The Simpsons live in Springfield", 0.0),
        ("Paris, Texas", "Paris", 0.0),
        ("London, Ontario, Canada", "London", 0.0),
        ("Quebec, Canada", "Quebec", 0.0),
        ("France, Germany", "France", 0.0),
        ("Oslo, Bergen", "Oslo", 0.0),
        ("Louis, Duke of Orléans", "Louis", 0.0),
        ("University of California, Berkeley", "University of California", 0.0),
        ("Ministry of Foreign Affairs, Kenya", "Ministry of Foreign Affairs", 0.0),
        ("1920, Kenya", "1920", 0.0),
    ],
)
def test_a_place_is_right_without_the_region_that_ends_the_gold_answer(gold: str, answer: str, right: float) -> None:
    """It pays as the gold answer's beginning: not the region, another place, or the name of a more famous one."""
    assert mcts_reward(answer, [gold]) == right


def test_an_answer_that_names_two_golds_is_right() -> None:
    assert mcts_reward("Vienna or Wien", ["Vienna", "Wien"]) == 1.0
    assert mcts_reward("Vienna or Wien", ["Vienna"]) == 0.0


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("23,597 students", "23", False),
        ("a rise of 3.12", "12", False),
        ("in 2012", "12", False),
        ("a campus of the CSU", "California State University (CSU)", True),
        ("California State University", "California State University (CSU)", True),
        ("2.5 million people", "2,500,000", True),
        ("aired on Feb 7, 2018, on CBS", "7 February 2018", True),
        ("aired on Feb 7, 2018, on CBS", "8 February 2018", False),
        ("the twelfth city", "12th", True),
        ("two hundred", "two", False),
    ],
)
def test_a_text_states_numbers_dates_and_short_names(text: str, answer: str, expected: bool) -> None:
    assert states(text, answer) is expected


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("Obama", "Barack Obama", True),
        ("CSU", "California State University", True),
        ("12 campuses or so", "over 12", True),
        ("NBC", "CBS", False),
        ("36%", "48%", False),
        ("less than 1 percent", "48%", False),
        ("280–275 BC", "323–272 BC", False),
        ("12 km", "15 km", False),
        ("48 percent of them", "48%", True),
        ("the city of", "a town of", False),
        ("not specified", "specified", False),
        ("", "CBS", False),
    ],
)
def test_a_near_miss_shares_a_name_a_number_or_initials(answer: str, gold: str, expected: bool) -> None:
    assert is_near_miss(answer, [gold]) is expected


def test_a_judge_raises_the_total_alone() -> None:
    plain, judged = score_answer("Obama", ["Barack Obama"]), score_answer("Obama", ["Barack Obama"], judged_right=True)
    assert (plain.total, judged.total) == (0.0, 1.0)
    assert (plain.exact_match, plain.f1) == (judged.exact_match, judged.f1)


@given(
    st.lists(st.integers(1, 10**6), min_size=2, max_size=3, unique=True),
    st.sampled_from(["{}%", "{} percent", "${}", "€{} million", "{} years", "{}.5 kg"]),
    st.sampled_from([", ", "; ", " and ", " / ", ", and ", " & "]),
)
def test_a_quantity_listed_with_another_in_its_unit_is_no_answer(numbers: list[int], form: str, separator: str) -> None:
    quantities = [form.format(number) for number in numbers]
    for gold in quantities:
        assert mcts_reward(gold, [gold]) == mcts_reward(f"It is {gold}", [gold]) == 1.0
        assert mcts_reward(separator.join(quantities), [gold]) == 0.0


@given(st.permutations(["Hindi", "Odia", "Bengali", "Marathi", "Tamil"]), st.integers(1, 4), st.booleans())
def test_a_longer_list_is_no_answer(names: list[str], size: int, is_first: bool) -> None:
    """Whether the other candidates stand before or behind the gold's names."""
    gold = list_names(names[:size])
    longer = list_names([*names[size:], *names[:size]] if is_first else names)
    assert mcts_reward(f"They are {gold}", [gold]) == 1.0
    assert mcts_reward(longer, [gold]) == 0.0
    assert mcts_reward(f"{names[4]}, {gold}", [gold]) == float(size == 1)  # "Paris, Texas" may say where it is


def list_names(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


@given(TEXTS, TEXTS)
def test_same_answer_is_symmetric(first: str, second: str) -> None:
    assert same_answer(first, second) == same_answer(second, first)
    assert same_answer(first, first)


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_mentions_what_stands_in_it_as_whole_words(before: str, answer: str, after: str) -> None:
    assert mentions(answer, answer) == bool(answer.strip())
    if normalize_answer(answer):  # of articles and signs alone nobody can say where they are the answer
        assert mentions(f"{before} {answer} {after}", answer)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_no_number_is_found_inside_another(number: int, other: int) -> None:
    for text in (f"it has {number:,} or so", f"it has {number}", f"{number}.5 of it"):
        is_said = number == other and ".5" not in text
        assert mentions(text, str(other)) == is_said
        assert states(text, str(other)) == is_said


@given(st.integers(0, 10**7))
def test_thousands_are_read_as_figures(number: int) -> None:
    assert spell_in_figures(fold(f"{number:,}")) == str(number)


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        ("northeastern Iran", "north-east of Iran", True),
        ("northeastern Iran", "in the north-east of Iran, near the border with Turkmenistan", True),
        ("in northeastern Iran", "north-eastern Iran", True),
        ("northeastern Iran", "Northeast Iran", True),
        ("northeastern Iran", "the north eastern part of Iran", True),
        ("the north-east of Iran", "northeastern Iran", True),
        ("south-west Ohio", "southwestern Ohio", True),
        ("northeastern Iran", "north-west of Iran", False),
        ("northeastern Iran", "northern Iran", False),
        ("northeastern Iran", "Iran", False),
        ("northeastern Iran", "not in the north-east of Iran", False),
        ("northeastern Iran", "north-east of Iraq", False),
        ("northeastern Boston", "north-east of Boston", False),
        ("North Korea", "northern Korea", False),
        ("Northeastern University", "Northeast University", False),
    ],
)
def test_a_corner_of_a_country_is_told_in_more_than_one_way(gold: str, answer: str, is_right: bool) -> None:
    """What lies north-east of a city is not in it."""
    assert bool(mcts_reward(answer, [gold])) is is_right
    names = right_names([gold])
    assert all(mcts_reward(name, [gold]) for name in names)
    assert not is_right or any(mentions(answer, name) for name in names), "the exported reward takes it, too"
