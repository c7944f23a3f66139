"""The lines of a log as columns, thousands at a time.

Most lines of a log differ from an earlier one in the digits of their numbers only. Such a *shape* is learned from one
line, which msgspec decodes. All other lines of that shape are recognized and read by numpy, which makes no Python
object of any of them and is about four times as fast as msgspec is. Lines that are alone in their shape, or have none
(escapes, exponents, very long numbers), are msgspec's.

Nothing is guessed: a line has a shape only if all its bytes but the digits of numbers, and the letters of a few names,
are those of the line from which the shape was learned, and if what is in their place is a number or a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from harness.history.groups import stable_order
from harness.store.column_chunks import Array, Bounds, Kind, NameNumbers, Piece, absent, bounds_of, kinds_of, piece_of

WORTH_A_SHAPE: Final = 64
"""Lines. For fewer, learning and comparing takes longer than msgspec does."""
PIECE_BYTES: Final = 1 << 21
"""How much of a log to decode at a time. For less, numpy's calls take longer than their work."""
_KNOWN: Final = 16
"""Shapes of one length that are remembered."""
_TRIES: Final = 8
"""Lines of one length in one piece that may turn out to be alone in their shape, or to have none."""
_OPEN: Final = frozenset({"client", "key"})
"""Names of which a log may have thousands: their letters belong to no shape."""

_FIELD: Final = re.compile(
    rb'"(?P<name>[a-z_]+)":(?:(?P<sign>-?)(?P<whole>0|[1-9][0-9]*)(?:\.(?P<fraction>[0-9]+))?'
    rb'|"(?P<text>[ !#-\[\]-~]*)"|null|true|false)'
)
"""A field as fencepost writes it. Texts have no escapes and no bytes beyond ASCII."""
_SPACE, _QUOTE, _ZERO, _BACKSLASH, _TILDE = b' "0\\~'
_WORD: Final = 8
_EXACT_DIGITS: Final[Mapping[Kind, int]] = {"int": 18, "float": 15}
"""So many digits are always a number of that kind, and exactly: 10**15 and all powers of ten up to it are floats, so
one division rounds as it should (Clinger, "How to read floating point numbers accurately", 1990)."""

Lines = npt.NDArray[np.uint8]
"""Lines of equal length, one row each."""
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Number:
    name: str
    is_float: bool
    is_negative: bool
    whole: Span
    fraction: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class LineShape:
    """What lines have in common: each byte is at most `room` more than in `least`."""

    least: Lines
    room: Lines
    numbers: tuple[_Number, ...]
    texts: tuple[tuple[str, Span], ...]
    constants: tuple[tuple[str, str | bool], ...]

    @classmethod
    def of(
        cls,
        line: bytes,
        decode: Callable[[bytes], msgspec.Struct],
        kinds: Mapping[str, Kind],
        bounds: Mapping[str, Bounds],
    ) -> LineShape | None:
        """The shape of this line; None if it has none, or if a number with as many digits may be out of its bounds.
        Raises as `decode` does."""
        fields = list(_FIELD.finditer(line))
        if len({field["name"] for field in fields}) < len(fields):
            return None
        if b"{" + b",".join(field[0] for field in fields) + b"}" != line:
            return None
        record = decode(line)
        least, room = np.frombuffer(line, np.uint8).copy(), np.zeros(len(line), np.uint8)
        numbers, texts, constants = [], [], []
        for field in fields:
            name = field["name"].decode()
            kind = kinds.get(name)
            if kind is None:
                return None
            if field["whole"] is not None:
                whole, fraction = field.span("whole"), field.span("fraction") if field["fraction"] else None
                digits = len(field["whole"]) + len(field["fraction"] or b"")
                if digits > _EXACT_DIGITS.get(kind, 0) or (kind == "int" and fraction) or whole[0] < _WORD:
                    return None
                low, high = bounds[name]
                if (-low if field["sign"] else high) < 10 ** len(field["whole"]):
                    return None
                for begin, end in (whole, fraction or whole):
                    least[begin:end], room[begin:end] = _ZERO, 9
                if len(field["whole"]) > 1:  # JSON allows no zero in front
                    least[whole[0]], room[whole[0]] = _ZERO + 1, 8
                numbers.append(_Number(name, kind == "float", bool(field["sign"]), whole, fraction))
            elif name in _OPEN and field["text"]:
                begin, end = field.span("text")
                least[begin:end], room[begin:end] = _SPACE, _TILDE - _SPACE
                texts.append((name, (begin, end)))
            elif (value := getattr(record, name)) is not None:
                constants.append((name, value))
        return cls(least, room, tuple(numbers), tuple(texts), tuple(constants))

    def fit(self, lines: Lines) -> tuple[npt.NDArray[np.bool_], Lines]:
        """Which of the lines have this shape, and by how much each byte is more than the least."""
        more = lines - self.least
        within: npt.NDArray[np.bool_] = more <= self.room
        fitting: npt.NDArray[np.bool_] = np.ones(len(lines), np.bool_)
        if not within.all():
            fitting = np.all(within, axis=1)
        for _, (begin, end) in self.texts:
            text = lines[:, begin:end]
            fitting &= ~((text == _QUOTE) | (text == _BACKSLASH)).any(axis=1)
        return fitting, more

    def read(self, more: Lines, names: Mapping[str, NameNumbers]) -> Iterator[tuple[str, Array | int | bool]]:
        """The columns of lines of this shape, given by what `fit` says; a value that all of them share as such."""
        for name, value in self.constants:
            yield name, names[name][value] if isinstance(value, str) else value
        for name, (begin, end) in self.texts:
            yield name, _codes(more[:, begin:end] + np.uint8(_SPACE), names[name])
        for number in self.numbers:
            values: Array = _integers(more, number.whole)
            if number.whole[1] - number.whole[0] > 1:
                values += 10 ** (number.whole[1] - number.whole[0] - 1)
            if number.fraction:
                power = 10 ** (number.fraction[1] - number.fraction[0])
                values = (values * power + _integers(more, number.fraction)) / power
            elif number.is_float:
                values = values.astype(np.float64)
            yield number.name, -values if number.is_negative else values


