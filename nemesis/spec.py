"""What `--nemesis` says: `partition:interval=4s,kind=hold+latency:delay=200ms`, or `none`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from fencepost.errors import UsageError
from fencepost.meant import meant, question
from fencepost.units import Duration, DurationRange
from nemesis.base import Mix, Nemesis, Turn
from nemesis.names import Names
from nemesis.registry import mixes, nemeses

NONE = "none"
_UNIONS = (Union, UnionType)
SHORTEST_INTERVAL_MS = 100.0
LONGEST_MS = 24 * 3_600_000.0
MOST_TTLS = 1_000.0
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """One nemesis and its options. `is_early`: it is played before others of its deck the first time."""

    nemesis: Nemesis
    options: msgspec.Struct
    is_early: bool = False

    @property
    def interval(self) -> Duration:
        """The mean time between the begins of two faults."""
        interval: Duration = self.options.interval  # type: ignore[attr-defined]
        return interval


@dataclass(frozen=True, slots=True)
class Lane:
    """Faults that follow each other. `deck`: where they are drawn from; each comes once before any comes again.
    `interval`: the mean time between the begins of two faults. `name`: of its random numbers. `turn`: when it plays;
    None: all the time."""

    name: str
    deck: tuple[Chosen, ...]
    interval: Duration
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """The lanes of a run, in the order of their names; `text` is what the user wrote. A nemesis has one lane, a mix
    several."""

    text: str
    lanes: tuple[Lane, ...]

    @property
    def chosen(self) -> tuple[Chosen, ...]:
        """The nemeses of all lanes."""
        return tuple(chosen for lane in self.lanes for chosen in lane.deck)


def parse_spec(text: str) -> Spec:
    """Read names joined by `+`, each with options after a colon, joined by commas; `none` alone is the empty spec.
    Raises UsageError for an unknown name, option or value, naming the known ones and the nearest."""
    try:
        return _parsed(text.strip())
    except UsageError:
        if (joined := _joined(text.strip())) is None:
            raise
        raise UsageError(f"--nemesis {text!r}: faults are joined by +, did you mean {joined}?") from None


def _parsed(text: str) -> Spec:
    if text == NONE:
        return Spec(text, ())
    known: dict[str, Nemesis | Mix] = {**nemeses(), **mixes()}
    given: dict[str, list[Lane]] = {}
    for part in text.split("+"):
        name, colon, options = (word.strip() for word in part.partition(":"))
        if name == NONE and not colon:
            raise UsageError(f"--nemesis {text!r}: none stands alone; leave it out or leave the others out")
        if name not in known:
            raise UsageError(f"--nemesis {text!r}: {_unknown('nemesis', name, [*known, NONE])}")
        if name in given:
            raise UsageError(f"--nemesis {text!r}: {name} is given twice; list all its options in one")
        if colon and not options:
            raise UsageError(f"--nemesis {text!r}: there is no option after {name}: ; leave the colon out")
        parsed = _parse_options(known[name], options)
        given[name] = _lanes_of_mix(mixes()[name], parsed) if name in mixes() else [_lane_of(nemeses()[name], parsed)]
    return Spec(text, tuple(lane for name in sorted(given) for lane in given[name]))


def _lane_of(nemesis: Nemesis, options: msgspec.Struct) -> Lane:
    chosen = Chosen(nemesis, options)
    return Lane(nemesis.name, (chosen,), chosen.interval)


def _lanes_of_mix(mix: Mix, options: msgspec.Struct) -> list[Lane]:
    interval: Duration = options.interval  # type: ignore[attr-defined]
    return [
        Lane(
            f"{mix.name}:{name}",
            tuple(
                dataclasses.replace(parse_spec(text).chosen[0], is_early=number < deck.early)
                for number, text in enumerate(deck.specs)
            ),
            dataclasses.replace(interval, amount=interval.amount / deck.pace),
            deck.turn,
        )
        for name, deck in mix.lanes(options).items()
    ]


def names_a_mix(text: str) -> bool:
    """Whether a mix is among the names of a spec, which may be wrong otherwise."""
    return any(part.partition(":")[0].strip() in mixes() for part in text.split("+"))


def with_option(text: str, option: str, value: str) -> str:
    """The spec with the option given to every nemesis that has it and does not say it itself: what a command-line
    option of its own means, written out. Raises UsageError if no nemesis of the spec has such an option."""
    field = option.replace("-", "_")
    parts: list[str] = []
    for part in text.split("+"):
        name, _, options = (word.strip() for word in part.partition(":"))
        nemesis = nemeses().get(name)
        said = {each.partition("=")[0].strip() for each in options.split(",")}
        if nemesis is not None and field in nemesis.options.__struct_fields__ and option not in said:
            _parse_value(f"{name}:{option}", get_type_hints(nemesis.options)[field], value)
            options = f"{options},{option}={value}" if options else f"{option}={value}"
            parts.append(f"{name}:{options}")
        else:
            parts.append(part)
    if parts == text.split("+"):
        having = ", ".join(name for name, each in nemeses().items() if field in each.options.__struct_fields__)
        raise UsageError(f"--{option} changes nothing in --nemesis {text!r}; nemeses that have it: {having}")
    return "+".join(parts)


def _parse_options(nemesis: Nemesis | Mix, text: str) -> msgspec.Struct:
    hints = get_type_hints(nemesis.options)
    names = {name.replace("_", "-"): name for name in hints}
    values: dict[str, object] = {}
    for part in _split(text):
        option, equals, value = (word.strip() for word in part.partition("="))
        if option not in names:
            raise UsageError(f"--nemesis {nemesis.name}: {_unknown('option', option, names)}")
        if not equals or not value:
            raise UsageError(f"--nemesis {nemesis.name}: option {option} has no value; write {option}=VALUE")
        if names[option] in values:
            raise UsageError(f"--nemesis {nemesis.name}: option {option} is given twice; keep one")
        values[names[option]] = _parse_value(f"{nemesis.name}:{option}", hints[names[option]], value)
    return nemesis.options(**values)


def _split(text: str) -> list[str]:
    """The options of a nemesis. A part that names a node and has no value of its own belongs to the list before it."""
    parts: list[str] = []
    for part in text.split(",") if text else ():
        if parts and "=" not in part and Names.parse(part):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _parse_value(option: str, hint: Any, text: str) -> object:
    """By the type of the option: one of some words, names of nodes, a whole number, a duration, a range of them, or
    whatever parses itself."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if get_origin(hint) in _UNIONS else [hint]
    if Names in kinds:
        try:
            if names := Names.parse(text):
                return names
        except UsageError as error:
            raise UsageError(f"--nemesis {option}: {error}") from None
        kinds.remove(Names)
    kind = kinds[0]
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise UsageError(f"--nemesis {option}: {_unknown('value', text, get_args(kind))}")
        return text
    if kind is int:
        if not text.isascii() or not text.isdecimal() or int(text) > MOST:
            raise UsageError(f"--nemesis {option}: {text!r} is not a whole number from 0 to {MOST}")
        return int(text)
    try:
        value = kind.parse(text)
        if isinstance(value, DurationRange) and value.low.in_ttls == value.high.in_ttls:
            value.ms(1)
    except UsageError as error:
        raise UsageError(f"--nemesis {option}: {error}") from None
    if not isinstance(value, Duration | DurationRange):
        return value
    ends = (value.low, value.high) if isinstance(value, DurationRange) else (value,)
    least = SHORTEST_INTERVAL_MS if option.endswith(":interval") else 0.0
    for end in ends:
        low, high, unit = (0.0, MOST_TTLS, "ttl") if end.in_ttls else (least, LONGEST_MS, "ms")
        if not low <= end.amount <= high:
            raise UsageError(
                f"--nemesis {option}: {end.amount:.0f}{unit} is not between {low:.0f} and {high:.0f}{unit}"
            )
    return value


def _joined(text: str) -> str | None:
    """What was meant by several faults that are not joined by `+`, or not all spelt well: `partition+crash`; None if
    that is not why the spec is wrong."""
    known = [*nemeses(), *mixes()]
    parts = re.split(r"\s*(?:[+;|&/]|\band\b|\s|,(?=\s*[a-z-]+\s*(?:$|[:+,;|&/\s])))\s*", text)
    parts = [part for part in parts if part]
    names = [part.partition(":") for part in parts]
    found = [name if name in known else meant(name, known) for name, _, _ in names]
    if len(parts) < 2 or None in found:
        return None
    joined = "+".join(f"{name}{colon}{options}" for name, (_, colon, options) in zip(found, names, strict=True))
    return None if joined == text else joined


def _unknown(what: str, found: str, known: Iterable[str]) -> str:
    """`nemesis 'partitoin' is not known, did you mean partition?`"""
    names = list(known)
    return f"{what} {found!r} is not known{question(found, names, 'known are ' + ', '.join(names))}"
