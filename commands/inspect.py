"""`trailforge inspect`: the curators' page over a run."""

from __future__ import annotations

import getpass
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from trailforge.commands.options import RunFolder
from trailforge.schemas import InvalidInput

EPILOG = """Examples:\n
    trailforge inspect datasets_out/demo\n
    trailforge inspect datasets_out/demo --port 8600 --who ann --no-open\n
    TRAILFORGE_INSPECT_PASSWORD=… trailforge inspect datasets_out/demo --host 0.0.0.0"""
_PAGE = Path(__file__).parent / "curators_page.py"


def inspect(
    folder: RunFolder,
    host: Annotated[str, typer.Option(help="Address to listen on; only loopback without a password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8501,
    who: Annotated[
        str | None, typer.Option(help="Name of who decides. Default: the user's; where others come in, the page asks.")
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front asks who people are; ask for no password.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Look at the rows of a finished or a running data set in a browser, and decide on them."""
    from trailforge.inspector.server import check_port, check_reach, is_shared, serve
    from trailforge.pipelines.runs.intake import read_settings

    if read_settings(folder) is None:
        raise InvalidInput("holds no run (no run.json)" if folder.is_dir() else "no such folder", file=folder)
    check_reach(host, is_behind_proxy=behind_proxy)
    check_port(host, port)
    if open_:
        address = f"[{host}]" if ":" in host else host
        threading.Timer(2.0, webbrowser.open, (f"http://{address}:{port}",)).start()
    if who is None:
        who = "" if is_shared(host, is_behind_proxy=behind_proxy) else getpass.getuser()
    serve(_PAGE, [str(folder.resolve()), who], host=host, port=port, is_behind_proxy=behind_proxy)


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("inspect", epilog=EPILOG)(inspect)
