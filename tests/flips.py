"""`make flips`: does a wrong edit of the judge turn a test red? Every comparison flipped, one at a time.

Each module that has a say in the verdict is read with `ast`. Every comparison, boolean operator, `not`, minimum or
maximum, side of a search, bare condition and small constant in a sum or a comparison is flipped, alone, in a copy of
the tree, and the judge's tests run on it in a process of its own until the first one fails. A flip that no test notices
is a survivor: either a test is missing, or the code says more than it means, or the flip changes nothing that can be
observed. The last kind is in `EQUIVALENT`, each with its reason.

Exit code: 0 if every flip is caught or listed, else 1.

Mutation testers by others (mutmut, cosmic-ray) do not know numpy's comparisons (`side=`, `maximum.accumulate`), flip
much that decides nothing (texts, arguments), and start a cold interpreter for each.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Final

import msgspec
import pytest
from hypothesis import Phase, settings

ROOT: Final = Path(__file__).resolve().parent.parent
MODULES: Final = (
    *(
        str(path.relative_to(ROOT))
        for room in ("harness/checkers", "harness/history")
        for path in sorted((ROOT / room).glob("[!_]*.py"))
    ),
    "harness/scripts/expect.py",
    "harness/store/columns.py",
    "harness/store/wire_soundness.py",
)
TESTS: Final = "tests/judge"
LEFT_OUT: Final = "tests/judge/test_pauses_while_acquiring.py"
"""Whole runs on real servers. The peer (tests/peers) is not asked either: every flip has to be caught without it."""
AT_ONCE: Final = 2
PRELOADED: Final = ["numpy", "pandas", "pyarrow.parquet", "msgspec", "hypothesis", "pytest", "_pytest.assertion"]

_WIDER: Final = "groups lie one behind the other on a line of numbers: a wider gap between them orders nothing anew"
EQUIVALENT: Final[dict[tuple[str, str, str], str]] = {
    (
        "harness/history/standing_still.py",
        "_waited",
        "met = common >= 0",
    ): "nothing is taken off a call for a time of which it has nothing",
    (
        "harness/checkers/acquire_timeouts.py",
        "check",
        "is_long = took >= min(allowed, longest)",
    ): "one call more is looked at, which is not longer",
    (
        "harness/checkers/early_grants.py",
        "_early",
        "lacking = np.flatnonzero(answered.sum(axis=1) <= needed).tolist()",
    ): "one more acquire is looked at, and a majority had answered it",
    (
        "harness/checkers/fencing.py",
        "_stale",
        "by_key = by_key.keep(by_key.spread(by_key.within(ranks[1:] <= ranks[:-1])))",
    ): "more keys are looked at, and no more is found in them",
    (
        "harness/checkers/fencing.py",
        "_stale",
        'first = np.append(np.searchsorted(start, start, side="right"), -1)[position] if ties else position',
    ): "ranks only order: sections that began together share one either way, and later ones have a higher one",
    (
        "harness/checkers/late_grants.py",
        "_slow",
        'is_slow = _said_ns(ops) - ops["invoke_ns"].to_numpy(np.int64) >= slack_ns',
    ): "one more call is looked at, and it was in time",
    (
        "harness/checkers/updates.py",
        "lost_updates",
        "straggled = apart & ~told[winners] & (winner_at >= 0) & (winner_at <= loser_at)"
        " # sections are ordered by start",
    ): "a section writes once, so none overwrites what it wrote itself",
    (
        "harness/history/sent_after.py",
        "SentAfter._is_at_work",
        'first, last = np.searchsorted(self.came, [from_ns, to_ns], side="right")',
    ): "a request that came just then adds no gap",
    ("harness/history/groups.py", "TimeLine.of", "before = first - 2"): _WIDER,
    ("harness/history/groups.py", "TimeLine.of", "shift *= last - before + 2"): _WIDER,
    (
        "harness/history/quorum_support.py",
        "Backing._restarted",
        "before != after and lost >= from_ns and seen < to_ns",
    ): "a node that came into sight as a stretch ended may have held the value until then, and is not asked about",
    (
        "harness/history/groups.py",
        "narrowed",
        "return values.astype(np.min_scalar_type(max(-4 * largest - 2, np.iinfo(np.int64).min)), copy=False)",
    ): "no range of numbers ends between the two",
    (
        "harness/history/groups.py",
        "placed",
        "numbers = upper.astype(np.min_scalar_type(-largest - 2))",
    ): "says only how many bytes a number takes",
    (
        "harness/history/overlaps.py",
        "overlapping_pairs",
        "if listed > most:",
    ): "one more piece is listed, and cut off again",
    (
        "_accepted",
        "in_order = not written.within(places[1:] <= places[:-1]).any()",
    ): "writes of one place keep the table's order, also if they are put in order once more",
    (
        "harness/checkers/liveness.py",
        "_longest_gap",
        'inside = start[np.searchsorted(start, since, "right") : np.searchsorted(start, until, "right")]',
    ): "a grant as the window begins adds a gap of length 0 before it, and no gap is shorter",
    (
        "harness/checkers/liveness.py",
        "_longest_gap",
        'inside = start[np.searchsorted(start, since, "left") : np.searchsorted(start, until, "left")]',
    ): "a grant as the window ends adds a gap of length 0 behind it, and no gap is shorter",
}
"""Why a flip changes nothing that can be observed, by module, function and flipped line."""

_COMPARED: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_TWINS: Final = (("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("floor", "ceil"))
_TWIN: Final = dict(_TWINS) | {b: a for a, b in _TWINS}
_SHOWN: Final = ("CheckerFigures", "KeyFigures")
"""Say how figures read and decide nothing; the reports' own tests look after it."""
_SIDES: Final = {"left": "right", "right": "left"}


