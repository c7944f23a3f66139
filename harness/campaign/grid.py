"""What a campaign compares: cells, each a set of options of `fencepost test`, grouped in parts. Every cell has the same
seeds.

A grid comes from `--axis NAME=VALUE,VALUE` (every combination), or from a file: JSON in the shape of `Grid`, or Python
that defines `GRID`, and `QUICK` for a small form. A grid in `grids/` is known by its name.
"""

from __future__ import annotations

import runpy
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, Final

import msgspec

from fencepost.errors import UsageError
from fencepost.files import checked_path, kind_of, read_json
from fencepost.user_code import user_code
from harness.options import axis_named

GRIDS: Final = Path(__file__).parent / "grids"


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One configuration. `options`: names and values of options of `fencepost test`; an option that takes no value,
    like `disks`, has an empty one. `at`: its place on each axis, as text for people; cells that differ in one place
    are compared with each other. `script`: the scripted experiment that is played, if it is not a random run; then
    `options` are those of `fencepost script`, and seeds only count the repetitions. `seed`: its own, in the place
    of those of the campaign, which then only count."""

    name: str
    options: dict[str, str]
    at: dict[str, str]
    script: str = ""
    seed: int | None = None

    @property
    def command(self) -> str:
        """The command that makes a run of it."""
        return "script" if self.script else "test"


class Part(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Cells that answer one question and share one table.

    `kind`: `safety` compares rates of violations, `cost` compares throughput and latency. `options`: options that all
    of its cells share. `baseline`: the value of an axis that the other values are compared with (by default its first);
    with the baseline "", there are no comparisons along that axis. `pairs`: further pairs of cells to compare, by name.
    """

    title: str
    cells: tuple[Cell, ...]
    seeds: int
    kind: str = "safety"
    text: str = ""
    options: dict[str, str] = {}
    baseline: dict[str, str] = {}
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def axes(self) -> dict[str, list[str]]:
        """Each axis and its values, in the order of the cells."""
        found: dict[str, dict[str, None]] = {}
        for cell in self.cells:
            for axis, value in cell.at.items():
                found.setdefault(axis, {})[value] = None
        return {axis: list(values) for axis, values in found.items()}

    def numbers(self, axis: str) -> dict[str, float]:
        """The number that each value of the axis stands for: that of an option which has one number at each value and
        a different one at every other. Empty if there is no such option, or only one value."""
        values = self.axes[axis]
        for option in dict.fromkeys(option for cell in self.cells for option in cell.options):
            found = {(cell.at[axis], cell.options.get(option, "")) for cell in self.cells if axis in cell.at}
            numbers = {value: float(text) for value, text in found if text.replace(".", "", 1).isdecimal()}
            if len(found) == len(set(numbers.values())) == len(values) > 1:
                return numbers
        return {}


class Pool(msgspec.Struct, frozen=True, omit_defaults=True):
    """Cells of which the runs are counted together, under one label."""

    label: str
    cells: tuple[str, ...]


