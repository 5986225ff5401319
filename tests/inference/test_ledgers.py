"""Which ledger a run has, and where its password may come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from trailforge.inference.ledgers import (
    PASSWORD_VARIABLE,
    URL_VARIABLE,
    check_ledger,
    check_ledger_url,
    ledger_url,
    open_ledger,
)
from trailforge.inference.ledgers.postgres import PostgresLedger
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.schemas import InvalidInput, OutputError

URL = "postgresql://forger@db.example:5433/calls"


def test_a_url_names_a_shared_ledger_and_nothing_a_file(tmp_path: Path) -> None:
    assert isinstance(open_ledger("", tmp_path / "calls.sqlite"), SqliteLedger)
    shared = open_ledger(URL, tmp_path / "calls.sqlite")
    assert isinstance(shared, PostgresLedger) and shared.where == "db.example:5433/calls"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    ["postgresql://forger:hunter2@db/calls", "postgresql://db/calls?password=hunter2", "postgresql://u:@db/calls"],
)
def test_a_configured_url_with_a_password_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidInput, match=PASSWORD_VARIABLE) as caught:
        check_ledger_url(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite:///calls", "calls.sqlite", "postgresql://db", "postgresql://db:port/calls"])
def test_another_kind_of_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="postgresql://user@host:5432/database"):
        check_ledger_url(url)


def test_the_environment_goes_over_the_preset_and_loses_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ledger_url(URL) == URL and ledger_url("") == ""
    monkeypatch.setenv(URL_VARIABLE, "postgresql://forger:hunt%40er2@other/calls?sslmode=require")
    assert ledger_url(URL) == "postgresql://forger@other/calls?sslmode=require"
    shared = open_ledger(ledger_url(URL), Path())
    assert isinstance(shared, PostgresLedger) and shared._password == "hunt@er2"
    monkeypatch.setenv(PASSWORD_VARIABLE, "another")
    shared = open_ledger(ledger_url(URL), Path())
    assert isinstance(shared, PostgresLedger) and shared._password == "another"


@pytest.mark.parametrize("url", ["mysql://u:hunter2@db/calls", "postgresql://u@db/calls?password=hunter2"])
def test_a_wrong_url_of_the_environment_names_the_variable_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(URL_VARIABLE, url)
    with pytest.raises(InvalidInput, match=URL_VARIABLE) as caught:
        ledger_url("")
    assert "hunter2" not in str(caught.value)


async def test_a_shared_ledger_is_looked_for_before_a_run() -> None:
    await check_ledger("")
    with pytest.raises(OutputError, match=r"127\.0\.0\.1:9/calls"):
        await check_ledger("postgresql://forger@127.0.0.1:9/calls")