@dataclass(frozen=True, slots=True)
class Flip:
    """One edit of one module: bytes `[begin, end)` become `by`. `where`: the function around it."""

    module: str
    where: str
    line: int
    begin: int
    end: int
    was: str
    by: str

    def of(self, source: bytes) -> bytes:
        return source[: self.begin] + self.by.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """The line as the edit leaves it: with the module and the function it says which flip this is."""
        first = source.rfind(b"\n", 0, self.begin) + 1
        last = source.find(b"\n", self.end)
        return " ".join((source[first : self.begin] + self.by.encode() + source[self.end : last]).decode().split())


def flips_of(module: str, source: bytes) -> list[Flip]:
    """Every flip of the module, in the order of the text."""
    return sorted(set(_Finder(module, source)), key=lambda flip: (flip.begin, flip.end, flip.by))


class _Finder:
    def __init__(self, module: str, source: bytes) -> None:
        self._module, self._source = module, source
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", source))]

    def __iter__(self) -> Iterator[Flip]:
        yield from self._within(ast.parse(self._source), "")

    def _within(self, node: ast.AST, where: str) -> Iterator[Flip]:
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in _SHOWN for base in node.bases):
            return
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return  # a field's name and type decide nothing
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            where = f"{where}.{node.name}".lstrip(".")
        for begin, end, by in self._edits(node):
            line = self._source.count(b"\n", 0, begin) + 1
            yield Flip(self._module, where, line, begin, end, self._source[begin:end].decode(), by)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._within(child, where)

    def _at(self, node: ast.AST) -> tuple[int, int]:
        begin = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def _between(self, left: ast.AST, right: ast.AST, operator: str) -> tuple[int, int]:
        """Where the operator is written between the two operands."""
        begin, end = self._at(left)[1], self._at(right)[0]
        found = re.search(operator.replace(" ", r"\s+").replace("|", r"\|").encode(), self._source[begin:end])
        assert found is not None, (self._module, operator, self._source[begin:end])
        return begin + found.start(), begin + found.end()

    def _edits(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare():
                for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                    written, others = _COMPARED[type(op)]
                    for other in others:
                        yield *self._between(left, right, written), other
                for operand in (node.left, *node.comparators):
                    yield from self._off_by_one(operand)
            case ast.BoolOp():
                was, by = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield *self._between(left, right, was), by
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                was, by = ("&", "|") if isinstance(node.op, ast.BitAnd) else ("|", "&")
                yield *self._between(node.left, node.right, was), by
            case ast.AugAssign(op=ast.BitAnd() | ast.BitOr()):
                was, by = ("&=", "|=") if isinstance(node.op, ast.BitAnd) else ("|=", "&=")
                yield *self._between(node.target, node.value, was), by
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                yield from self._off_by_one(node.right)
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                yield self._at(node)[0], self._at(node.operand)[0], ""
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass  # for readers of types; nothing runs there
            case ast.If() | ast.IfExp() | ast.While():
                yield from self._negated(node.test)
            case ast.comprehension():
                for test in node.ifs:
                    yield from self._negated(test)
            case ast.Name(id=name) if name in _TWIN:
                yield *self._at(node), _TWIN[name]
            case ast.Attribute(attr=name) if name in _TWIN:
                end = self._at(node)[1]
                yield end - len(name), end, _TWIN[name]
            case ast.Constant(value="left" | "right"):
                yield *self._at(node), f'"{_SIDES[str(node.value)]}"'
            case ast.Call(func=ast.Attribute(attr="searchsorted")) if len(node.args) == 2 and not node.keywords:
                end = self._at(node)[1]
                yield end - 1, end, ', side="right")'

    def _off_by_one(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= 3:
            yield *self._at(node), str(node.value + 1)

    def _negated(self, test: ast.expr) -> Iterator[tuple[int, int, str]]:
        """A condition that has no operator of its own to be flipped."""
        if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.NamedExpr)):
            begin, end = self._at(test)
            yield begin, end, f"not ({self._source[begin:end].decode()})"


