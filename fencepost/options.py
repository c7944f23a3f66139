"""One declaration for each option of the command line, on the field that holds its value.

    class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
        clients: Annotated[int, Option("--clients", "client processes", low=1, high=256)] = 10

Everything else comes from this line: how the text is read (by the type of the field), the bounds, the choices, the
default that `--help` shows, the words that repeat a recorded run, the axes of a campaign and the table in
docs/options.md. How the types are read:

    bool                given or not, without a value
    Literal             one of its words
    int                 a whole number
    float               a number
    int or float, with `unit`   a duration, which needs its unit unless it is 0; in milliseconds (an int is rounded)
    str, Path           the text itself
    tuple[…, ...]       may be given more than once, each time as one of the others
    any other class     by its `parse(text)`, and written by its `str()`

A field that may be None has no value until the option is given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec

from fencepost.errors import UsageError
from fencepost.files import checked_path
from fencepost.units import duration_text, parse_duration_ms, plain_number

GROUPS: Final = (
    "options",
    "what is tested",
    "settings of the lock",
    "load",
    "faults",
    "cluster",
    "the verdict",
    "the result",
)
"""The order of the groups in `--help` and in docs/options.md; any other group comes after them."""


_LONGEST_NUMBER: Final = 10**30
"""No larger number is shown in full."""


@dataclass(frozen=True, slots=True)
class Option:
    """What the field's type and default do not say.

    `flag`: `--clients`; a name without dashes is a positional argument. `low` and `high`: the bounds, both included;
    those of a parsed class are for the number in its attribute `bounded`. `pattern`: what a whole text must match, and
    the same in words. `choices`: the words that a text is one of, where a registry has them. `unit`: the value is a
    duration, and people think of it in this unit. `instead_of`: the field of another option, which cannot be given
    beside this one. `shown_default`: what `--help` says instead of the field's default. `commands`: which commands
    other than `test` have the option (`compare`: as an axis); there it replaces what the run would have. `replayed`:
    whether the command that repeats a run carries it.
    """

    flag: str
    help: str
    group: str = "options"
    metavar: str | None = None
    low: float = -math.inf
    high: float = math.inf
    bounded: str | None = None
    pattern: tuple[str, str] | None = None
    choices: Callable[[], tuple[str, ...]] | None = None
    unit: Literal["ms", "s"] | None = None
    instead_of: str | None = None
    shown_default: str | None = None
    commands: Collection[str] = ("compare",)
    replayed: bool = True


@dataclass(frozen=True, slots=True)
class Declared:
    """An option and the field that it belongs to. `type`: the field's, without None. `default`: the field's, or
    `msgspec.NODEFAULT`."""

    field: str
    option: Option
    type: Any
    default: object

    @property
    def flag(self) -> str:
        return self.option.flag

    @property
    def name(self) -> str:
        """The flag without its dashes: what an axis of a campaign is called."""
        return self.flag.removeprefix("--")

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that the option takes; empty if it takes others."""
        if self.option.choices is not None:
            return self.option.choices()
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def takes_value(self) -> bool:
        return self.type is not bool

    @property
    def repeats(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def item(self) -> Any:
        """The type of what is given at once."""
        return get_args(self.type)[0] if self.repeats else self.type

    @property
    def shown_default(self) -> str:
        """The default as `--help` shows it; empty if there is none."""
        if self.option.shown_default is not None:
            return self.option.shown_default
        unset = (None, False, (), msgspec.NODEFAULT)
        return "" if any(self.default is each for each in unset) else self.text(self.default)

    @property
    def range(self) -> str:
        """`1 to 256`; empty if there are no bounds."""
        if not math.isfinite(self.option.low) or not math.isfinite(self.option.high):
            return ""
        return f"{self._number(self.option.low)} to {self._number(self.option.high)}"

    def read(self, text: str) -> object:
        """The value that the text means; of an option that repeats, one of them. Raises UsageError, naming the
        option."""
        if self.item in (int, float) and not self.option.unit:
            try:
                value: Any = self.item(text)
            except ValueError:
                kind = "a whole number" if self.item is int else "a number"
                shown = text if len(text) <= 40 else f"{text[:40]}…"
                raise UsageError(f"{self.flag} is {shown!r}; it must be {kind}") from None
        else:
            try:
                value = self._parsed(text)
            except UsageError as error:
                raise UsageError(f"{self.flag}: {error}") from None
        self.check(value)
        return round(value) if self.item is int and isinstance(value, float) else value

    def text(self, value: Any) -> str:
        """The value as `read` takes it."""
        return self._number(value) if isinstance(value, int | float) else str(value)

    def words(self, value: Any) -> list[str]:
        """The words of the command line that give the option this value."""
        if value is None or value is False:
            return []
        if self.repeats:
            return [word for each in value for word in (self.flag, self.text(each))]
        if not self.takes_value:
            return [self.flag]
        text = self.text(value)
        return [f"{self.flag}={text}"] if text.startswith("-") else [self.flag, text]

    def check(self, value: Any) -> None:
        """Raise UsageError, naming the option, for a number out of its bounds, or a text that does not match."""
        option = self.option
        if option.pattern is not None and isinstance(value, str) and not re.fullmatch(option.pattern[0], value):
            raise UsageError(f"{self.flag} is {value!r}; it must be {option.pattern[1]}")
        number = getattr(value, option.bounded) if option.bounded else value
        if not isinstance(number, int | float) or option.low <= number <= option.high:
            return
        low, high, found = (self._number(each) for each in (option.low, option.high, number))
        wanted = f"at least {low}" if option.high == math.inf else f"between {low} and {high}"
        raise UsageError(f"{self.flag} is {found}; it must be {wanted}")

    def _parsed(self, text: str) -> Any:
        if self.option.unit and self.item in (int, float):
            return parse_duration_ms(text)
        if self.item is Path:
            return checked_path(text)
        if self.choices:
            if text not in self.choices:
                raise UsageError(f"{text!r} is not one of {', '.join(self.choices)}")
            return text
        if self.item is str:
            return text
        return self.item.parse(text)

    def _number(self, value: float) -> str:
        if isinstance(value, int) and abs(value) > _LONGEST_NUMBER:
            return f"a number of more than {len(str(_LONGEST_NUMBER)) - 1} digits"
        if not math.isfinite(value):
            return str(value)
        return duration_text(value) if self.option.unit else plain_number(value)


@cache
def declared(struct: type[msgspec.Struct]) -> tuple[Declared, ...]:
    """The options that are declared on the fields of a struct, in the order of `--help`."""
    found = []
    for field in msgspec.structs.fields(struct):
        if get_origin(field.type) is Annotated:
            kind, *notes = get_args(field.type)
            options = [note for note in notes if isinstance(note, Option)]
            found += [Declared(field.name, option, _without_none(kind), field.default) for option in options]
    return tuple(sorted(found, key=lambda each: _order(each.option.group)))


def check_bounds(value: msgspec.Struct) -> None:
    """Raise UsageError, naming the option, for the first value that its declaration rules out."""
    for each in declared(type(value)):
        each.check(getattr(value, each.field))


def fields_of(value: msgspec.Struct, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The fields of `kind` in `value`, which is of that kind or of an extension of it."""
    return {name: getattr(value, name) for name in kind.__struct_fields__}


def words_of(value: msgspec.Struct, options: Iterable[Declared], usual: msgspec.Struct | None = None) -> Iterator[str]:
    """The words of the command line that say where `value` differs from `usual` (None: the defaults), for these
    options. What differs by having no value cannot be said, and is left out."""
    for each in options:
        if (found := getattr(value, each.field)) != (getattr(usual, each.field) if usual else each.default):
            yield from each.words(found)


def _without_none(kind: Any) -> Any:
    kinds = [each for each in get_args(kind) if each is not NoneType]
    return kinds[0] if NoneType in get_args(kind) else kind


def _order(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)
