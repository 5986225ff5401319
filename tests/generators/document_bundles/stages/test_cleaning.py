"""Cleaning on Beam: who is dropped and why, books that balance, and the same result as the pure functions in memory."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.pipelines.support import stage_run
from tests.support.bundling import exact_duplicates, near_duplicates
from tests.support.files import contents
from trailforge.generators.document_bundles.bundling.content import ContentConfig, judge_content
from trailforge.generators.document_bundles.bundling.duplicates import DuplicateConfig, exact_key, order_of, signature
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages.cleaning import (
    clean,
    line_keys,
    next_shards,
    normalise_document,
    repeated_lines,
)
from trailforge.pipelines.engine.progress import describe_steps, read_progress
from trailforge.pipelines.engine.shards import Shard, read_receipt, receipt_path
from trailforge.pipelines.runs.accounting import add_up, check_balance
from trailforge.schemas import InvalidInput, RejectedRow, SourceDocument, from_dict, read_rows, write_parquet

CONTENT = ContentConfig(min_words=20, min_characters=50)
TWINS = DuplicateConfig()
CONFIG = BundleRunConfig(content=CONTENT, duplicates=TWINS)
_WORDS = "the of and to a in is was for on that with by from tide mill gate rope bell sand kiln moss oak".split()
Decided = dict[str, tuple[str, str]]
"""Reason and detail of each rejected document, by id; "" of one that stays."""


def prose(seed: int, words: int = 60) -> str:
    """English enough to pass, and unlike any other."""
    rng = random.Random(seed)
    return " ".join(f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}{rng.randrange(50)}x" for _ in range(words // 2))


def document(number: int, text: str, *, source: str = "post", day: int | None = 1) -> SourceDocument:
    published = None if day is None else f"2025-03-{day:02d}"
    return SourceDocument(
        id=f"{source}:{number:03d}", source=source, kind="news", title=f"Title {number}", text=text, published=published
    )


def planted() -> list[SourceDocument]:
    """Ten sound documents, of which seven of one source have a footer, and one for each reason to drop one."""
    footer = "\nThis paper has been read at the harbour since 1871."
    sound = [document(n, prose(n) + (footer if n < 7 else "")) for n in range(7)]
    sound += [document(n, prose(n), source="journal") for n in range(7, 10)]
    words = prose(3).split()
    return [
        *sound,
        replace(document(20, prose(0).upper(), day=2, source="journal"), title="TITLE 0!"),
        replace(document(21, prose(7), day=None), title="title 7"),
        document(22, " ".join([*words[:30], "changed", *words[31:]]), day=9),
        document(23, "The gate was shut."),
        document(24, " ".join(f"<td>{word}</td>" for word in prose(24).split())),
        document(25, "Die Mühle steht seit dem Morgen still, weil ein Boot in das Rad getrieben ist und die Feuerwehr "
                     "noch nicht sagen kann, wann der Strom wieder fließt, und niemand weiß warum."),
        document(26, " ".join(str(n) for n in range(100))),
    ]  # fmt: skip


WANTED = {
    "journal:020": ("exact_duplicate", "copy of post:000"),
    "post:021": ("exact_duplicate", "copy of journal:007"),
    "post:022": ("near_duplicate", "copy of post:003"),
    "post:023": ("too_few_words", "4 words, 18 characters (at least 20, 50)"),
    "post:024": ("markup", "62% is markup (at most 10%)"),
    "post:025": ("other_language", "0% common words of en, 29% of de (at least 10%)"),
    "post:026": ("few_letters", "0% letters (at least 60%)"),
}


def shards_of(folder: Path, documents: Sequence[SourceDocument], size: int) -> list[Shard]:
    """The documents as the intake leaves them."""
    (folder / "inputs").mkdir(parents=True)
    shards: list[Shard] = []
    for first in range(0, len(documents), size):
        batch = documents[first : first + size]
        shard = Shard(
            name=f"part-{len(shards):05d}", input=f"inputs/{len(shards)}.parquet", first=first, rows=len(batch)
        )
        write_parquet(folder / shard.input, SourceDocument, batch)
        shards.append(shard)
    return shards


def cleaned(folder: Path, documents: Sequence[SourceDocument], size: int) -> list[Shard]:
    shards = shards_of(folder, documents, size)
    clean(stage_run(folder, CONFIG, shards))
    return shards


def decided(folder: Path) -> Decided:
    kept = read_rows(sorted(folder.glob("documents/*.parquet")), SourceDocument)
    rejected = read_rows(sorted(folder.glob("rejected/*.parquet")), RejectedRow)
    return {row.id: ("", "") for row in kept} | {row.uid: (row.reason, row.detail) for row in rejected}


def in_memory(documents: Iterable[SourceDocument]) -> Decided:
    """What the pure functions say of the same documents."""
    documents = list(documents)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in documents:
        counts[each.source].update(line_keys(each.text))
    of_source = Counter(each.source for each in documents)
    repeated = {name: repeated_lines(found, of_source[name]) for name, found in counts.items()}
    found: Decided = {}
    fit: list[SourceDocument] = []
    for each in (normalise_document(each, repeated[each.source]) for each in documents):
        against = next((verdict for verdict in judge_content(each, CONTENT) if not verdict.keep), None)
        found[each.id] = (against.reason, against.detail) if against else ("", "")
        fit += [] if against else [each]
    for reason in ("exact_duplicate", "near_duplicate"):
        orders = {order_of(each.published, each.id): each for each in fit}
        if reason == "exact_duplicate":
            twins = exact_duplicates({order: exact_key(each.title, each.text) for order, each in orders.items()})
        else:
            twins = near_duplicates({order: signature(each.text) for order, each in orders.items()}, TWINS)
        found |= {copy: (reason, f"copy of {kept}") for copy, kept in twins.items()}
        fit = [each for each in fit if each.id not in twins]
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Shard]]:
    folder = tmp_path_factory.mktemp("cleaned")
    return folder, cleaned(folder, planted(), 6)


def test_each_dropped_document_is_kept_with_its_reason_and_its_twin(run: tuple[Path, list[Shard]]) -> None:
    found = decided(run[0])
    assert {uid: why for uid, why in found.items() if why[0]} == WANTED
    assert len(found) == len(planted())


def test_a_rejected_document_can_be_read_from_its_row(run: tuple[Path, list[Shard]]) -> None:
    given_ids = {each.id: each for each in planted()}
    for row in read_rows(sorted(run[0].glob("rejected/*.parquet")), RejectedRow):
        again = from_dict(SourceDocument, json.loads(row.payload))
        assert again == normalise_document(given_ids[row.uid], line_keys(given_ids["post:000"].text.split("\n")[1]))
        assert row.stage == {"exact_duplicate": "exact_duplicates", "near_duplicate": "near_duplicates"}.get(
            row.reason, "content"
        )


def test_the_books_balance_stage_by_stage(run: tuple[Path, list[Shard]]) -> None:
    folder, shards = run
    lines = add_up(read_receipt(folder, shard).stages for shard in shards)
    check_balance(lines)
    assert [(line.name, line.inputs, line.accepted) for line in lines] == [
        ("content", 17, 13),
        ("exact_duplicates", 13, 11),
        ("near_duplicates", 11, 10),
    ]


def test_a_line_that_a_source_repeats_is_gone_and_another_source_keeps_its_own(tmp_path: Path) -> None:
    footer = "\nA fixed line under every text."
    few, many = (source_with(footer, source, count) for source, count in (("journal", 4), ("post", 6)))
    cleaned(tmp_path, [*few, *many], 100)
    kept = list(read_rows(sorted(tmp_path.glob("documents/*.parquet")), SourceDocument))
    assert len(kept) == 10
    assert {row.source for row in kept if footer in row.text} == {"journal"}


def source_with(footer: str, source: str, count: int) -> list[SourceDocument]:
    return [document(n, prose(n + 100 * len(source)) + footer, source=source) for n in range(count)]


@settings(max_examples=2)
@given(st.randoms(use_true_random=False), st.integers(1, 30))
@example(random.Random(0), 1)
def test_neither_order_nor_shard_size_decides_anything(rng: random.Random, size: int) -> None:
    documents = chained()
    rng.shuffle(documents)
    with TemporaryDirectory() as folder:
        cleaned(Path(folder), documents, size)
        found = decided(Path(folder))
    assert found == in_memory(documents) == in_memory(chained())
    for twin in (detail.removeprefix("copy of ") for reason, detail in found.values() if "duplicate" in reason):
        while found[twin][0]:
            assert "duplicate" in found[twin][0], "a copy of what was unfit is no copy"
            twin = found[twin][1].removeprefix("copy of ")


def chained() -> list[SourceDocument]:
    """Beside the planted ones a chain of versions, each near the next, and copies of one that is itself dropped."""
    words = prose(50, 80).split()
    chain = []
    for step in range(5):
        words = [*words[: 8 * step], f"new{step}", f"word{step}", *words[8 * step + 2 :]]
        chain.append(document(40 + step, " ".join(words), day=10 - step))
    copy = replace(document(60, chain[0].text, source="journal", day=20), title=chain[0].title)
    return [*planted(), *chain, copy]


def test_what_is_cleaned_is_not_cleaned_again_and_a_lost_shard_comes_back_byte_for_byte(tmp_path: Path) -> None:
    shards = cleaned(tmp_path, planted(), 5)
    before, rows = contents(tmp_path), rows_of(tmp_path)
    clean(stage_run(tmp_path, CONFIG, shards))
    assert contents(tmp_path) == before
    lost = shards[1].name
    receipt_path(tmp_path, shards[1]).unlink()
    (tmp_path / "documents" / f"{lost}.parquet").unlink()
    clean(stage_run(tmp_path, CONFIG, shards))
    assert rows_of(tmp_path) == rows


def rows_of(folder: Path) -> dict[str, str]:
    """Every file by its hash but those that count."""
    return {path: digest for path, digest in contents(folder).items() if not path.startswith("progress/")}


def test_it_counts_documents_step_by_step_before_a_shard_is_finished(run: tuple[Path, list[Shard]]) -> None:
    """Those that were judged, and of them those that are no exact copies: what a search among all of them goes over."""
    assert describe_steps(read_progress(run[0])) == "read 17, judged 17, compared 11"


def test_the_next_shards_are_those_of_documents_that_stay(tmp_path: Path) -> None:
    shards = cleaned(tmp_path, [document(1, "short"), document(2, "short too"), *planted()[:3]], 2)
    following = next_shards([read_receipt(tmp_path, shard) for shard in shards], "embed")
    assert [(shard.name, shard.input, shard.first, shard.rows) for shard in following] == [
        ("part-00001-embed", "documents/part-00001.parquet", 0, 2),
        ("part-00002-embed", "documents/part-00002.parquet", 2, 1),
    ]


def test_an_input_that_cannot_be_read_is_named_as_it_is(tmp_path: Path) -> None:
    shards = shards_of(tmp_path, planted(), 6)
    (tmp_path / shards[1].input).write_text("no Parquet")
    with pytest.raises(InvalidInput, match=r"1\.parquet"):
        clean(stage_run(tmp_path, CONFIG, shards))
    assert not list(tmp_path.glob("shards/*.json"))
