"""Decoding lines into columns, thousands at a time, says what decoding one after the other says."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.history import Op, Write
from harness.store import columnar_json
from harness.store.column_chunks import MISSING, NameNumbers, Piece, kinds_of
from harness.store.columnar_json import ColumnDecoder

numbers = st.integers(0, 10**20).map(lambda n: n % 10 ** (n % 20)) | st.sampled_from([0, 9, 10, 99, 10**17, 2**63 - 1])
whole = st.builds(lambda n, sign: min(n, 2**63 - 1) * sign, numbers, st.sampled_from([1, 1, 1, -1]))
floats = st.floats(-4e12, 4e12) | st.builds(lambda n, k: n % 10**12 / 10**k, whole, st.integers(0, 8))
counts, moments = (st.builds(lambda n, most=most: n % most, numbers) for most in (10**12, 2**60))
texts = st.sampled_from(["", "k1", "k2", "k10", "it said no", "é\n", 'say "no"', "back\\slash"])
ops = st.builds(
    Op,
    texts,
    st.sampled_from(["ok", "fail", "info"]),
    texts,
    *[counts, moments, moments],
    value=st.none() | whole,
    validity_ms=st.none() | floats,
    token=st.none() | whole,
    stale=st.booleans(),
    error=st.none() | texts,
)


@pytest.fixture(autouse=True)
def _shapes_of_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar_json, "WORTH_A_SHAPE", 1)


def new_decoder(record: type[msgspec.Struct] = Op) -> tuple[ColumnDecoder, dict[str, NameNumbers]]:
    names = {name: NameNumbers() for name, kind in kinds_of(record).items() if kind == "name"}
    return ColumnDecoder(record, names), names


def records_in(
    piece: Piece, names: dict[str, NameNumbers], record: type[msgspec.Struct] = Op
) -> list[dict[str, object]]:
    """What the columns say, record by record."""
    found = []
    for row in range(len(piece)):
        one: dict[str, object] = {}
        for name, kind in kinds_of(record).items():
            value = piece.columns[name][row].item() if name in piece.columns else None
            if kind == "name":
                value = None if value is None else [*names[name].listed, None][value]
            elif kind == "bool":
                value = bool(value)
            elif value is not None and (math.isnan(value) if kind == "float" else value == MISSING):
                value = None
            one[name] = value
        found.append(one)
    return found


def said_by_msgspec(lines: bytes, record: type[msgspec.Struct] = Op) -> list[dict[str, object]]:
    return [msgspec.structs.asdict(one) for one in msgspec.json.Decoder(record).decode_lines(lines)]


def line_of(op: Op, *, with_nulls: bool) -> bytes:
    """As fencepost writes it, or with every field spelled out."""
    if not with_nulls:
        return msgspec.json.encode(op)
    return msgspec.json.encode({name: getattr(op, name) for name in op.__struct_fields__})


@settings(max_examples=300)
@given(st.lists(st.lists(st.tuples(ops, st.booleans()), min_size=1, max_size=6), max_size=5))
def test_the_columns_are_what_msgspec_decodes(pieces: list[list[tuple[Op, bool]]]) -> None:
    decoder, names = new_decoder()
    seen: dict[str, list[object]] = {name: [] for name in names}
    for piece in pieces:
        lines = b"\n".join(line_of(op, with_nulls=with_nulls) for op, with_nulls in piece)
        try:
            expected = said_by_msgspec(lines)
        except msgspec.ValidationError:  # a number is out of its bounds
            with pytest.raises(msgspec.ValidationError):
                new_decoder()[0].decode_lines(lines)
            continue
        assert records_in(decoder.decode_lines(lines), names) == expected
        for name, own in seen.items():
            own += [one[name] for one in expected if one[name] is not None]
    for name, own in names.items():
        assert own.listed == list(dict.fromkeys(seen[name])), "numbered in the order of their first appearance"


GOOD = b'{"f":"read","outcome":"ok","key":"k1","section":17,"invoke_ns":1234567890,"complete_ns":2,"validity_ms":90.25}'


@settings(max_examples=1000)
@given(
    st.integers(0, len(GOOD) - 1),
    st.integers(0, len(GOOD) - 1),
    st.sampled_from([*b'"\\0123459.-+eE{}[],: kn', 0x1F, 0x7F, 0xC3, 0xA9]),
    st.booleans(),
)
def test_a_changed_byte_is_read_or_refused_as_msgspec_does(at: int, other: int, byte: int, after: bool) -> None:
    """The shape of the good line is known. Also two bytes are changed, which may be the escape of a quote."""
    changed = bytearray(GOOD)
    changed[at] = byte
    if after:
        changed[other] = ord('"')
    lines = b"\n".join([GOOD, bytes(changed), GOOD])
    decoder, names = new_decoder()
    decoder.decode_lines(GOOD)
    try:
        expected = said_by_msgspec(lines)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        with pytest.raises(type(error)):
            decoder.decode_lines(lines)
    else:
        assert records_in(decoder.decode_lines(lines), names) == expected


@pytest.mark.parametrize("known", [b"", GOOD], ids=["at first", "after a good piece"])
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b'"section":17', b'"section":"17"'),
        (b'"section":17', b'"section":07'),
        (b'"section":17', b'"section":1.5'),
        (b'"section":17', b'"section":9223372036854775808'),
        (b'"section":17', b'"section":-9223372036854775808'),
        (b'"section":17', b'"section":-17'),
        (b'"section":17', b'"section":1000000000001'),
        (b'"complete_ns":2', b'"complete_ns":1152921504606846977'),
        (b'"complete_ns":2', b'"complete_ns":2,"value":9223372036854775807'),
        (b'"validity_ms":90.25', b'"validity_ms":4611686018428.5'),
        (b'"validity_ms":90.25', b'"validity_ms":1e308'),
        (b'"section":17,', b""),
        (b'"ok"', b'"fine"'),
        (b'"key":"k1"', b'"key":null'),
        (b'"complete_ns":2', b'"complete_ns":2,"value":"2"'),
        (b'"validity_ms":90.25', b'"validity_ms":NaN'),
        (b'"validity_ms":90.25}', b'"validity_ms":90.25'),
    ],
)
def test_what_is_no_operation_is_refused_whatever_the_log_has_shown(known: bytes, good: bytes, bad: bytes) -> None:
    decoder, _ = new_decoder()
    if known:
        decoder.decode_lines(known)
    with pytest.raises(msgspec.DecodeError):
        decoder.decode_lines(GOOD + b"\n" + GOOD.replace(good, bad))


def test_fields_that_nobody_knows_are_passed_over_in_every_piece() -> None:
    (decoder, names), odd = new_decoder(), GOOD.replace(b"}", b',"mood":"fine","value":7}')
    for lines in (GOOD, odd, odd, GOOD + b"\n" + odd):
        values = [one["value"] for one in records_in(decoder.decode_lines(lines), names)]
        assert values == [7 if b"mood" in line else None for line in lines.split(b"\n")]


@pytest.mark.parametrize("lines", [b"", b" ", b"\n", GOOD + b"\n \n" + GOOD, b"\n\n" + GOOD + b"\n", GOOD + b"\r\n"])
def test_lines_without_anything_are_passed_over(lines: bytes) -> None:
    decoder, names = new_decoder()
    assert records_in(decoder.decode_lines(lines), names) == said_by_msgspec(lines)


def test_a_field_that_is_there_twice_says_what_it_said_last() -> None:
    decoder, names = new_decoder()
    lines = GOOD.replace(b'"section":17', b'"section":17,"section":18')
    assert records_in(decoder.decode_lines(lines), names) == said_by_msgspec(lines)


def count_lines_of_msgspec(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    counted = [0]
    whole = columnar_json.piece_of

    def counting(records: list[msgspec.Struct], *rest: dict[str, NameNumbers]) -> Piece:
        counted[0] += len(records)
        return whole(records, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(columnar_json, "piece_of", counting)
    return lambda: counted[0]


def test_most_lines_never_become_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what all this is for."""
    monkeypatch.setattr(columnar_json, "WORTH_A_SHAPE", 64)
    by_msgspec = count_lines_of_msgspec(monkeypatch)
    rng = np.random.default_rng(1)
    told = [
        Op(
            "acquire" if n % 2 else "release",
            "ok",
            f"k{n % 1000}",
            int(rng.integers(1, 10**5)),
            10**15 + n,
            10**15 + n + int(rng.integers(1, 10**9)),
            validity_ms=round(float(rng.uniform(0, 1000)), 4) if n % 2 else None,
        )
        for n in range(20_000)
    ]
    decoder, names = new_decoder()
    lines = b"\n".join(msgspec.json.encode(op) for op in told)
    assert records_in(decoder.decode_lines(lines), names) == [msgspec.structs.asdict(op) for op in told]
    assert by_msgspec() < 2_000


