"""`make house`: how far the tree is from the house that it is to become, one measure a row, with its goal.

Every measure is a function of the sources, or of the commits, and returns one number. What is behind a number is
printed below it with `--where`, or with `--where "class names"` for one row.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import grimp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fencepost.history import Impact
from harness.campaign.measure import Figures
from harness.verdict import Finding

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("fencepost", "cluster", "nemesis", "workloads", "harness")
SENTENCE_WORDS: Final = 7
"""A text of so many words in what is asserted is a sentence; what is only said when the assertion fails is not."""
EFFECTS_TOLD_APART: Final = 3
EVERY_CHECKER_HAS: Final = frozenset({"Figures"})
EVERY_COMMAND_HAS: Final = frozenset({"Arguments"})
BRANCHES: Final = (
    ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.match_case, ast.comprehension
)  # fmt: skip
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Measure(NamedTuple):
    """`places`: what is behind the number, a line each."""

    number: int
    places: list[str]

    @classmethod
    def of(cls, places: Iterable[str]) -> Measure:
        found = sorted(places)
        return cls(len(found), found)


def circles(*packages: str, types: bool = False) -> list[list[str]]:
    """The modules of these packages (ours, if none is named) that import each other, one list a circle. `types`: also
    those that import for types alone."""
    graph = grimp.build_graph(*(packages or PACKAGES), exclude_type_checking_imports=not types, cache_dir=None)
    names = sorted(graph.modules)
    place = {name: number for number, name in enumerate(names)}
    arrows = [(place[a], place[b]) for a in names for b in graph.find_modules_directly_imported_by(a)]
    matrix = coo_array(([1] * len(arrows), tuple(zip(*arrows, strict=True))), shape=(len(names), len(names)))
    _, labels = connected_components(matrix, connection="strong")
    members: defaultdict[int, list[str]] = defaultdict(list)
    for name, label in zip(names, labels.tolist(), strict=True):
        members[label].append(name)
    return [found for found in members.values() if len(found) > 1]


@cache
def _sources() -> Mapping[str, ast.Module]:
    """Every Python file by its path, but those that git ignores."""
    names = _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py").split()
    return {name: ast.parse((ROOT / name).read_text()) for name in names if (ROOT / name).exists()}


def _product(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for name, tree in _sources().items():
        if name.startswith(tuple(f"{folder}/" for folder in folders or PACKAGES)):
            yield name, tree


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _circles() -> Measure:
    return Measure.of(" ".join(names) for names in circles(types=True))


def _lines_of_harness() -> Measure:
    lines = {name: len((ROOT / name).read_text().splitlines()) for name, _ in _product("harness")}
    folders: Counter[str] = Counter()
    for name, number in lines.items():
        folders["/".join(Path(name).parts[:-1])] += number
    return Measure(sum(lines.values()), [f"{number:6,} {name}" for name, number in folders.most_common()])


def _branches(function: ast.AST) -> int:
    """Those of the functions inside it do not count."""
    found, todo = 0, list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        found += isinstance(node, BRANCHES)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)
    return found


def _deepest() -> Measure:
    functions = ((name, node) for name, tree in _product() for node in ast.walk(tree) if isinstance(node, FUNCTIONS))
    found = sorted(((_branches(node), f"{name} {node.name}") for name, node in functions), reverse=True)
    return Measure(found[0][0], [f"{number} {name}" for number, name in found[:15]])


def _class_names() -> Measure:
    files: defaultdict[str, set[str]] = defaultdict(set)
    for name, tree in _product():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                files[node.name].add(name)
    several = {name: found for name, found in files.items() if len(found) > 1}
    return Measure.of(
        f"{name}: {' '.join(sorted(found))}"
        for name, found in several.items()
        if name not in EVERY_CHECKER_HAS | EVERY_COMMAND_HAS
    )


def _majorities() -> Measure:
    def is_majority(node: ast.AST) -> bool:
        match node:
            case ast.BinOp(ast.BinOp(_, ast.FloorDiv(), ast.Constant(2)), ast.Add(), ast.Constant(1)):
                return True
        return False

    return Measure.of(
        f"{name}:{node.lineno}"  # type: ignore[attr-defined]
        for name, tree in _product()
        if not name.startswith(("workloads/locks/", "workloads/mutants/"))
        for node in ast.walk(tree)
        if is_majority(node)
    )


def _asked_by_name() -> Measure:
    """`getattr` and `hasattr` of faults and options."""
    return Measure.of(
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, tree in _product("nemesis", "harness")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("getattr", "hasattr")
        and any(word in ast.unparse(node.args[0]) for word in ("fault", "options"))
    )


def _moments() -> Measure:
    """What finds out from an example's fields when it happened; with `Finding.at_ms` its checker says so."""
    fields = {"at_ms", "overlap_from_ms"}
    places = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in _product("harness")
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
        and fields <= {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    ]
    return Measure.of(places or (["harness/verdict.py Finding.at_ms"] if hasattr(Finding, "at_ms") else []))


