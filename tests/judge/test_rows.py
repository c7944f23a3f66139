"""Decoding only the fields that a log has shown gives what decoding all of them would."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.history import Op
from harness.store.pieces import MISSING, Names, RowDecoder, kinds_of, piece_of

KINDS = kinds_of(Op)
whole = st.integers(-(2**63) + 1, 2**63 - 1)
texts = st.sampled_from(["", "k1", "it said no", "é\n"])
ops = st.builds(
    Op,
    texts,
    st.sampled_from(["ok", "fail", "info"]),
    texts,
    *[whole] * 3,
    value=st.none() | whole,
    validity_ms=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    stale=st.booleans(),
    error=st.none() | texts,
    reason=st.none() | st.sampled_from(["held", "late"]),
)


def line_of(op: Op, *, with_nulls: bool) -> bytes:
    """As fencepost writes it, or with every field spelled out."""
    if not with_nulls:
        return msgspec.json.encode(op)
    return msgspec.json.encode({name: getattr(op, name) for name in op.__struct_fields__})


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.tuples(ops, st.booleans()), min_size=1, max_size=4), max_size=5))
def test_rows_have_what_the_operations_had(pieces: list[list[tuple[Op, bool]]]) -> None:
    decoder, names = RowDecoder(Op), {name: Names() for name in KINDS}
    for piece in pieces:
        lines = b"\n".join(line_of(op, with_nulls=with_nulls) for op, with_nulls in piece)
        columns = piece_of(decoder.decode_lines(lines), KINDS, names)
        for name, kind in KINDS.items():
            expected = [getattr(op, name) for op, _ in piece]
            if name not in columns:
                assert not any(value is not None and value is not False for value in expected)
            elif kind == "name":
                listed = [*names[name].listed, None]
                assert [listed[code] for code in columns[name]] == expected
            else:
                absent = MISSING if kind == "int" else np.nan
                np.testing.assert_array_equal(columns[name], [absent if one is None else one for one in expected])


GOOD = b'{"f":"read","outcome":"ok","key":"k","section":1,"invoke_ns":1,"complete_ns":2}'


@pytest.mark.parametrize("known", [b"", GOOD], ids=["at first", "after a good piece"])
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b'"section":1', b'"section":"1"'),
        (b'"section":1', b'"section":1.5'),
        (b'"section":1', b'"section":9223372036854775808'),
        (b'"section":1', b'"section":-9223372036854775808'),
        (b'"section":1,', b""),
        (b'"ok"', b'"fine"'),
        (b'"key":"k"', b'"key":null'),
        (b'"complete_ns":2}', b'"complete_ns":2,"value":"2"}'),
        (b'"complete_ns":2}', b'"complete_ns":2,"validity_ms":NaN}'),
        (b'"complete_ns":2}', b'"complete_ns":2'),
    ],
)
def test_what_is_no_operation_is_refused_whatever_the_log_has_shown(known: bytes, good: bytes, bad: bytes) -> None:
    decoder = RowDecoder(Op)
    if known:
        decoder.decode_lines(known)
    with pytest.raises(msgspec.DecodeError):
        decoder.decode_lines(GOOD + b"\n" + GOOD.replace(good, bad))


def test_fields_that_nobody_knows_are_passed_over_in_every_piece() -> None:
    decoder, odd = RowDecoder(Op), GOOD.replace(b"}", b',"mood":"fine","value":7}')
    for lines in (GOOD, odd, odd, GOOD + b"\n" + odd):
        rows = decoder.decode_lines(lines)
        names = {name: Names() for name in KINDS}
        value = piece_of(rows, KINDS, names).get("value", np.full(len(rows), MISSING))
        assert value.tolist() == [7 if b"mood" in line else MISSING for line in lines.split(b"\n")]