class Headline(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The whole answer in a few sentences and one picture.

    `text`: with `$name` where the rate of a pool, a ratio of speeds or an availability is to stand; it is written
    before anything is measured, so it must read well with whatever comes out. `rates`: name -> pool; the picture shows
    all of them, in this order. `speeds`: name -> pairs of cells; the acquisitions a second of the second one over those
    of the first.
    `availabilities`: name -> cells; in which share of the time a majority was in reach.
    """

    text: str
    rates: dict[str, Pool] = {}
    speeds: dict[str, tuple[tuple[str, str], ...]] = {}
    availabilities: dict[str, tuple[str, ...]] = {}


class Grid(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A campaign as data. `introduction`: paragraphs for readers who do not know the project."""

    name: str
    title: str
    question: str
    parts: tuple[Part, ...]
    introduction: tuple[str, ...] = ()
    headline: Headline | None = None
    first_seed: int = 1

    @property
    def cells(self) -> dict[str, tuple[Part, Cell]]:
        return {cell.name: (part, cell) for part in self.parts for cell in part.cells}

    def at(self, cell: str) -> dict[str, str]:
        """The place of the cell with this name on each axis."""
        return self.cells[cell][1].at

    @property
    def run_count(self) -> int:
        return sum(part.seeds * len(part.cells) for part in self.parts)

    def worded_as(self, other: Grid) -> Grid:
        """This grid with the other one's texts for readers: they change what is said of the runs, not the runs."""
        texts = {part.title: part.text for part in other.parts}
        parts = (msgspec.structs.replace(part, text=texts.get(part.title, part.text)) for part in self.parts)
        return msgspec.structs.replace(
            self,
            title=other.title,
            question=other.question,
            introduction=other.introduction,
            headline=other.headline,
            parts=tuple(parts),
        )

    def grown(self, asked: Grid) -> Grid | None:
        """This grid with the parts, cells and seeds of the other one added; None if they differ in something that both
        have."""
        if self.first_seed != asked.first_seed or self.name != asked.name:
            return None
        parts = {part.title: part for part in self.parts}
        for part in asked.parts:
            there = parts.get(part.title, part)
            cells = {cell.name: cell for cell in there.cells}
            alike = msgspec.structs.replace(there, cells=(), seeds=1) == msgspec.structs.replace(
                part, cells=(), seeds=1
            )
            if not alike or any(cells.get(cell.name, cell) != cell for cell in part.cells):
                return None
            cells |= {cell.name: cell for cell in part.cells}
            parts[part.title] = msgspec.structs.replace(
                there, cells=tuple(cells.values()), seeds=max(there.seeds, part.seeds)
            )
        return msgspec.structs.replace(self, parts=tuple(parts.values()))

    def words(self, name: str, seed: int) -> list[str]:
        """The options of `fencepost test` for this cell and seed; of a scripted cell those of `fencepost script`."""
        part, cell = self.cells[name]
        own = {} if cell.script else {"seed": str(seed if cell.seed is None else cell.seed)}
        options = {**part.options, **cell.options, **own}
        return [f"--{option}={value}" if value else f"--{option}" for option, value in options.items()]


def every_combination(axes: Mapping[str, Mapping[str, Mapping[str, str]]]) -> tuple[Cell, ...]:
    """Cells for all combinations of the axes' values. `axes`: axis -> value as text -> options of that value."""
    cells = []
    for chosen in product(*(values.items() for values in axes.values())):
        at = dict(zip(axes, (word for word, _ in chosen), strict=True))
        options = {name: value for _, given in chosen for name, value in given.items()}
        cells.append(Cell(" · ".join(at.values()), options, at))
    return tuple(cells)


def from_axes(texts: Sequence[str], seeds: int, first_seed: int, common: Mapping[str, str]) -> Grid:
    """The grid of these `--axis` options. Raises UsageError for text that is not an axis."""
    axes: dict[str, dict[str, dict[str, str]]] = {}
    for text in texts:
        given, equals, values = text.partition("=")
        given = given.strip().removeprefix("--")
        if not equals or not given:
            raise UsageError(
                f"--axis {text!r} is not an axis; write NAME=VALUE,VALUE, like persistence=none,aof-always"
            )
        name = axis_named(given).name
        if name in axes:
            raise UsageError(f"--axis {name} is given twice; list all its values in one")
        words = split_values(values)
        if len(set(words)) < len(words) or not all(words):
            raise UsageError(f"--axis {text!r} has an empty value or the same one twice")
        axes[name] = {_shown(name, word): {name: word} for word in words}
    cells = every_combination(axes)
    names = " × ".join(axes)
    return Grid(
        name="-x-".join(axes),
        title=f"Comparison over {names}",
        question=f"What difference does {' or '.join(axes)} make, with all else equal?",
        parts=(Part(title=names, cells=cells, seeds=seeds, options=dict(common)),),
        first_seed=first_seed,
    )


def split_values(text: str) -> list[str]:
    """Split at the semicolons or, if there are none, at the commas. A part like `restart-delay=0` is not a value but an
    option of the value before it: `crash:targets=one,restart-delay=0,pause` is two values."""
    if ";" in text:
        return [word.strip() for word in text.split(";")]
    values: list[str] = []
    for word in (part.strip() for part in text.split(",")):
        if values and "=" in word.split(":")[0] and ":" in values[-1]:
            values[-1] += f",{word}"
        else:
            values.append(word)
    return values


def load_grid(text: str, *, quick: bool) -> Grid:
    """The grid in this file, or the grid of this name in `grids/`. Raises UsageError if there is no such grid."""
    path = checked_path(text)
    if not path.suffix and (GRIDS / f"{text}.py").exists():
        path = GRIDS / f"{text}.py"
    if kind_of(path) != "file":
        known = ", ".join(sorted(p.stem for p in GRIDS.glob("*.py") if p.stem != "__init__"))
        raise UsageError(f"--grid {text}: there is no such file, and no grid of that name; known are {known}")
    if path.suffix == ".py":
        return check(_from_python(path, "QUICK" if quick else "GRID"))
    if quick:
        raise UsageError(f"--grid {text}: only a grid in Python can have a quick form")
    try:
        return check(read_json(path, Grid, "a grid in JSON"))
    except UsageError as error:
        raise UsageError(f"--grid {error}") from None


def with_options(grid: Grid, seeds: int | None, first_seed: int, common: Mapping[str, str]) -> Grid:
    """The grid with other seeds, and with these options for all parts; a cell's own options come first."""
    parts = tuple(
        msgspec.structs.replace(part, seeds=part.seeds if seeds is None else seeds, options={**part.options, **common})
        for part in grid.parts
    )
    return check(msgspec.structs.replace(grid, parts=parts, first_seed=first_seed))


def check(grid: Grid) -> Grid:
    """Returns the grid if it is consistent. Raises UsageError otherwise."""
    seen: set[str] = set()
    for cell in (cell for part in grid.parts for cell in part.cells):
        if cell.name in seen:
            raise UsageError(f"the grid {grid.name} has the cell {cell.name!r} twice")
        seen.add(cell.name)
    for part in grid.parts:
        if part.kind not in ("safety", "cost"):
            raise UsageError(f"the grid {grid.name}: the kind {part.kind!r} is not known; it is safety or cost")
        for name in (name for pair in part.pairs for name in pair):
            if name not in {cell.name for cell in part.cells}:
                raise UsageError(f"the grid {grid.name} compares the cell {name!r}, which is not in {part.title!r}")
        for cell in part.cells:
            for name, value in {**part.options, **cell.options}.items():
                if value and not axis_named(name, cell.command).takes_value:
                    raise UsageError(f"--{name} takes no value, but the grid {grid.name} gives it {value!r}")
    if any(part.seeds < 1 for part in grid.parts):
        raise UsageError("--seeds must be 1 or more")
    if not grid.run_count:
        raise UsageError(f"the grid {grid.name} has no cells")
    if grid.headline is not None:
        _check_headline(grid, grid.headline)
    return grid


def _check_headline(grid: Grid, headline: Headline) -> None:
    template = Template(headline.text)
    if not template.is_valid():
        raise UsageError(f"the headline of the grid {grid.name} has a $ without a name after it; write $$ for a dollar")
    for name in template.get_identifiers():
        if sum(name in known for known in (headline.rates, headline.speeds, headline.availabilities)) != 1:
            raise UsageError(f"the headline of the grid {grid.name} must have ${name} among its rates or its speeds")
    pooled = [cell for pool in headline.rates.values() for cell in pool.cells]
    pooled += [cell for cells in headline.availabilities.values() for cell in cells]
    for cell in [*pooled, *(cell for pairs in headline.speeds.values() for pair in pairs for cell in pair)]:
        if cell not in grid.cells:
            raise UsageError(f"the headline of the grid {grid.name} names the cell {cell!r}, which it does not have")


def common_options(words: Sequence[str]) -> dict[str, str]:
    """The words after `--` as names and values: `--clients 3 --ttl=1s --disks`. Raises UsageError."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise UsageError(f"{word!r} after -- is not an option of `fencepost test`")
        option = axis_named(name)
        if option.takes_value and not equals:
            if not rest:
                raise UsageError(f"--{option.name} after -- has no value")
            value = rest.pop(0)
        options[option.name] = value
    return options


def _shown(axis: str, value: str) -> str:
    """The value alone if it is a word; a number gets the axis in front: `clients 4`."""
    return f"{axis} {value}" if value[:1].isdigit() else value


def _from_python(path: Path, name: str) -> Grid:
    with user_code(f"--grid {path}", f"--grid {path} cannot be read"):
        found: Any = runpy.run_path(str(path)).get(name)
    if not isinstance(found, Grid):
        raise UsageError(f"--grid {path} has no {name}: it must be a harness.campaign.grid.Grid")
    return found
