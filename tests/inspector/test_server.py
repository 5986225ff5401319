"""Who may reach the page, and where it listens."""

from __future__ import annotations

import socket

import pytest

from inspector.server import PASSWORD, check_port, check_reach
from schemas import InvalidInput, OutputError


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