def _integers(digits: Lines, span: Span) -> npt.NDArray[np.int64]:
    """The numbers in these columns, which hold the values of digits: eight digits in three steps, each of which joins
    neighbours (D. Lemire, "Number parsing at a gigabyte per second", 2021)."""
    begin, end = span
    total = np.zeros(len(digits), np.uint64)
    for power, last in zip((1, 10**8, 10**16), range(end, begin, -_WORD), strict=False):
        word = np.ndarray((len(digits),), "<u8", digits, last - _WORD, digits.strides[:1]).astype(np.uint64)
        others = max(0, begin - (last - _WORD))
        word &= np.uint64(2**64 - 2 ** (8 * others))
        for factor, shift, mask in (
            (10 * 2**8 + 1, 8, 0x00FF_00FF_00FF_00FF),
            (100 * 2**16 + 1, 16, 0x0000_FFFF_0000_FFFF),
            (10_000 * 2**32 + 1, 32, 0xFFFF_FFFF),
        ):
            word *= np.uint64(factor)
            word >>= np.uint64(shift)
            word &= np.uint64(mask)
        total += word * np.uint64(power)
    return total.view(np.int64)


def _codes(texts: Lines, names: NameNumbers) -> Array | int:
    """The numbers of names of the same length."""
    texts = np.ascontiguousarray(texts)
    if (texts == texts[0]).all():
        return names[texts[0].tobytes().decode()]
    distinct, which = np.unique(texts.view(f"S{texts.shape[1]}")[:, 0], return_inverse=True)
    return np.array([names[name.decode()] for name in distinct.tolist()], np.int32)[which]


