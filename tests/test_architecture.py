"""The house held against its plan: who imports whom, what loads what, names, sizes, docstrings, and the lock.

Every check returns a list of `file:line: what is wrong`; a test fails with that list. `MAY_IMPORT` is the plan itself:
an edge that is not in it does not exist, so a new one is added here first, in one reviewed line.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib.metadata
import os
import re
import resource
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trailforge.protocols import PROTOCOLS
from trailforge.schemas.errors import EXTRAS

ROOT = Path(__file__).resolve().parent.parent

_KNOWLEDGE = frozenset({"schemas", "rows", "inference", "retrieval", "rewards"})
_MAKING = _KNOWLEDGE | {"presets", "protocols", "mcts", "filters", "pipelines", "evaluation"}
_STARTED = _KNOWLEDGE | {
    *(
        "presets",
        "protocols",
        "pipelines",
        "evaluation",
        "audit",
        "generators",
        "small_model",
        "curation",
        "launching",
        "training",
        "inspector",
    )
}
MAY_IMPORT: dict[str, frozenset[str]] = {
    "schemas": frozenset(),
    "rows": frozenset({"schemas"}),
    "presets": frozenset({"schemas"}),
    "rewards": frozenset({"schemas"}),
    "inference": frozenset({"schemas"}),
    "retrieval": frozenset({"schemas", "rows", "inference", "rewards"}),
    "protocols": _KNOWLEDGE,
    "mcts": frozenset({"schemas"}),  # see FILES_MAY_IMPORT
    "filters": _KNOWLEDGE | {"protocols", "mcts"},
    "pipelines": _KNOWLEDGE | {"presets", "filters"},
    "evaluation": _KNOWLEDGE | {"presets", "protocols", "mcts", "pipelines"},
    "audit": _KNOWLEDGE | {"mcts", "filters", "pipelines"},
    "generators": _MAKING,
    "small_model": _MAKING | {"generators"},
    "curation": frozenset({"schemas", "presets", "rewards", "pipelines"}),
    "launching": frozenset({"schemas", "presets", "inference", "pipelines"}),
    "training": _KNOWLEDGE | {"presets", "protocols", "pipelines", "evaluation", "launching"},
    "inspector": frozenset({"schemas", "rewards", "curation", "pipelines", "evaluation", "flows"}),
    "flows": _STARTED - {"inspector"},
    "commands": _STARTED | {"flows"},
    "cli": _STARTED | {"flows", "commands"},
}
"""Root packages (and `cli.py`) and the ones they may import. What is absent is forbidden."""

FILES_MAY_IMPORT: dict[str, frozenset[str]] = {f"mcts/{name}.py": _KNOWLEDGE for name in ("policy", "rollout")}
"""Files that may import more than their folder: the search knows no model, these bring it in."""

TO_TURN: dict[str, frozenset[str]] = {}
"""Edges that still run the wrong way, by file. This list only shrinks."""

NAMES_DATA_SETS: dict[str, frozenset[str]] = {}
"""Files that still spell a data set, and which. This list only shrinks."""

KNOWS_RECORDS: dict[str, frozenset[str]] = {}
"""Files of generic rooms that still import a record which one data set alone writes. This list only shrinks."""

GENERIC = (
    *("pipelines", "curation", "training", "inspector", "presets", "flows", "commands"),
    *("evaluation", "rewards", "retrieval", "protocols", "inference"),
)
"""Rooms that know data sets by their declarations alone. `filters` judges all records; `mcts` makes what one writes."""

ANYBODYS = frozenset({"Question", "SourceDocument"})
"""Inputs that `pipelines/sources` reads for whoever wants them."""

SEARCH_ONLY = frozenset(
    {
        *("mcts.plan", "mcts.tree", "mcts.inputs", "mcts.expansion"),
        *("mcts.contrasts", "mcts.search", "mcts.reflection"),
    }
)
"""These import schemas and each other alone; the model reaches them as callables."""

AT_HOME = {
    **dict.fromkeys(("apache_beam", "dask", "dask_jobqueue", "distributed"), "pipelines/engine"),
    **{"prefect": "flows", "openai": "inference"},
}
"""Distributions that one folder alone imports."""

HEAVY = frozenset(
    {"torch", "apache_beam", "prefect", "openai", "sentence_transformers", "transformers", "faiss", "sklearn"}
)
"""Modules that cost a second or more; loaded by the commands that need them."""

PROTOCOL_HOMES = ("protocols/", "presets/")
"""Where a protocol's name may stand as a literal; besides, a reward is called as its file, be it a protocol's name."""
NAMES_PROTOCOLS: frozenset[str] = frozenset()
"""Files that still spell one elsewhere. This list only shrinks."""

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400
MAX_SIBLINGS = 15
"""Python files in a folder, besides its `__init__.py`."""
MAX_SINGLE_IMPORTERS = 65
"""Product files that one other file alone imports: an idea cut in two. It only falls."""

CROWDED: dict[str, int] = {}
"""Folders that still hold more than `MAX_SIBLINGS`, and how many. This list only shrinks."""

HOMONYMS: dict[str, int] = {}
"""Public class names that several files still declare, and how many. This list only shrinks."""

MAX_DOOR_NAMES = 40
"""Names that a room's `__init__`, or that of a folder right inside it, gives out."""
WIDE: dict[str, int] = {"schemas": 185}
"""Doors that are wider, and how wide: no figure may be higher than what is measured.

Records, their errors and what reads and writes them are the language of all rooms.
"""

