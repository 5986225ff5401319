"""Who may reach the page, and where it listens."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import socket
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from trailforge.inspector import server
from trailforge.inspector.server import PASSWORD, check_port, check_reach, is_shared, serve
from trailforge.inspector.showing import show_of, wanted_by
from trailforge.pipelines.runs.intake import Settings
from trailforge.schemas import InvalidInput, OutputError, to_dict


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_this_machine_alone_needs_nothing(host: str) -> None:
    check_reach(host, is_behind_proxy=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])
def test_others_need_a_password_or_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, "")
    with pytest.raises(InvalidInput, match=PASSWORD):
        check_reach(host, is_behind_proxy=False)
    check_reach(host, is_behind_proxy=True)
    monkeypatch.setenv(PASSWORD, "swordfish")
    check_reach(host, is_behind_proxy=False)


def test_a_port_in_use_is_said_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OutputError, match="give another --port"):
            check_port("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(OutputError, match=r"cannot listen on no\.such\.host"):
        check_port("no.such.host.invalid", 80)


_REPLACED = (
    ("streamlit.net_util", "get_external_ip"),
    ("streamlit.env_util", "is_repl"),
    ("streamlit.components.v2.manifest_scanner", "scan_component_manifests"),
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """What Streamlit is started with."""
    streamlit = pytest.importorskip("streamlit")
    flags: dict[str, Any] = {}
    monkeypatch.setattr(streamlit.App, "run", lambda app, config: flags.update(config))
    monkeypatch.setattr(sys, "argv", sys.argv)
    for module, name in _REPLACED:  # each is as it was after the test
        found = pytest.importorskip(module)
        monkeypatch.setattr(found, name, getattr(found, name))
    return flags


@pytest.mark.parametrize(
    ("host", "is_behind_proxy", "hosts"),
    [
        ("127.3.2.1", False, ["localhost", "127.0.0.1", "::1", "127.3.2.1"]),
        ("127.0.0.1", True, None),
        ("0.0.0.0", False, None),
    ],
)
def test_a_page_without_password_is_reached_by_the_names_of_this_machine(
    host: str, is_behind_proxy: bool, hosts: list[str] | None, started: Mapping[str, Any]
) -> None:
    serve(Path("page.py"), ["run", "ann"], host=host, port=8501, is_behind_proxy=is_behind_proxy)
    assert sys.argv == ["page.py", "run", "ann"] and started["server.address"] == host
    assert started.get("server.allowedHosts") == hosts
    assert is_shared(host, is_behind_proxy=is_behind_proxy) == (hosts is None)


def test_the_page_is_imported_ahead_of_its_first_visit(
    started: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: Queue[str] = Queue()
    monkeypatch.setattr(server, "import_module", imported.put)
    serve(Path("page.py"), [], host="127.0.0.1", port=8501, modules=["trailforge.inspector.page", "pandas"])
    assert [imported.get(timeout=60) for _ in range(2)] == ["trailforge.inspector.page", "pandas"]


def test_what_was_imported_is_not_looked_through_for_garbage_and_the_first_view_is_read_then(
    started: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: Queue[str] = Queue()
    monkeypatch.setattr(gc, "freeze", partial(done.put, "frozen"))
    serve(Path("page.py"), [], host="127.0.0.1", port=8501, then=partial(done.put, "read"))
    assert [done.get(timeout=60) for _ in range(2)] == ["frozen", "read"]


def test_no_package_is_searched_for_components_of_streamlit(
    started: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamlit.components.v2.component_manager import BidiComponentManager

    searched: list[bool] = []
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: searched.append(True) or [])
    BidiComponentManager().discover_and_register_components(start_file_watching=False)
    assert searched  # Streamlit by itself
    searched.clear()
    serve(Path("page.py"), [], host="127.0.0.1", port=8501)
    BidiComponentManager().discover_and_register_components(start_file_watching=False)
    assert not searched


def test_an_origin_elsewhere_makes_the_server_ask_nobody(
    started: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamlit import net_util
    from streamlit.web.server import server_util

    asked: list[str] = []
    monkeypatch.setattr(net_util, "_make_blocking_http_get", lambda url, timeout=1: asked.append(url))
    assert not server_util.is_url_from_allowed_origins("https://example.org") and asked  # Streamlit by itself
    asked.clear()
    serve(Path("page.py"), [], host="127.0.0.1", port=8501)
    assert not server_util.is_url_from_allowed_origins("https://example.org") and not asked


def test_what_a_runs_views_want_is_known_before_they_are_shown(tmp_path: Path) -> None:
    """Of a run what reads and describes its rows; of another folder what reads tables alone."""
    assert wanted_by(tmp_path) == ("pandas",)
    settings = Settings(
        dataset="mcts_trajectories", run_id="run", config_hash="", config="{}", sources=(), limit=None, shards=(),
        files=(), books=(),
    )  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(to_dict(settings)))
    _, module = wanted_by(tmp_path)
    assert vars(import_module(module))["SHOW"] is show_of("mcts_trajectories")