class ColumnDecoder:
    """Decodes lines into columns, with the shapes that it has learned. `names`: the numbers of the names in each column
    of names, which grow."""

    def __init__(self, record: type[msgspec.Struct], names: Mapping[str, NameNumbers]) -> None:
        self._kinds, self._bounds, self._names = kinds_of(record), bounds_of(record), names
        decoder = msgspec.json.Decoder(record)
        self.decode, self._decode_all = decoder.decode, decoder.decode_lines
        self._known: dict[int, list[LineShape]] = {}

    def decode_lines(self, lines: bytes) -> Piece:
        """Raises as msgspec does for a line that is not a record."""
        buffer = np.frombuffer(lines, np.uint8)
        ends = np.append(np.flatnonzero(buffer == ord("\n")), len(buffer))
        starts = np.append(0, ends[:-1] + 1)
        lengths = ends - starts
        if len(starts) < WORTH_A_SHAPE or not lengths.all():
            return piece_of(self._decode_all(lines), self._kinds, self._names)
        columns, before = _Columns(len(starts), self._kinds), {name: len(own) for name, own in self._names.items()}
        others = []
        for length, rows in _by_length(lengths):
            if len(rows) >= WORTH_A_SHAPE:
                rows = self._read(_rows_of(buffer, starts[rows], length), rows, columns)
            others.append(rows)
        rows = np.sort(np.concatenate(others))
        records = self._decode_all(b"\n".join([lines[starts[row] : ends[row]] for row in rows]))
        if len(records) < len(rows):  # lines of spaces
            return piece_of(self._decode_all(lines), self._kinds, self._names)
        if records:
            for name, values in piece_of(records, self._kinds, self._names).columns.items():
                columns.put(rows, name, values)
        for name, count in before.items():
            if name in columns.found:
                _in_order(self._names[name], count - 1, columns.found[name])
        return Piece(len(starts), columns.found)

    def _read(self, lines: Lines, rows: Array, columns: _Columns) -> Array:
        """Put lines of one length, which have these rows, into the columns, shape by shape. The rows that are left."""
        known, alone, tries = self._known.setdefault(lines.shape[1], []), [], _TRIES
        while len(rows) >= WORTH_A_SHAPE and tries:
            shape = next((shape for shape in known if shape.fit(lines[:1])[0][0]), None)
            if shape is None:
                line = lines[0].tobytes()
                shape = LineShape.of(line, self.decode, self._kinds, self._bounds)
            if shape is None:
                alone.append(rows[:1])
                lines, rows, tries = lines[1:], rows[1:], tries - 1
                continue
            fitting, more = shape.fit(lines)
            own, rest = rows, rows[:0]
            if not fitting.all():
                own, more, rest = rows[fitting], more[fitting], rows[~fitting]
                lines = lines[~fitting]
            rows = rest
            for name, values in shape.read(more, self._names):
                columns.put(own, name, values)
            if len(own) < WORTH_A_SHAPE:
                tries -= 1
            elif shape not in known:
                known.insert(0, shape)
                del known[_KNOWN:]
        return np.concatenate([*alone, rows])


class _Columns:
    """The columns of a piece, filled in any order."""

    def __init__(self, rows: int, kinds: Mapping[str, Kind]) -> None:
        self._rows, self._kinds = rows, kinds
        self.found: dict[str, Array] = {}

    def put(self, rows: Array, name: str, values: Array | int | bool) -> None:
        if name not in self.found:
            self.found[name] = absent(self._kinds[name], self._rows)
        self.found[name][rows] = values


def _by_length(lengths: Array) -> Iterator[tuple[int, Array]]:
    """The rows of each length, in order."""
    order = stable_order(lengths)
    ordered = lengths[order]
    edges = np.flatnonzero(np.diff(ordered, prepend=-1, append=-1))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield int(ordered[begin]), order[begin:end]


def _rows_of(buffer: Lines, starts: Array, length: int) -> Lines:
    """The lines of this length that start there."""
    lines = np.ndarray((len(buffer) - length + 1,), f"V{length}", buffer, 0, (1,))[starts]
    return lines.view(np.uint8).reshape(len(starts), length)


def _in_order(names: NameNumbers, known: int, codes: Array) -> None:
    """Number the names after the first `known` ones in the order in which these codes have them first."""
    new: Sequence[str] = names.listed[known:]
    if len(new) < 2:
        return
    there, first = np.unique(codes, return_index=True)
    of_code = dict(zip(there.tolist(), first.tolist(), strict=True))
    order = sorted(range(len(new)), key=lambda number: of_code[known + number])
    for name in new:
        del names[name]
    numbers = np.arange(known + len(new) + 1)  # the last one is for -1
    numbers[-1] = -1
    for number in order:
        numbers[known + number] = names[new[number]]
    codes[:] = numbers[codes]