BESIDE_THE_DOOR: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("generators/mcts_trajectories", "mcts"): (
        ("search",),
        "The search is called as its file is, so that the door cannot give it out.",
    ),
    ("commands", "flows"): (
        (
            "execute",
            "nightly",
        ),
        "The run and the night are called as their files are, which prefect.yaml and programs name.",
    ),
    ("trailforge/api.py", "generators.mcts_trajectories"): (
        ("generate",),
        "`search` of the public API is this one step of this data set.",
    ),
    ("flows", "pipelines.runs"): (
        (
            "doctor",
            "doctor_search",
            "accounting",
            "config",
            "finish",
            "intake",
            "own_files",
            "packages",
            "stages",
            "status",
        ),
        "They are the list of a run's steps, and of the doctor's checks, each of which is a file there.",
    ),
    ("flows", "pipelines.engine"): (
        (
            "attempts",
            "cluster",
            "files",
            "log_lines",
            "model_stage",
            "progress",
            "runners",
            "shards",
            "worker_errors",
        ),
        "They start the engine: its cluster, runner, progress and receipts are no other room's affair.",
    ),
    ("curation", "pipelines.runs"): (
        (
            "finish",
            "stages",
            "accounting",
        ),
        "A curated set is a run that people finish: it writes the same end.",
    ),
    ("*", "pipelines.runs"): (("table_index",), "Finding rows in finished tables is a subject of its own."),
    ("*", "pipelines.show"): (
        (
            "common",
            "marks",
        ),
        "What the shows of data sets share: short names that say something beside their file's only.",
    ),
    ("*", "rewards"): (
        (
            "episode",
            "reading",
            "r_search",
            "dynasearcher",
        ),
        "A file per paper, with its parts and constants; how an answer is read is a subject of its own.",
    ),
    ("generators/document_bundles", "filters"): (
        (
            "bundles",
            "bundle_readings",
            "bundle_twins",
            "bundle_episodes",
            "answers",
        ),
        "They judge what this data set alone writes, and share its readings and twins.",
    ),
    ("generators/agent_trajectories", "filters"): (
        (
            "guesses",
            "facts",
            "readings",
        ),
        "They judge what this data set alone writes.",
    ),
    ("audit", "filters"): (
        (
            "grounding",
            "questions",
        ),
        "An audit asks the questions that filters ask, one by one.",
    ),
    ("*", "retrieval"): (("english",), "Lists of English words, for rules of small models and questions by rule."),
    ("generators/document_bundles", "retrieval"): (
        (
            "entities",
            "papers",
            "plan_tools",
            "threads",
        ),
        "Names, papers and plans of documents are read by this data set as its searches read them.",
    ),
    ("*", "inference"): (
        (
            "packaged",
            "judge",
        ),
        "The packaged models, and the judge, are subjects of their own.",
    ),
    ("commands", "pipelines.sources"): (("jsonl",), "`parse_columns` is the name of three readers of columns."),
    ("*", "protocols"): (
        (
            "environment",
            "result_filters",
            "nl_dag",
        ),
        "What agents search, how results are filtered, and plans are subjects of their own.",
    ),
    ("generators/document_bundles", "protocols"): (
        ("r_search",),
        "Its episodes are built by this protocol's plans, step by step.",
    ),
    ("curation", "pipelines"): (("curated",), "The declaration of curated sets, which this room makes."),
}
"""Inner modules that another room may import: (who, whose) -> (which, why). `*` is anybody. This list only shrinks."""
MAX_BESIDE = 19
MAX_BESIDE_MODULES = 53
"""Entries of that list, and modules in it: as many as there are."""

BESIDE_ROOMS = frozenset(
    {
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile"),
        *("pyproject.toml", "requirements.lock", "prefect.toml", "prefect.yaml", "cli.py"),
        *("benchmarks", "containers", "datasets_out", "docs", "locks", "sample_data", "tests", "trailforge"),
    }
)
"""What lies at the root beside the rooms; names with a dot before them are for tools."""

_NOT_OURS = {"tests", "build", "dist", "benchmarks", "trailforge"}
_FACE = "trailforge"
"""What is installed and imported; its rooms are links to those at the root."""


# What the tree holds


class Import(NamedTuple):
    """An import statement, resolved to the module it loads; our own without `trailforge.` before the room."""

    file: Path
    line: int
    module: str
    is_bare: bool = False
    """Whether one of our rooms is asked for by another name than `trailforge.<room>`."""
    asked: str = ""
    """The module that the statement names, where that is a door and `module` what lies behind it."""

    @property
    def top(self) -> str:
        """The root package or distribution."""
        return self.module.partition(".")[0]


def packages(root: Path) -> list[str]:
    """Names of the rooms at the root."""
    return sorted(path.parent.name for path in root.glob("[a-z]*/__init__.py") if path.parent.name not in _NOT_OURS)


def sources(root: Path) -> list[Path]:
    """Files of the root packages and the modules beside them."""
    files = [file for package in packages(root) for file in (root / package).rglob("*.py")]
    return sorted([*files, *root.glob("*.py")])


def with_face(root: Path) -> list[Path]:
    """`sources`, and what lies in `trailforge/` itself."""
    return [*sources(root), *sorted(path for path in (root / _FACE).glob("*.py") if not path.is_symlink())]


@functools.cache
def imports(root: Path, file: Path) -> tuple[Import, ...]:
    """All imports of a file, wherever they stand, those by name at run time included."""
    return tuple(_imports(root, file))


def _imports(root: Path, file: Path) -> Iterator[Import]:
    package = [_FACE, *file.relative_to(root).parent.parts]
    for node in nodes(file):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield loaded(root, file, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if id(node) in given_out(file):
                continue
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found = loaded(root, file, node.lineno, inner if is_module(root, inner) else base)
                yield found if is_module(root, inner) else behind(root, found, alias.name)
        elif isinstance(node, ast.Call) and name_of(node.func) in {"import_module", "__import__"} and node.args:
            named = node.args[0]
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                yield loaded(root, file, node.lineno, named.value)


def loaded(root: Path, file: Path, line: int, module: str) -> Import:
    """An import, `trailforge.` taken off."""
    inner = module.removeprefix(f"{_FACE}.")
    return Import(file, line, inner, module == inner and inner.partition(".")[0] in rooms(root))


@functools.cache
def given_out(file: Path) -> dict[int, tuple[str, str]]:
    """Name and home of what a door gives out, by the statement: it imports none of it."""
    if file.name != "__init__.py" or file.parent.name == _FACE:
        return {}
    blocks = [node for node in parse(file).body if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING"]
    found = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom) and block.orelse]
    return {id(node): (alias.name, node.module or "") for node in found for alias in node.names}