class Seen(msgspec.Struct, frozen=True):
    """What a test did when nothing was flipped: how long it took, and the functions of the judge that it entered."""

    seconds: float
    entered: frozenset[tuple[str, str]]


class Watch:
    """A plugin of pytest: the tests that failed, and what each of them entered."""

    def __init__(self, tree: str, *, look: bool) -> None:
        self.failed: list[str] = []
        self.seen: dict[str, Seen] = {}
        self._look = look
        self._files = {f"{tree}/{module}": module for module in MODULES}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        entered: set[tuple[str, str]] = set()

        def called(frame: FrameType, _: str, __: object) -> None:
            if module := self._files.get(frame.f_code.co_filename):
                entered.add((module, frame.f_code.co_qualname.replace(".<locals>", "")))

        began = time.monotonic()
        if self._look:
            threading.settrace(called)
            sys.settrace(called)
        try:
            yield
        finally:
            if self._look:
                sys.settrace(None)
                threading.settrace(None)
                self.seen[item.nodeid] = Seen(time.monotonic() - began, frozenset(entered))


def run_tests(tree: str, tests: list[str], output: str, look: bool) -> None:
    """In a process of its own: run the tests of that tree until one fails. Exits as pytest does; leaves the test that
    failed in `output`, and, if it is to look, what all of them entered."""
    os.setsid()
    os.chdir(tree)
    with Path(f"{output}.txt").open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.path[:0] = [tree]
    sys.dont_write_bytecode = not look
    # The same examples for every flip, and no time spent on making a failure small.
    settings.register_profile("flips", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True)
    settings.load_profile("flips")
    watch = Watch(tree, look=look)
    code = pytest.main(["-x", "-q", "--tb=short", "-p", "no:cacheprovider", *tests], plugins=[watch])
    result = Result(watch.failed[0] if watch.failed else f"(pytest ended with {int(code)})", watch.seen)
    Path(output).write_bytes(msgspec.json.encode(result))
    os._exit(int(code))


class Result(msgspec.Struct, frozen=True):
    failed: str
    seen: dict[str, Seen]


class Bench:
    """Copies of the tree, and a process for each flip that is forked where the libraries are already imported."""

    def __init__(self, folder: Path) -> None:
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(PRELOADED)
        self._trees: SimpleQueue[Path] = SimpleQueue()
        self._first = folder / "tree-0"
        left_out = shutil.ignore_patterns(".*", "results", "build", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, self._first, ignore=left_out)

    def prepare(self) -> dict[str, Seen]:
        """Run the tests unflipped, which leaves bytecode for later, and then make the other copies of the tree.

        Raises SystemExit if a test fails.
        """
        code, result = self._run(self._first, [TESTS, f"--ignore={LEFT_OUT}"], 600, look=True)
        if code or result is None:
            sys.exit(f"{result.failed if result else 'something'} fails without any flip: nothing can be said")
        self._trees.put(self._first)
        for number in range(1, AT_ONCE):
            self._trees.put(shutil.copytree(self._first, self._first.with_name(f"tree-{number}")))
        return result.seen

    def catches(self, flip: Flip, source: bytes, seen: dict[str, Seen]) -> str | None:
        """The test that caught the flip; None if all that enter its function passed."""
        tests = tests_for(flip, seen)
        if not tests:
            return None
        tree = self._trees.get()
        file = tree / flip.module
        try:
            # Never to be mistaken for the bytecode of the module as it was.
            for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
                stale.unlink()
            file.write_bytes(flip.of(source))
            limit_s = 30 + 10 * sum(seen[test].seconds for test in tests)
            code, result = self._run(tree, tests, limit_s, look=False)
            if result is None:
                return f"(none ended within {limit_s:.0f} s)"
            return result.failed if code else None
        finally:
            file.write_bytes(source)
            self._trees.put(tree)

    def _run(self, tree: Path, tests: list[str], limit_s: float, *, look: bool) -> tuple[int, Result | None]:
        """pytest's exit code and what it left; None if it took longer than that, or left nothing."""
        output = tree.with_suffix(".out")
        output.unlink(missing_ok=True)
        process = self._forks.Process(target=run_tests, args=(str(tree), tests, str(output), look))
        process.start()
        process.join(limit_s)
        if process.exitcode is None:
            assert process.pid is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return 1, None
        return process.exitcode or 0, msgspec.json.decode(output.read_bytes(), type=Result) if output.exists() else None


