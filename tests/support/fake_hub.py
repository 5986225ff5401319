"""A Hub in memory on a loopback port: what its client asks of it to make, read and commit to a data set repository."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_made_up_for_tests"
LARGE = (".parquet", ".png")
"""As in the Hub's `.gitattributes`: these are kept apart, by their SHA-256."""


@dataclass
class Repo:
    """A repository: its branches with their files, and its commits."""

    private: bool = False
    branches: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"main": {".gitattributes": b"*.parquet"}})
    commits: list[dict[str, Any]] = field(default_factory=list)

    def head(self, branch: str) -> str:
        """The last commit, as the client wants it: 40 hex digits."""
        told = [each for each in self.commits if each["branch"] == branch]
        return hashlib.sha1(f"{branch} {len(told)}".encode()).hexdigest()


@dataclass
class Hub:
    """What the server holds, and how it is to err."""

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    uploads: list[str] = field(default_factory=list)
    """SHA-256 of each large file that was sent."""
    requests: list[str] = field(default_factory=list)
    fail: dict[str, int] = field(default_factory=dict)
    """Status for requests whose path has this in it."""
    ignored: str = ""
    """Files with this in their names are left out of commits, as by a `.gitignore`."""


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A Hub that answers at its `url`."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        self.hub.requests.append(f"{method} /{'/'.join(parts)}")
        status = next((status for text, status in self.hub.fail.items() if text in self.path), None)
        if status is None and parts[0] != "large" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status = 401
        if status is not None:
            self._send(status, {"error": "made up"})
        elif parts[0] == "large":
            self.hub.large[hashlib.sha256(body).hexdigest()] = body
            self.hub.uploads.append(parts[1])
            self._send(200, {})
        elif parts[:2] == ["api", "validate-yaml"]:
            self._send(200, {"errors": [], "warnings": []})
        elif parts == ["api", "repos", "create"]:
            self._create(json.loads(body))
        elif parts[-3:] == ["lfs", "objects", "batch"]:
            self._send(200, {"transfer": "basic", "objects": [self._batch(o) for o in json.loads(body)["objects"]]})
        else:
            self._of_repo("/".join(parts[2:4]), parts[4:], body)

    def _create(self, asked: dict[str, Any]) -> None:
        assert asked["type"] == "dataset"
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.hub.repos:
            self._send(409, {"error": "already there", "url": f"{self.hub.url}/datasets/{name}"})
            return
        self.hub.repos[name] = Repo(private=asked.get("visibility") == "private")
        self._send(200, {"url": f"{self.hub.url}/datasets/{name}"})

    def _batch(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["oid"] in self.hub.large:
            return asked
        return asked | {"actions": {"upload": {"href": f"{self.hub.url}/large/{asked['oid']}"}}}

    def _of_repo(self, name: str, parts: list[str], body: bytes) -> None:
        repo = self.hub.repos.get(name)
        branch = parts[1] if len(parts) > 1 else "main"
        if repo is None or (branch not in repo.branches and parts[0] != "branch"):
            self._send(
                404, {"error": "not found"}, {"X-Error-Code": "RepoNotFound" if repo is None else "RevisionNotFound"}
            )
            return
        match parts[0] if parts else "info":
            case "info" | "revision":
                self._send(
                    200, {"id": name, "private": repo.private, "sha": repo.head(branch), "siblings": [], "tags": []}
                )
            case "branch":
                known = branch in repo.branches
                repo.branches.setdefault(branch, dict(repo.branches["main"]))
                self._send(409 if known else 200, {})
            case "tree":
                self._send(200, [_entry(path, content) for path, content in repo.branches[branch].items()])
            case "preupload":
                asked = json.loads(body)["files"]
                self._send(200, {"files": [_mode(each, self.hub.ignored) for each in asked]})
            case "commit":
                self._commit(repo, name, branch, [json.loads(line) for line in body.splitlines()])

    def _commit(self, repo: Repo, name: str, branch: str, lines: list[dict[str, Any]]) -> None:
        header, files = lines[0]["value"], repo.branches[branch]
        if header.get("parentCommit", repo.head(branch)) != repo.head(branch):
            self._send(412, {"error": "the branch has moved"})
            return
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            else:
                del files[value["path"]]
        repo.commits.append({"branch": branch, "summary": header["summary"], "lines": len(lines) - 1})
        oid = repo.head(branch)
        self._send(200, {"commitUrl": f"{self.hub.url}/datasets/{name}/commit/{oid}", "commitOid": oid})

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for key, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)


def _mode(asked: dict[str, Any], ignored: str) -> dict[str, Any]:
    is_ignored = bool(ignored) and ignored in asked["path"]
    mode = "lfs" if asked["path"].endswith(LARGE) else "regular"
    return {"path": asked["path"], "uploadMode": mode, "shouldIgnore": is_ignored, "oid": None}


def _entry(path: str, content: bytes) -> dict[str, Any]:
    """A file of a tree; a large one stands there by a pointer."""
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content)}
    if path.endswith(LARGE):
        digest = hashlib.sha256(content).hexdigest()
        return entry | {"oid": "0" * 40, "lfs": {"oid": digest, "size": len(content), "pointerSize": 130}}
    return entry | {"oid": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()}