def test_lines_that_are_each_alone_in_their_shape_are_left_to_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning a shape from each would take longer than decoding them does."""
    monkeypatch.setattr(columnar_json, "WORTH_A_SHAPE", 64)
    by_msgspec = count_lines_of_msgspec(monkeypatch)
    learned = [0]
    whole = columnar_json.LineShape.of

    def counting(*given: object) -> columnar_json.LineShape | None:
        learned[0] += 1
        return whole(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(columnar_json.LineShape, "of", counting)
    lines = b"\n".join(msgspec.json.encode(Op("read", "fail", "k1", 1, 2, 3, error=f"{n:05}")) for n in range(5_000))
    decoder, names = new_decoder()
    assert [one["error"] for one in records_in(decoder.decode_lines(lines), names)] == [f"{n:05}" for n in range(5_000)]
    assert by_msgspec() > 4_900
    assert learned[0] < 20


def test_writes_by_many_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    by_msgspec = count_lines_of_msgspec(monkeypatch)
    monkeypatch.setattr(columnar_json, "WORTH_A_SHAPE", 64)
    written = [Write(f"k{n % 700}", n, f"c{n % 256}", n // 7, n, read=n - 1) for n in range(1_000, 9_000)]
    decoder, names = new_decoder(Write)
    lines = b"\n".join(msgspec.json.encode(one) for one in written)
    found = records_in(decoder.decode_lines(lines), names, Write)
    assert found == [msgspec.structs.asdict(one) for one in written]
    assert by_msgspec() < 500
