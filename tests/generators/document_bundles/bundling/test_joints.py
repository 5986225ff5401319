"""What two documents tell of one name: a sentence of each, by what the other document does not have."""

from __future__ import annotations

import pytest

from trailforge.generators.document_bundles.bundling.joints import DocumentNames, Joint, joints

RELEASE = DocumentNames.of(
    "A yard burns", "Mara Lind spoke in Visby. The yard of Mara Lind is old.\n\nMara Lind sold it in 1911 to Norlin."
)
REPORT = DocumentNames.of("A bill", "The bill lends $4 million, said Mara Lind. Visby waits for 2 ships of Norlin.")


def test_a_joint_has_the_sentence_of_either_side_that_tells_most_of_its_own() -> None:
    assert joints(RELEASE, REPORT, ["mara lind"]) == [
        Joint(1, "mara lind", "Mara Lind sold it in 1911 to Norlin.", "The bill lends $4 million, said Mara Lind.")
    ]


@pytest.mark.parametrize("name", ["visby", "lind sold", "mara", "orkney"])
def test_where_one_side_tells_nothing_of_its_own_there_is_no_joint(name: str) -> None:
    told = joints(DocumentNames.of("", "Visby waits. Mara stays. The yard."), REPORT, [name])
    assert told == []


def test_a_name_is_found_in_whole_words_whatever_the_case() -> None:
    first = DocumentNames.of("", "NORLIN lost 3 ships.")
    assert [joint.name for joint in joints(first, REPORT, ["norlin", "lin"])] == ["norlin"]


def test_many_marks_of_one_sentence_count_as_eight() -> None:
    listed = DocumentNames.of("", "Norlin has Ada, Bea, Cia, Dan, Eva, Finn, Gil, Hal, Ivo and Jon.")
    also = DocumentNames.of("", "Norlin has Kim, Leo, Mia, Nan, Ola, Per, Rut, Sam, Tom and Uno.")
    assert [joint.weight for joint in joints(listed, also, ["norlin"])] == [8]
