"""Documents, docstrings and comments name only what exists: files, modules, links, targets, commands, options."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import re
import shlex
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from cluster.registry import servers
from fencepost.__main__ import main
from fencepost.errors import UsageError
from harness.cli.main import find_command
from harness.options import RunArguments, config_from
from nemesis.base import Topology
from nemesis.schedule import draw_schedule, for_cluster, parse_spec

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("cluster", "fencepost", "harness", "nemesis", "workloads")
FOLDERS = (*PACKAGES, "benchmarks", "docs", "examples", "pytest_plugin", "results", "tests", "tools")
GENERATED = tuple(
    f"results/{name}"
    for name in ("runs", "mutants", "scripts", "reports/NAME", "studies", "claims", "survey", "nightly")
)
"""Folders that exist only after a command has written them."""
INVENTED = ("my_lock.py", "my_experiments.py", "FILE.py")
"""Files of an imagined user."""
FIXTURE = ("fencepost.run",)
"""What the fixture of the pytest plugin has, which is called like the package."""

PATH = re.compile(rf"(?<![\w./<-])(?:{'|'.join(FOLDERS)})/[\w./*<>{{}}-]*")
FILE = re.compile(r"(?<![\w./*<>-])\w+\.py\b")
DOTTED = re.compile(rf"(?<![\w./:-])(?:{'|'.join(PACKAGES)})(?:[.:][A-Za-z_]\w*)+")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"(?<!`)`[^`]+`(?!`)")
BLOCK = re.compile(r"^```.*?^```|(?<=\n\n)(?:^    [^\n]*\n+)+", re.MULTILINE | re.DOTALL)
GO_BLOCK = re.compile(r"^```go$.*?^```$", re.MULTILINE | re.DOTALL)
"""Names in there are Go's, and a test builds it."""
TARGET = re.compile(r"\bmake (?:-\w+ )?([a-z][a-z-]*)")
COMMAND = re.compile(r"\bfencepost ([a-z]+)((?:[^\n`#\\]|\\\n)*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
BENCHMARK = re.compile(r"\bbenchmarks/\w+\.py")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("", "sh", "console")
CALL = re.compile(r"^(?:\.venv/bin/)?fencepost [a-z]")

PLACES = ("*.md", "docs/*.md", "examples/*/*.md", "pytest_plugin/*.md", "results/*.md", "tests/peers/*.md")
DOCUMENTS = sorted(path for pattern in PLACES for path in ROOT.glob(pattern))
SOURCES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not {"__pycache__", "runs"} & set(path.relative_to(ROOT).parts)
)