def behind(root: Path, asked: Import, name: str) -> Import:
    """An import of a name, from the file that holds it where a door is asked for it."""
    file = root.joinpath(*asked.module.split("."), "__init__.py")
    homes = dict(given_out(file).values()) if file.is_file() else {}
    home = homes.get(name, "").removeprefix(f"{_FACE}.")
    return asked._replace(module=home, asked=asked.module) if home else asked


@functools.cache
def rooms(root: Path) -> set[str]:
    """Names of the rooms and of the modules beside them."""
    return {*packages(root), *(file.stem for file in root.glob("*.py"))}


@functools.cache
def is_module(root: Path, dotted: str) -> bool:
    """Whether a name is a module of ours."""
    path = root.joinpath(*dotted.removeprefix(f"{_FACE}.").split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@functools.cache
def parse(file: Path) -> ast.Module:
    """The syntax tree of a file, which many checks read."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


@functools.cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All of its tree: to walk it takes longer than most of what is looked for."""
    return tuple(ast.walk(parse(file)))


def name_of(node: ast.expr) -> str:
    """Last part of a dotted name; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def where(root: Path, file: Path, line: int, what: str) -> str:
    """A line of a report."""
    return f"{file.relative_to(root).as_posix()}:{line}: {what}"


# The checks


def is_door(root: Path, module: str) -> bool:
    """Whether a module is one that other rooms may import: a room's `__init__`, or that of a folder right inside it."""
    parts = module.split(".")
    return len(parts) == 1 or (len(parts) == 2 and (root.joinpath(*parts) / "__init__.py").is_file())


def excuse_of(file: str, module: str) -> tuple[str, str] | None:
    """The line of `BESIDE_THE_DOOR` by which a file may import from an inner module of another room."""
    return next(
        (
            (importer, street)
            for (importer, street), (modules, _) in BESIDE_THE_DOOR.items()
            if (f"{file}/".startswith(f"{importer}/") or importer == "*")
            and module in {f"{street}.{each}" for each in modules}
        ),
        None,
    )


def inner_imports(root: Path) -> Iterator[tuple[Path, Import]]:
    """Imports of a room's inner modules by other rooms; `cli.py` is of the commands' room."""
    for file in with_face(root):
        home = file.relative_to(root).parts[0].removesuffix(".py").replace("cli", "commands")
        for each in imports(root, file):
            asked = each.asked or each.module
            if each.top in rooms(root) and each.top != home and not is_door(root, asked):
                yield file, each._replace(module=asked)


def past_the_door(root: Path) -> list[str]:
    """Imports of another room's inner modules, without an excuse."""
    return [
        where(root, file, each.line, f"{each.module} is an inner module; take its names from the room's __init__")
        for file, each in inner_imports(root)
        if excuse_of(file.relative_to(root).as_posix(), each.module) is None
    ]


def own_doors(root: Path) -> list[str]:
    """Names that a file takes from its own room's door: files of a room take from files, which makes no circle."""
    return [
        where(root, file, each.line, f"takes what {each.module} has from its own door, {each.asked}")
        for file in sources(root)
        for each in imports(root, file)
        if each.asked and f"{_dotted(root, file)}.".startswith(f"{each.asked}.")
    ]


def _dotted(root: Path, file: Path) -> str:
    return ".".join(file.relative_to(root).parent.parts)


def wide_doors(root: Path) -> list[str]:
    """Doors that give out too many names."""
    found = []
    for file in sources(root):
        limit = WIDE.get(_dotted(root, file), MAX_DOOR_NAMES)
        if len(given_out(file)) > limit:
            found.append(where(root, file, 1, f"{len(given_out(file))} names (at most {limit})"))
    return found


def borrowed_offers(root: Path) -> list[str]:
    """Names that a door gives out and that lie behind another one: each name has one door, that of its own room."""
    return [
        where(root, file, 1, f"{name} lies in {home}; its door is {door}")
        for file in sources(root)
        for name, home in given_out(file).values()
        if (door := door_of(root, home.removeprefix(f"{_FACE}."))) != _dotted(root, file)
    ]


def door_of(root: Path, module: str) -> str:
    """The door that a module lies behind: its room's, or that of the folder right inside the room."""
    room, _, rest = module.partition(".")
    inner = f"{room}.{rest.partition('.')[0]}"
    return inner if is_door(root, inner) else room


def forbidden_edges(root: Path) -> list[str]:
    """Imports of ours that the plan does not hold."""
    ours, found = rooms(root), []
    for file in sources(root):
        relative = file.relative_to(root)
        home = relative.parts[0].removesuffix(".py")
        if home not in MAY_IMPORT:
            found.append(where(root, file, 1, f"{home} is not in MAY_IMPORT"))
            continue
        allowed = FILES_MAY_IMPORT.get(relative.as_posix(), MAY_IMPORT[home]) | {home}
        allowed |= TO_TURN.get(relative.as_posix(), frozenset())
        for each in imports(root, file):
            if each.top in ours | {"tests", "benchmarks"} and each.top not in allowed:
                found.append(where(root, file, each.line, f"{home} must not import {each.module}"))
    return found


def bare_imports(root: Path) -> list[str]:
    """Imports of a room by its bare name, under which a folder of the user's may lie.

    Of tests and benchmarks those files are parsed in whose text there may be one: they are most of the tree.
    """
    named = rf"\b(?:from\s+|import\b[^\n]*?(?<![.\w]))(?:{'|'.join(sorted(rooms(root)))})\b"
    may_be = re.compile(rf"{named}|import_module|__import__")
    beside = [file for folder in ("tests", "benchmarks") for file in (root / folder).rglob("*.py")]
    return [
        where(root, file, each.line, f"say {_FACE}.{each.module}")
        for file in [*sources(root), *(each for each in beside if may_be.search(each.read_text(encoding="utf-8")))]
        for each in imports(root, file)
        if each.is_bare
    ]


def search_knows_a_model(root: Path) -> list[str]:
    """Imports by which plan, tree, search or reflection would see policy, rollout or what these import."""
    return [
        where(root, file, each.line, f"imports {each.module}")
        for file in (root / f"{module.replace('.', '/')}.py" for module in sorted(SEARCH_ONLY))
        if file.is_file()
        for each in imports(root, file)
        if each.top == "mcts" and each.module not in SEARCH_ONLY
    ]


def away_from_home(root: Path) -> list[str]:
    """Imports of Beam, Prefect or the OpenAI client outside of the one folder that knows them."""
    return [
        where(root, file, each.line, f"{each.module} is imported in {AT_HOME[each.top]}/ alone")
        for file in sources(root)
        for each in imports(root, file)
        if each.top in AT_HOME
        and not file.relative_to(root).as_posix().startswith(f"{AT_HOME[each.top]}/")
        and each.top not in TO_TURN.get(file.relative_to(root).as_posix(), ())
    ]


def do_fns_elsewhere(root: Path) -> list[str]:
    """DoFn classes outside of `pipelines/engine/pipeline.py`."""
    return [
        where(root, file, node.lineno, f"{node.name} is a DoFn; the one DoFn is in pipelines/engine/pipeline.py")
        for file in sources(root)
        if file.relative_to(root).as_posix() != "pipelines/engine/pipeline.py"
        for node in nodes(file)
        if isinstance(node, ast.ClassDef) and any(name_of(base).endswith("DoFn") for base in node.bases)
    ]


@functools.cache
def declarations() -> dict[str, str]:
    """Where each data set declares itself, by its name: the entry points of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["entry-points"]["trailforge.datasets"]


def named_data_sets(root: Path, file: Path) -> Iterator[tuple[int, str]]:
    """Line and data set of each string of the code that spells one, with hyphens or underscores.

    Docstrings, and the help and the examples of a command, are no code.
    """
    prose = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
    for node in nodes(file):
        is_shown = isinstance(node, ast.keyword) and node.arg in {"help", "epilog"}
        is_shown = is_shown or (isinstance(node, ast.Assign) and name_of(node.targets[0]).endswith("EPILOG"))
        if is_shown and isinstance(node, ast.keyword | ast.Assign):
            prose |= {id(each) for each in ast.walk(node.value)}
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            text = node.value.replace("-", "_")
            yield from ((node.lineno, name) for name in declarations() if re.search(rf"(?<!\w){name}(?!\w)", text))


def data_sets_spelled(root: Path) -> list[str]:
    """Names of data sets outside of their folders."""
    found = []
    for file in sources(root):
        relative = file.relative_to(root)
        own = NAMES_DATA_SETS.get(relative.as_posix(), frozenset())
        if relative.parts[0] == "generators":
            own |= {relative.parts[1]}
        found += [where(root, file, line, name) for line, name in named_data_sets(root, file) if name not in own]
    return found


@functools.cache
def records_of_one() -> frozenset[str]:
    """Records that the declaration of one data set alone has."""
    writers: dict[str, set[str]] = {}
    for name, at in declarations().items():
        module = at.partition(":")[0].removeprefix(f"{_FACE}.")
        for node in ast.walk(parse(ROOT.joinpath(*module.split("."), "__init__.py"))):
            if isinstance(node, ast.keyword) and node.arg == "record":
                writers.setdefault(name_of(node.value), set()).add(name)
    return frozenset(record for record, names in writers.items() if len(names) == 1) - ANYBODYS


def records_known(root: Path, file: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each record of one data set that a file imports."""
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{_FACE}.schemas"):
            yield from ((node.lineno, a.name) for a in node.names if a.name in records_of_one())


def records_imported(root: Path) -> list[str]:
    """Records of one data set in a room that is for all of them."""
    return [
        where(root, file, line, f"{record} is written by one data set")
        for file in sources(root)
        if file.relative_to(root).parts[0] in GENERIC
        for line, record in records_known(root, file)
        if record not in KNOWS_RECORDS.get(file.relative_to(root).as_posix(), ())
    ]


def data_sets_imported(root: Path) -> list[str]:
    """Imports of one data set by another: what two of them need lies beside them."""
    return [
        where(root, file, each.line, f"imports {each.module}, of another data set")
        for file in sources(root)
        for each in imports(root, file)
        if file.relative_to(root).parts[0] == "generators" and each.top == "generators"
        for named in each.module.split(".")[1:2]
        if named in declarations() and named != file.relative_to(root).parts[1]
    ]


def strays(root: Path) -> list[str]:
    """Folders and files at the root that nobody planned."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    tops = sorted({name.partition("/")[0] for name in listed} - {"", *packages(root), *BESIDE_ROOMS})
    return [f"{name}:1: lies at the root" for name in tops if not name.startswith(".")]


def mutual_imports(root: Path) -> list[str]:
    """Pairs of root packages that import each other."""
    edges = {}
    for file in sources(root):
        home = file.relative_to(root).parts[0].removesuffix(".py")
        for each in imports(root, file):
            if each.top in TO_TURN.get(file.relative_to(root).as_posix(), ()):
                continue
            edges.setdefault((home, each.top), where(root, file, each.line, f"imports {each.module}"))
    return [f"{at} and back: {edges[b, a]}" for (a, b), at in sorted(edges.items()) if a < b and (b, a) in edges]


def long_ones(root: Path) -> list[str]:
    """Functions and files past their limits: a second idea is hiding in each."""
    found = []
    for file in with_face(root):
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > MAX_FILE_LINES:
            found.append(where(root, file, 1, f"{lines} lines (at most {MAX_FILE_LINES})"))
        for node in functions(file):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                found.append(where(root, file, node.lineno, f"{node.name}: {length} lines ({MAX_FUNCTION_LINES})"))
    return found


def protocols_by_name(root: Path) -> list[str]:
    """Texts in code, docstrings and examples of command lines aside, that spell a protocol's name.

    `protocols.REACT.name` says it, and `PROTOCOLS` has them all, so that a sixth is one file and one line.
    """
    spelled = re.compile(rf"(?<![\w-])(?:{'|'.join(PROTOCOLS)})(?![\w-])")
    found = []
    for file in sources(root):
        relative = file.relative_to(root).as_posix()
        if relative.startswith(PROTOCOL_HOMES) or relative in NAMES_PROTOCOLS:
            continue
        notes = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
        found += [
            where(root, file, node.lineno, f"{match[0]} is spelled out; say protocols.{match[0].upper()}.name")
            for node in nodes(file)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes
            if "\n    trailforge " not in node.value and (match := spelled.search(node.value))
        ]
    return found


def undocumented(root: Path) -> list[str]:
    """Modules, and public classes, functions and methods, without a docstring."""
    found = []
    for file in with_face(root):
        tree = parse(file)
        if tree.body and not ast.get_docstring(tree):
            found.append(where(root, file, 1, "module"))
        found += [where(root, file, n.lineno, n.name) for n in public(tree) if not ast.get_docstring(n)]
    return found


def stale_references(root: Path) -> list[str]:
    """Dotted names in backticks of docstrings that begin with a room, and lead to no module, nor to a name in one."""
    dotted = re.compile(r"`([a-z_]+(?:\.\w+)+)(?:\(\))?`")
    return [
        where(root, file, node.lineno, f"{match[1]} is not there")
        for file in with_face(root)
        for node in nodes(file)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for match in dotted.finditer(node.value.value)
        if match[1].partition(".")[0] in rooms(root) and not leads_somewhere(root, match[1])
    ]


def leads_somewhere(root: Path, dotted: str) -> bool:
    """Whether a name is a module of ours, or one in a module, or one in a class of a module."""
    parts = dotted.split(".")
    length = max((n for n in range(1, len(parts) + 1) if is_module(root, ".".join(parts[:n]))), default=0)
    inner = parts[length:]
    if not inner:
        return True
    path = root.joinpath(*parts[:length])
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    if inner[0] not in bound_in(file):
        return False
    members = next((n.body for n in parse(file).body if isinstance(n, ast.ClassDef) and n.name == inner[0]), None)
    return len(inner) == 1 or members is None or inner[1] in {name for node in members for name in bound_by(node)}


@functools.cache
def bound_in(file: Path) -> frozenset[str]:
    """Names at the top of a module, and those that it imports anywhere: names that are loaded late, too."""
    imported = {a.asname or a.name for n in nodes(file) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    return frozenset(imported | {name for node in parse(file).body for name in bound_by(node)})


def bound_by(node: ast.stmt) -> Iterator[str]:
    """Names that a definition or an assignment gives."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def unannotated(root: Path) -> list[str]:
    """Functions, private ones too, with a parameter or a return value of no stated type."""
    found = []
    for file in with_face(root):
        for node in functions(file):
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            stars = [a for a in (arguments.vararg, arguments.kwarg) if a]
            bare = [a.arg for a in [*named, *stars] if a.annotation is None and a.arg not in {"self", "cls"}]
            bare += [] if node.returns else ["return"]
            found += [where(root, file, node.lineno, f"{node.name}: {', '.join(bare)}")] if bare else []
    return found


def unfinished(root: Path) -> list[str]:
    """Marks of work that was put off."""
    mark = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    return [
        where(root, file, number, line.strip())
        for file in with_face(root)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if mark.search(line)
    ]


def crowded(root: Path) -> list[str]:
    """Folders of too many files."""
    folders = sorted({file.parent for file in sources(root)} - {root})
    return [
        where(root, folder, 1, f"{len(siblings(folder))} files (at most {limit})")
        for folder in folders
        if len(siblings(folder)) > (limit := CROWDED.get(folder.relative_to(root).as_posix(), MAX_SIBLINGS))
    ]


def siblings(folder: Path) -> list[Path]:
    """Python files of a folder besides its `__init__.py`."""
    return [file for file in folder.glob("*.py") if file.name != "__init__.py"]


def homonyms(root: Path) -> list[str]:
    """Public classes, at the top of a file, whose name another file has given away."""
    homes: dict[str, list[tuple[Path, int]]] = {}
    for file in with_face(root):
        for name, line in classes(file).items():
            homes.setdefault(name, []).append((file, line))
    return [
        where(
            root, *places[-1], f"{name} is also in {', '.join(str(file.relative_to(root)) for file, _ in places[:-1])}"
        )
        for name, places in sorted(homes.items())
        if len(places) > HOMONYMS.get(name, 1)
    ]


def classes(file: Path) -> dict[str, int]:
    """Public classes at the top of a file, with their lines."""
    return {n.name: n.lineno for n in parse(file).body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")}


def single_importers(root: Path) -> list[str]:
    """Modules that exactly one other product file imports. A package is there for its files, not for who imports it;
    what the face gives out is there for people."""
    importers: dict[str, set[Path]] = {}
    for file in sources(root):
        for each in imports(root, file):
            importers.setdefault(each.module, set()).add(file)
    modules = {".".join(file.relative_to(root).with_suffix("").parts): file for file in sources(root)}
    return [
        where(root, file, 1, "one importer")
        for module, file in modules.items()
        if len(importers.get(module, set()) - {file}) == 1
    ]


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions, nested ones too."""
    return (node for node in nodes(file) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def public(node: ast.Module | ast.ClassDef) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Classes, functions and methods whose names, and whose classes' names, do not begin with an underscore."""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and child.name[0] != "_":
            yield child
            if isinstance(child, ast.ClassDef):
                yield from public(child)


@pytest.fixture(scope="module", autouse=True)
def trees_are_let_go() -> Iterator[None]:
    """At the end: what looks for garbage would go through all of them again and again."""
    yield
    nodes.cache_clear()
    parse.cache_clear()


CHECKS: list[Callable[[Path], list[str]]] = [
    forbidden_edges,
    bare_imports,
    search_knows_a_model,
    away_from_home,
    do_fns_elsewhere,
    data_sets_spelled,
    records_imported,
    data_sets_imported,
    mutual_imports,
    long_ones,
    protocols_by_name,
    undocumented,
    stale_references,
    unannotated,
    unfinished,
    crowded,
    homonyms,
    past_the_door,
    own_doors,
    borrowed_offers,
    wide_doors,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_tree_has_no(check: Callable[[Path], list[str]]) -> None:
    """Each check over every file of the root packages."""
    found = check(ROOT)
    assert not found, "\n" + "\n".join(found)


def test_nothing_strays_to_the_root(tmp_path: Path) -> None:
    """Of what is kept in the repository; a copy of the tree without one has nothing to look at."""
    if (ROOT / ".git").exists():
        assert not strays(ROOT)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in ("README.md", "0001.answer"):
        (tmp_path / name).touch()
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    assert strays(tmp_path) == ["0001.answer:1: lies at the root"]


def test_plan_has_no_cycle() -> None:
    """The allowed edges alone cannot make a circle."""
    order = list(graphlib.TopologicalSorter(MAY_IMPORT).static_order())
    assert all(order.index(low) < order.index(high) for high, allowed in MAY_IMPORT.items() for low in allowed)


def test_lists_of_what_is_left_to_mend_hold_nothing_that_is_mended() -> None:
    """An entry that could be lower, or go, would let the fault come back."""
    stale = [f"CROWDED: {folder}" for folder, size in CROWDED.items() if len(siblings(ROOT / folder)) < size]
    names = Counter(name for file in with_face(ROOT) for name in classes(file))
    stale += [f"HOMONYMS: {name}" for name, count in HOMONYMS.items() if names[name] < count]
    taken = {excuse_of(file.relative_to(ROOT).as_posix(), each.module) for file, each in inner_imports(ROOT)}
    stale += [f"BESIDE_THE_DOOR: {entry}" for entry in BESIDE_THE_DOOR.keys() - taken]
    used = {each.module for _, each in inner_imports(ROOT)}
    listed = {f"{whose}.{each}" for (_, whose), (modules, _) in BESIDE_THE_DOOR.items() for each in modules}
    stale += [f"BESIDE_THE_DOOR: {module}" for module in sorted(listed - used)]
    stale += [f"WIDE: {door}" for door, size in WIDE.items() if len(given_out(ROOT / door / "__init__.py")) < size]
    assert not stale
    assert all(why for _, why in BESIDE_THE_DOOR.values())
    assert (len(BESIDE_THE_DOOR), len(listed)) == (MAX_BESIDE, MAX_BESIDE_MODULES)


def test_few_files_are_one_idea_cut_in_two() -> None:
    """The ceiling is what was measured; lower it with the figure."""
    found = single_importers(ROOT)
    assert len(found) <= MAX_SINGLE_IMPORTERS, f"{len(found)}:\n" + "\n".join(found)


def test_no_file_is_excused_that_needs_no_excuse() -> None:
    """The lists of what still spells a data set, or knows its records, hold nothing that is mended."""
    spelled = {name: {each for _, each in named_data_sets(ROOT, ROOT / name)} for name in NAMES_DATA_SETS}
    known = {name: {each for _, each in records_known(ROOT, ROOT / name)} for name in KNOWS_RECORDS}
    assert not [name for name, excused in NAMES_DATA_SETS.items() if not excused <= spelled[name]]
    assert not [name for name, excused in KNOWS_RECORDS.items() if not excused <= known[name]]


# The checks themselves, against a small tree with one fault each

_DOOR = "if TYPE_CHECKING:\n    from trailforge.rewards.b import a as a\nelse:\n    b = 1"
FAULTS: list[tuple[Callable[[Path], list[str]], dict[str, str], str]] = [
    (
        forbidden_edges,
        {"filters/a.py": "from trailforge.generators import sft_rows"},
        "filters/a.py:1: filters must not import",
    ),
    (forbidden_edges, {"filters/a.py": "def f():\n    import trailforge.pipelines.shards"}, "filters/a.py:2:"),
    (
        forbidden_edges,
        {"filters/a.py": "import importlib as i\ni.import_module('trailforge.flows')"},
        "filters/a.py:2:",
    ),
    (forbidden_edges, {"schemas/a.py": "from ..cli import main"}, "schemas/a.py:1: schemas must not import cli"),
    (forbidden_edges, {"schemas/a.py": "import tests.strategies"}, "schemas/a.py:1:"),
    (
        forbidden_edges,
        {"mcts/search.py": "import trailforge.rewards"},
        "mcts/search.py:1: mcts must not import",
    ),
    (forbidden_edges, {"utils/__init__.py": '"""Odds and ends."""'}, "utils/__init__.py:1: utils is not in MAY_IMPORT"),
    (bare_imports, {"filters/a.py": "from schemas import Question"}, "filters/a.py:1: say trailforge.schemas"),
    (bare_imports, {"tests/a.py": "import cli"}, "tests/a.py:1: say trailforge.cli"),
    (bare_imports, {"tests/a.py": "def f():\n    import os, cli as c"}, "tests/a.py:2: say trailforge.cli"),
    (bare_imports, {"benchmarks/a.py": "from filters.b import c"}, "benchmarks/a.py:1: say trailforge.filters.b"),
    (
        search_knows_a_model,
        {"mcts/tree.py": "from trailforge.mcts import policy"},
        "mcts/tree.py:1: imports",
    ),
    (search_knows_a_model, {"mcts/plan.py": "from .policy import Policy"}, "mcts/plan.py:1: imports mcts.policy"),
    (away_from_home, {"generators/a.py": "from apache_beam import Map"}, "generators/a.py:1: apache_beam is"),
    (away_from_home, {"cli.py": "import prefect.artifacts"}, "cli.py:1: prefect.artifacts is"),
    (do_fns_elsewhere, {"pipelines/a.py": "class A(beam.DoFn): ..."}, "pipelines/a.py:1: A is a DoFn"),
    (data_sets_spelled, {"pipelines/a.py": "a = {'kg-questions': 1}"}, "pipelines/a.py:1: kg_questions"),
    (data_sets_spelled, {"generators/kg_questions/a.py": "a = 'run of kg_trajectories'"}, "generators/kg_questions/a"),
    (
        records_imported,
        {"pipelines/a.py": "from trailforge.schemas import SftRow, KgQuestion"},
        "pipelines/a.py:1: KgQ",
    ),
    (
        data_sets_imported,
        {"generators/kg_questions/a.py": "from trailforge.generators.kg_trajectories import reading"},
        "generators/kg_questions/a.py:1: imports generators.kg_trajectories",
    ),
    (
        mutual_imports,
        {"rewards/a.py": "import trailforge.filters", "filters/a.py": "import trailforge.rewards"},
        "filters/a.py:1: imports",
    ),
    (long_ones, {"filters/a.py": "def f():\n" + "    a = 1\n" * 60}, "filters/a.py:1: f: 61 lines"),
    (long_ones, {"filters/a.py": "a = 1\n" * 401}, "filters/a.py:1: 401 lines"),
    (
        protocols_by_name,
        {"filters/a.py": "def f(p):\n    return p == 'kg_search'"},
        "filters/a.py:2: kg_search is spelled",
    ),
    (protocols_by_name, {"filters/a.py": "A = f'one of {1} and react, say'"}, "filters/a.py:1: react is spelled"),
    (undocumented, {"filters/a.py": '"""A."""\nclass A:\n    """A."""\n    def f(self): ...'}, "filters/a.py:4: f"),
    (undocumented, {"filters/a.py": "a = 1"}, "filters/a.py:1: module"),
    (stale_references, {"filters/a.py": '"""See `filters.b`."""'}, "filters/a.py:1: filters.b is not there"),
    (
        stale_references,
        {"filters/a.py": '"""See `filters.a.A.f`, `filters.a.B`, `other.c`."""\nclass A: ...'},
        "filters/a.py:1: filters.a.A.f is not",
    ),
    (unannotated, {"filters/a.py": "def _f(a, *b: int, c): ..."}, "filters/a.py:1: _f: a, c, return"),
    (unfinished, {"filters/a.py": "a = 1  # TODO: two"}, "filters/a.py:1: a = 1  # TODO: two"),
    (crowded, {f"filters/a{n}.py": "" for n in range(16)}, "filters:1: 16 files"),
    (homonyms, {"filters/a.py": "class A: ...", "rewards/a.py": "\nclass A: ..."}, "rewards/a.py:2: A is also in"),
    (past_the_door, {"filters/a.py": "from trailforge.rewards.b import c"}, "filters/a.py:1: rewards.b is an inner"),
    (
        past_the_door,
        {"filters/a.py": "def f():\n    from trailforge.rewards import b", "rewards/b.py": ""},
        "filters/a.py:2:",
    ),
    (
        past_the_door,
        {"filters/a.py": "from trailforge.pipelines.b.c import d", "pipelines/b/__init__.py": ""},
        "filters/a.py:1: pipelines.b.c is an inner",
    ),
    (
        own_doors,
        {"rewards/__init__.py": _DOOR, "rewards/c.py": "from trailforge.rewards import a"},
        "rewards/c.py:1: takes",
    ),
    (
        borrowed_offers,
        {"filters/__init__.py": _DOOR},
        "filters/__init__.py:1: a lies in trailforge.rewards.b; its door is rewards",
    ),
    (
        borrowed_offers,
        {"rewards/__init__.py": _DOOR.replace("rewards.b", "rewards.b.c"), "rewards/b/__init__.py": ""},
        "rewards/__init__.py:1: a lies in trailforge.rewards.b.c; its door is rewards.b",
    ),
    (
        wide_doors,
        {"rewards/__init__.py": _DOOR.replace("\nelse", "\n    from b import c" * 40 + "\nelse")},
        "rewards/__init__.py:1: 41",
    ),
    (
        search_knows_a_model,
        {
            "mcts/__init__.py": _DOOR.replace("rewards.b", "mcts.policy"),
            "mcts/tree.py": "from trailforge.mcts import a",
        },
        "mcts/tree.py:1: imports mcts.policy",
    ),
    (
        single_importers,
        {"rewards/a.py": "", "filters/a.py": "import trailforge.rewards.a"},
        "rewards/a.py:1: one importer",
    ),
]


@pytest.mark.parametrize(("check", "files", "expected"), FAULTS)
def test_a_check_finds(
    tmp_path: Path, check: Callable[[Path], list[str]], files: dict[str, str], expected: str
) -> None:
    """A fault is reported with its file and line, so an empty report means something."""
    names = ("schemas", "rewards", "mcts", "generators", "filters", "pipelines", "flows")
    small = {f"{name}/__init__.py": "" for name in names} | {"cli.py": "", "mcts/policy.py": ""}
    for name, text in (small | files).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [line for line in check(tmp_path) if line.startswith(expected)]


# What starting the command loads and costs


def loaded_by(statements: str) -> set[str]:
    """Top-level modules in memory after some statements in a fresh interpreter."""
    script = (
        f"import sys\n{statements}\nprint('\\n'.join({{m.partition('.')[0] for m in sys.modules}}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_loads_nothing_heavy() -> None:
    """Records, scores, the search and `--help` come without torch, Beam, Prefect or the model client."""
    loaded = loaded_by(
        "import trailforge.schemas, trailforge.rewards, trailforge\n"
        "import trailforge.mcts.search, trailforge.mcts.reflection\n"
        "from trailforge import cli\ntry:\n    cli.main(['--help'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code"
    )
    assert "trailforge" in loaded
    assert not loaded & HEAVY


def test_adapters_of_trainers_load_no_scheduler() -> None:
    """They run inside another engine, beside the core and the extra `agent` alone."""
    engines = ("verl", "verifiers", "renderers", "openrlhf")
    adapters = sorted(path.stem for path in (ROOT / "training" / "adapters").glob("[a-z]*.py"))
    assert adapters
    loaded = loaded_by(
        f"import importlib\nfor each in {adapters}:\n"
        "    try:\n        importlib.import_module(f'trailforge.training.adapters.{each}')\n"
        "    except ModuleNotFoundError as error:\n"
        f"        assert error.name.partition('.')[0] in {engines}, error"
    )
    assert "trailforge" in loaded
    assert not loaded & {"apache_beam", "prefect", "fastapi"}


def test_the_client_comes_without_arrow() -> None:
    """It is half the memory of a process that only calls models."""
    loaded = loaded_by("import trailforge.inference")
    assert "trailforge" in loaded and not loaded & {"pyarrow", "numpy", "openai"}


def test_help_takes_little_more_than_the_packages_that_print_it() -> None:
    """Of the processor's time. Other programs disturb it now and then: one of four tries is enough."""
    command = Path(sys.executable).with_name("trailforge")
    if not command.exists():
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("the command is not installed beside this interpreter: make install")
    ratios = list[float]()
    while len(ratios) < 4 and (not ratios or ratios[-1] >= _MOST_OF_HELP):
        said, seconds = started([str(command), "--help"])
        assert "mcts-trajectories" in said
        _, alone = started([sys.executable, "-c", "import typer.main, typer.rich_utils"])
        ratios.append(seconds / alone)
    assert ratios[-1] < _MOST_OF_HELP, f"times what Typer and Rich alone take: {ratios}"


_MOST_OF_HELP = 4.5
"""Beam or Prefect alone take more than Typer and Rich five times."""


def started(command: list[str]) -> tuple[str, float]:
    """What a command says, and the seconds that it takes the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# Names and declarations


def declared() -> dict[str, list[Requirement]]:
    """Requirements of pyproject.toml: the core's under an empty name, the extras' under theirs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(text) for text in texts] for name, texts in lists.items()}


def locked() -> dict[str, str]:
    """Versions in requirements.lock by distribution."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_room_is_shipped() -> None:
    """`trailforge/` holds a relative link to each room, and links to nothing else."""
    links = {path.name: path for path in (ROOT / _FACE).iterdir() if path.is_symlink()}
    assert {name.removesuffix(".py") for name in links} == rooms(ROOT)
    assert all(os.readlink(path) == f"../{name}" for name, path in links.items())


def test_every_room_is_type_checked() -> None:
    """Pyright follows a link only where it is named."""
    included = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]["include"]
    assert {f"{_FACE}/{path.name}" for path in (ROOT / _FACE).iterdir() if path.is_symlink()} <= set(included)


def test_every_import_is_declared() -> None:
    """What a file imports stands in pyproject.toml itself and does not come by way of something else."""
    names = {canonicalize_name(r.name) for requirements in declared().values() for r in requirements}
    known, found = importlib.metadata.packages_distributions(), []
    for file in sources(ROOT):
        for each in imports(ROOT, file):
            homes = {canonicalize_name(name) for name in known.get(each.top, ())} - {"trailforge"}
            if homes and not homes & names:
                found.append(where(ROOT, file, each.line, f"{each.module} comes with {', '.join(sorted(homes))}"))
    assert not found, "\n" + "\n".join(found)


def test_lock_holds_what_is_declared() -> None:
    """Every requirement of the core and of all extras is pinned at a version within its bounds."""
    pins = locked()
    wanted = [r for requirements in declared().values() for r in requirements if r.name != "trailforge"]
    assert not [str(r) for r in wanted if pins.get(canonicalize_name(r.name), "none") not in r.specifier]


def test_optional_packages_are_named_with_the_extra_that_declares_them() -> None:
    """`EXTRAS` says what to install for a module that is missing; the core itself needs none of them."""
    homes = importlib.metadata.packages_distributions()
    for module, extra in EXTRAS.items():
        names = {canonicalize_name(name) for name in homes[module]}
        assert names & {canonicalize_name(r.name) for r in declared()[extra]}, (module, extra)
        assert not names & {canonicalize_name(r.name) for r in declared()[""]}, module


def test_lock_holds_no_machine() -> None:
    """Plain `name==version` lines: no CUDA, no local builds, no paths, no addresses."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    plain = re.compile(r"(?!nvidia|cuda|triton)[a-z0-9-]+==[0-9][0-9a-z.]*")
    assert lines[0].startswith("#")
    assert not [line for line in lines[1:] if not plain.fullmatch(line)]