def _strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _files_for_a_kind() -> Measure:
    """In how many files of the harness the kind of a finding is written out; the median of all kinds."""
    kinds: set[str] = set()
    for _, tree in _product("harness/checkers"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "FindingKind":
                kinds |= set(_strings(node.args[0]))
    files = {kind: [name for name, tree in _product("harness") if kind in set(_strings(tree))] for kind in kinds}
    return _median({kind: found for kind, found in files.items() if found})


def _median(found: Mapping[str, list[str]]) -> Measure:
    numbers = sorted(len(places) for places in found.values())
    lines = sorted((f"{len(places)} {name}: {' '.join(places)}" for name, places in found.items()), reverse=True)
    return Measure(numbers[len(numbers) // 2], lines)


def _files_for_an_effect() -> Measure:
    """The file of `Impact`, and those that tell its effects apart: they name several of its fields."""
    fields = set(Impact.__struct_fields__) - {"nodes"}
    named = {
        name: fields & {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for name, tree in _product()
        if not name.startswith("nemesis/") and name != "fencepost/history.py"
    }
    tell = [f"{name}: {' '.join(sorted(found))}" for name, found in named.items() if len(found) >= EFFECTS_TOLD_APART]
    return Measure.of(["fencepost/history.py", *tell])


def _edits_for_a_figure() -> Measure:
    """How often a figure of a run is named where studies are made: the median of all figures. Its declaration is one
    place, also where it names the function that measures it; what is called is a method of something else."""

    def named(node: ast.AST) -> str | None:
        match node:
            case ast.Attribute(_, name) | ast.keyword(name, _) | ast.AnnAssign(ast.Name(name)):
                return name
        return None

    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, tree in _product("harness/campaign", "harness/claims", "harness/survey", "harness/nightly"):
        nodes = list(ast.walk(tree))
        elsewhere = {node.func for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            if isinstance(node, ast.AnnAssign):
                name = named(node)
                elsewhere |= {inner for inner in ast.walk(node.annotation) if named(inner) == name}
        for node in nodes:
            if node not in elsewhere and (name := named(node)) in Figures.__struct_fields__:
                places[str(name)].append(f"{file}:{node.lineno}")  # type: ignore[attr-defined]
    return _median(places)


def _backends() -> Measure:
    """The files outside of `cluster` that name a backend."""
    return Measure.of(
        name
        for name, tree in _product("harness", "nemesis", "workloads", "fencepost")
        if {"docker", "process"} & set(_strings(tree))
    )


def _sentences() -> Measure:
    return Measure.of(
        f"{name}:{node.lineno}"
        for name, tree in _product("tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and any(len(text.split()) >= SENTENCE_WORDS for text in _strings(node.test))
    )


def _explained_and_judged() -> Measure:
    """The share of the commits that touch `explain` and also `history` or `checkers`, in percent."""
    commits = [entry.split() for entry in _git("log", "--format=%x00", "--name-only").split("\0")]
    of_explain = [names for names in commits if any(name.startswith("harness/explain/") for name in names)]
    both = [n for n in of_explain if any(x.startswith(("harness/history/", "harness/checkers/")) for x in n)]
    return Measure(round(100 * len(both) / max(len(of_explain), 1)), [f"{len(both)} of {len(of_explain)} commits"])


class Row(NamedTuple):
    name: str
    goal: int
    measure: Callable[[], Measure]


ROWS: Final = (
    Row("circles of files that import each other", 0, _circles),
    Row("lines of harness/", 28_000, _lines_of_harness),
    Row("deepest function, branches", 20, _deepest),
    Row("class names in two files or more", 20, _class_names),
    Row("majorities written out, locks aside", 1, _majorities),
    Row("getattr(fault, …), hasattr(options, …)", 0, _asked_by_name),
    Row("places that decide when it happened", 1, _moments),
    Row("files for a checker with its explanation", 1, _files_for_a_kind),
    Row("files for a nemesis with a new effect", 3, _files_for_an_effect),
    Row("edits for a figure in a study", 1, _edits_for_a_figure),
    Row("places for another backend", 1, _backends),
    Row("asserts on whole sentences in tests", 200, _sentences),
    Row("% of commits to explain that touch history or checkers", 30, _explained_and_judged),
)


def main(words: list[str]) -> None:
    """Prints the table; with `--where` also what is behind the numbers."""
    wanted = words[1] if len(words) > 1 else ""
    width = max(len(row.name) for row in ROWS)
    sys.stdout.write(f"{'':{width}} {'now':>7} {'goal':>7}\n")
    for row in (row for row in ROWS if wanted in row.name):
        found = row.measure()
        sys.stdout.write(f"{row.name:{width}} {found.number:7,} {row.goal:7,}\n")
        sys.stdout.writelines(f"    {place}\n" for place in found.places if words)


if __name__ == "__main__":
    main(sys.argv[1:])
