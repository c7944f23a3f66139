"""Values that a careless or hostile hand may put anywhere: numbers, texts, JSON, files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

NUMBERS: Final = st.one_of(
    st.integers(-3, 300),
    st.integers(-(10**30), 10**30),
    st.sampled_from([2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**400]),
    st.floats(),
)
TEXTS: Final = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "\x1b[2J\x1b]0;owned\x07",
            "[bold red]loud[/]",
            "<script>alert(1)</script>",
            "two\nlines\r\n",
            "a|b`c`",
            "\u202eright to left",
            "\x9b31m",
            "../../up",
            "x" * 255,
            "x" * 5_000,
            "9" * 400,
            "NaN",
            "-inf",
            "1e400",
            "%s%n{}{0}",
            "\x00",
        ]
    ),
    st.text(max_size=30),
)
JSON: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
BYTES: Final = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [b"", b"{", b"[" * 100_000, b'{"a":' * 20_000, b"\xff\xfe", b"\x00" * 50, b"null", b"[]", b"{}", b"1e400"]
    ),
    st.builds(lambda value: dumped(value), JSON),
)


def dumped(value: Any) -> bytes:
    """JSON as Python writes it: also NaN, lone surrogates and numbers of any length."""
    return json.dumps(value).encode(errors="surrogatepass")


@st.composite
def damaged_json(draw: st.DrawFn, document: Any) -> bytes:
    """The document with something else in one to three places of it."""
    value = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        value = _replaced(draw, value)
    data = dumped(value)
    if draw(st.integers(0, 9)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    return data


def _replaced(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        match draw(st.integers(0, 9)):
            case 0:
                return {name: each for name, each in value.items() if name != key}
            case 1:
                return {**value, draw(TEXTS): draw(JSON)}
        return {**value, key: _replaced(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        if draw(st.integers(0, 9)) == 0:
            return [*value[: at + 1], *value[at:]]
        return [*value[:at], _replaced(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, str):
        return draw(st.one_of(TEXTS, TEXTS.map(lambda text: value + text), JSON))
    if isinstance(value, int | float):
        return draw(st.one_of(NUMBERS, JSON))
    return draw(JSON)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


INSTEAD: Final[dict[str, Callable[[Path], None]]] = {
    "nothing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": _fifo,
    "a device without an end": _link("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": _link("nowhere"),
    "a link to a long name": _link("x" * 255),
}
"""What may be where a file should be."""


def put_instead(path: Path, what: str) -> None:
    path.unlink()
    INSTEAD[what](path)