def tests_for(flip: Flip, seen: dict[str, Seen]) -> list[str]:
    """The tests that enter the flip's function, or its module where it is in none: those named after the module first,
    then the quickest."""
    stem = Path(flip.module).stem

    def enters(entered: frozenset[tuple[str, str]]) -> bool:
        names = (f"{name}." for module, name in entered if module == flip.module)
        return any(not flip.where or name.startswith(f"{flip.where}.") for name in names)

    tests = [test for test, what in seen.items() if enters(what.entered)]
    return sorted(tests, key=lambda test: (f"test_{stem}." not in test, seen[test].seconds))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make flips", description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="only modules whose path contains one of these words")
    parser.add_argument("--survivors", action="store_true", help="list only the flips that no test caught")
    parser.add_argument("--line", type=int, help="only this line")
    parser.add_argument("--list", action="store_true", help="say what would be flipped, and flip nothing")
    parser.add_argument("--try-listed", action="store_true", help="try the flips that are listed as equivalent, too")
    arguments = parser.parse_args()
    words = arguments.modules or [""]
    chosen = [module for module in MODULES if any(word in module for word in words)]
    sources = {module: (ROOT / module).read_bytes() for module in chosen}
    flips = [flip for module, source in sources.items() for flip in flips_of(module, source)]
    names = {flip: (flip.module, flip.where, flip.shown(sources[flip.module])) for flip in flips}
    stale = [name for name in EQUIVALENT if name[0] in sources and name not in names.values()]
    if arguments.line is not None:
        flips = [flip for flip in flips if flip.line == arguments.line]
    tally: Counter[tuple[str, str]] = Counter()

    def report(flip: Flip, result: str, test: str) -> None:
        tally[flip.module, result] += 1
        if result in ("GREEN", "WRONGLY LISTED") or not arguments.survivors:
            by = flip.by if len(flip.by) < 24 else f"{flip.by[:21]}..."
            place = f"{flip.module}:{flip.line}"
            text = names[flip][2] if result == "GREEN" else test
            _say(f"{place:36} {flip.was.strip()[:16]:>16} -> {by:24} {result:6} {text}")

    if arguments.list:
        for flip in flips:
            report(flip, "-", names[flip][2])
        _say(f"{len(flips)} flips")
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flips-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        bench = Bench(Path(folder))
        seen = bench.prepare()
        listed = [flip for flip in flips if names[flip] in EQUIVALENT and not arguments.try_listed]
        tried = [flip for flip in flips if flip not in listed]
        _say(f"{len(flips)} flips; {len(seen)} tests, which pass")
        for flip in listed:
            report(flip, "listed", EQUIVALENT[names[flip]])
        caught = pool.map(lambda flip: bench.catches(flip, sources[flip.module], seen), tried)
        for flip, test in zip(tried, caught, strict=True):
            if names[flip] in EQUIVALENT:
                report(flip, "WRONGLY LISTED" if test else "listed", test or EQUIVALENT[names[flip]])
            else:
                report(flip, "red" if test else "GREEN", test or "")
    for module in chosen:
        counts = {result: count for (name, result), count in sorted(tally.items()) if name == module}
        _say(f"{module:36} {sum(counts.values()):4} flips  {counts}")
    for name in stale:
        _say(f"listed as equivalent, but there is no such flip: {name}")
    _say(f"{sum(tally.values())} flips in {time.monotonic() - began:.0f} s")
    return int(bool(stale) or any(result in ("GREEN", "WRONGLY LISTED") for _, result in tally))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
