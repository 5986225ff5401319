"""Servers by name: a URL is taken as it is, a name is a plug-in's."""

from __future__ import annotations

import pytest

from trailforge.inference.packaged import SERVERS, open_server
from trailforge.schemas import InvalidInput
from trailforge.schemas.plugins import installed_plugins
from trailforge.small_model.server import EmbeddedServer


def test_a_url_needs_no_server_of_ours() -> None:
    with open_server("http://127.0.0.1:9/v1") as url:
        assert url == "http://127.0.0.1:9/v1"


def test_a_name_is_served_while_the_block_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(EmbeddedServer, "start", lambda self: events.append("start"))
    monkeypatch.setattr(EmbeddedServer, "stop", lambda self: events.append("stop"))
    with open_server("embedded") as url:
        assert url.startswith("http://127.0.0.1:") and events == ["start"]
    assert events == ["start", "stop"]


def test_a_name_that_nobody_brings_is_refused_with_those_that_there_are() -> None:
    assert "embedded" in installed_plugins(SERVERS)
    with pytest.raises(InvalidInput, match="'elsewhere' is not one of embedded"), open_server("elsewhere"):
        pass