@cache
def prose_of(path: Path) -> str:
    """A document, or the docstrings and comments of a module."""
    text = path.read_text()
    if path.suffix != ".py":
        return GO_BLOCK.sub("", text)
    strings = [
        node.value.value
        for node in _statements(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    # Most files have no comment, and to find one in the others takes as long as to parse them.
    tokens = tokenize.generate_tokens(io.StringIO(text).readline) if "#" in text else ()
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join((*strings, *comments))


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements in order, without going into their expressions, which are most of a tree."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from _statements(node)


@cache
def code_in(path: Path) -> str:
    """What is set as code: blocks and spans of a document, spans of docstrings and comments."""
    prose = prose_of(path)
    if path.suffix == ".py":
        return "\n".join(SPAN.findall(prose))
    return "\n".join((*BLOCK.findall(prose), *SPAN.findall(BLOCK.sub("", prose))))


@cache
def file_names() -> frozenset[str]:
    return frozenset(path.name for path in SOURCES)


def missing_path(mention: str) -> str | None:
    """The mention, if it names no file or folder; a name in `<…>` or `{…}` may be anything."""
    mention = mention.rstrip(".-/")
    if mention.startswith(GENERATED):
        return None
    pattern = re.sub(r"<[^>]*>|\{[^}]*\}", "*", mention)
    return None if any(ROOT.glob(pattern)) else mention


def missing_name(mention: str) -> str | None:
    """The mention, if it is no module of ours and no attribute of one."""
    parts = re.split("[.:]", mention)
    if mention in FIXTURE or parts[-1] in ("json", "jsonl", "py", "md"):
        return None
    for length in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found: object = importlib.import_module(".".join(parts[:length]))
            break
    for name in parts[length:]:
        if not hasattr(found, name) and name not in getattr(found, "__annotations__", {}):
            return mention
        found = getattr(found, name, None)
    return None


@cache
def help_of(*arguments: str) -> str:
    """What `fencepost … --help` prints. Fails the test for a command that does not exist."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main([*arguments, "--help"])
    assert code == 0, f"fencepost {' '.join(arguments)} --help: {printed.getvalue()}"
    return printed.getvalue()


def misplaced_options(command: str, rest: str) -> Iterator[str]:
    """The options of a command line that the command does not have; those after ` -- ` are options of `test`."""
    own, _, common = rest.partition(" -- ")
    for name, part in ((command, own), ("test", common)):
        known = OPTION.findall(help_of(name)) if part else ()
        yield from (f"fencepost {name} {option}" for option in OPTION.findall(part) if option not in known)


def each_document() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        pytest.param(PATH, missing_path, id="path"),
        pytest.param(FILE, lambda name: None if name in (*file_names(), *INVENTED) else name, id="file"),
        pytest.param(DOTTED, missing_name, id="module"),
    ],
)
def test_every_mention_exists(pattern: re.Pattern[str], missing: Callable[[str], str | None]) -> None:
    absent = [
        f"{path.relative_to(ROOT)}: {mention}"
        for path in (*DOCUMENTS, *SOURCES, ROOT / "Makefile")
        for mention in sorted(set(pattern.findall(prose_of(path))))
        if missing(mention)
    ]
    assert not absent, "\n".join(absent)


@each_document()
def test_every_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in LINK.findall(document.read_text()):
        file, _, anchor = link.partition("#")
        target = document.parent / file if file else document
        if link.startswith("https://"):
            continue
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def anchors_of(document: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {(path.name, target) for path in (*DOCUMENTS, *SOURCES) for target in TARGET.findall(code_in(path))}
    assert named
    assert not {each for each in named if each[1] not in targets}


def test_every_command_exists() -> None:
    commands = {command for path in (*DOCUMENTS, *SOURCES) for command, _ in COMMAND.findall(code_in(path))}
    assert {"test", "compare", "analyze"} <= commands
    for command in commands:
        help_of(command)


@each_document()
def test_every_option_exists(document: Path) -> None:
    """Those of a whole command line belong to that command; those named alone belong to some command, or to the
    benchmark that is called."""
    code = code_in(document)
    absent = [option for command, rest in COMMAND.findall(code) for option in misplaced_options(command, rest)]
    commands = re.findall(r"^ +([a-z]+)  ", help_of(), re.MULTILINE)
    known = {option for command in commands for option in OPTION.findall(help_of(command))}
    known |= set(OPTION.findall((ROOT / "pytest_plugin/pytest_fencepost/plugin.py").read_text()))
    for plugin in ("tests/conftest.py", "tests/golden.py"):
        known |= set(OPTION.findall((ROOT / plugin).read_text()))
    for benchmark in BENCHMARK.findall(code):
        known |= set(OPTION.findall((ROOT / benchmark).read_text()))
    absent += [option for option in OPTION.findall(COMMAND.sub("", code)) if option not in known]
    assert not absent


def calls_in(document: Path) -> Iterator[list[str]]:
    """The words of each call of `fencepost` in a block for the shell, without the first."""
    blocks = [body for language, body in FENCED.findall(document.read_text()) if language in SHELL]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    for part in (part.strip() for line in lines for part in line.split(" && ")):
        if CALL.match(part):
            yield shlex.split(part, comments=True)[1:]


def check_call(words: list[str]) -> None:
    """Read a call as the command does, up to where the machine matters: its words, values and, for a run, its schedule.
    Raises UsageError."""
    name, *rest = words
    call = find_command(name).call(name, rest)
    if isinstance(call.arguments, RunArguments):
        config = config_from(call.arguments, call.given)
        topology = Topology(config.client_names, config.node_names, config.ttl_ms)
        spec = parse_spec(config.nemesis)
        if config.server in servers():
            spec = for_cluster(spec, servers()[config.server], topology)
        draw_schedule(spec, config.seed, topology, config.duration_ms)


def test_every_call_in_a_block_is_accepted() -> None:
    calls = [(document, words) for document in DOCUMENTS for words in calls_in(document)]
    assert {"README.md", "tutorial.md", "workloads.md", "pytest.md"} <= {document.name for document, _ in calls}
    refused = []
    for document, words in calls:
        try:
            check_call(words)
        except UsageError as error:
            refused.append(f"{document.relative_to(ROOT)}: {shlex.join(words)}: {error}")
    assert not refused, "\n".join(refused)
