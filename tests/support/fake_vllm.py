"""Stands in for vLLM's server: takes its command line, starts a child as it does, and answers what we ask of it.

    python tests/support/fake_vllm.py serve MODEL --host 127.0.0.1 --port 8000 … [--fake die|mute|deaf|short|hang]

`die` ends at once with a log, `mute` never listens, `deaf` ignores a gentle end, `short` ends after a second, `hang`
answers nothing more after a second. It writes its process ids to the file FAKE_VLLM_PIDS, and its environment's names
beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """/health, /metrics, /v1/models."""

    model = ""

    hangs_at = float("inf")

    def do_GET(self) -> None:
        """Answer."""
        if time.monotonic() > self.hangs_at:
            time.sleep(600)
        models = json.dumps({"object": "list", "data": [{"id": self.model, "object": "model", "created": 0}]})
        sample = Path(__file__).with_name("vllm_metrics.txt")
        bodies = {"/health": "", "/v1/models": models, "/metrics": sample.read_text(encoding="utf-8")}
        body = bodies.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", "application/json" if self.path.startswith("/v1") else "text/plain")
        self.end_headers()
        self.wfile.write((body or "").encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests."""


def main() -> None:
    """Behave as asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fake", choices=["die", "mute", "deaf", "short", "hang"])
    asked, _ = parser.parse_known_args()
    print(f"loading {asked.model}", flush=True)
    if asked.fake == "die":
        print("Traceback: something deep", "RuntimeError: no accelerator", sep="\n", file=sys.stderr)
        sys.exit(3)
    if asked.fake == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pids = Path(os.environ["FAKE_VLLM_PIDS"])
    pids.with_suffix(".env").write_text("\n".join(sorted(os.environ)))
    pids.write_text(f"{os.getpid()} {engine.pid}")
    if asked.fake == "mute":
        time.sleep(600)
    Handler.model = asked.served_model_name or asked.model
    if asked.fake == "hang":
        Handler.hangs_at = time.monotonic() + 1
    if asked.fake == "short":
        threading.Timer(1.0, lambda: (print("RuntimeError: engine lost", flush=True), os._exit(1))).start()
    ThreadingHTTPServer((asked.host, asked.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
