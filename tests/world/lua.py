"""The Lua of the locks' scripts, translated to Python: a script is a few lines of comparisons and calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import floor
from types import SimpleNamespace
from typing import Any, Final

_TOKEN: Final = re.compile(r"""("[^"]*"|'[^']*')|(\d+)|(\w+)|(\.\.|==|~=|<=|>=|[-+*/<>=(){}\[\].,#])|(\n)|\s+""")
_WORDS: Final = {"nil": "None", "true": "True", "false": "False", "local": "", "unpack": "*unpack"}
_SIGNS: Final = {"~=": "!=", "..": "@", "#": "~", "{": "Table([", "}": "])"}


class Text(str):
    """Every text is true; it counts as its number in a sum."""

    def __bool__(self) -> bool:
        return True

    def __matmul__(self, other: object) -> Text:
        return Text(f"{self}{other}")

    def __invert__(self) -> Number:
        return Number(len(self))

    def __add__(self, other: Any) -> Number:  # type: ignore[override]
        return Number(self) + other

    def __mul__(self, other: Any) -> Number:  # type: ignore[override]
        return Number(self) * other

    def __truediv__(self, other: Any) -> Number:
        return Number(self) / other


class Number(float):
    """0 is true as well."""

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"{self:.17g}"

    def __add__(self, other: Any) -> Number:
        return Number(float(self) + float(other))

    def __mul__(self, other: Any) -> Number:
        return Number(float(self) * float(other))

    def __truediv__(self, other: Any) -> Number:
        return Number(float(self) / float(other))


class Table(list[Any]):
    """Counts from 1."""

    def __getitem__(self, place: Any) -> Any:
        at = int(place) - 1
        return list.__getitem__(self, at) if 0 <= at < len(self) else None


class StatusError(Exception):
    """What `redis.error_reply` answers."""


def run(script: str, keys: Sequence[str], arguments: Sequence[str], call: Callable[..., Any]) -> Any:
    """The reply, as Python has it. `call`: carries out a command; None is Lua's false."""

    def told(*words: object) -> Any:
        reply = call(*map(str, words))
        return False if reply is None else _from_reply(reply)

    redis = SimpleNamespace(call=told, error_reply=StatusError, status_reply=lambda text: text.encode())
    names = {"redis": redis, "KEYS": Table(map(Text, keys)), "ARGV": Table(map(Text, arguments))}
    return _to_reply(_translated(script)(names))


@cache
def _translated(script: str) -> Callable[[dict[str, Any]], Any]:
    lines, line, indent, depth = list[str](), list[str](), 1, 0

    def flush() -> None:
        if line:
            lines.append("    " * indent + " ".join(line))
            line.clear()

    for text, digits, word, sign, newline in _TOKEN.findall(script):
        if word in ("if", "return", "local"):
            flush()
        if word in ("then", "else"):
            line += [":"] if word == "then" else []
            flush()
            if word == "else":
                lines.append("    " * (indent - 1) + "else:")
            indent += word == "then"
        elif word in ("end", "elseif"):
            flush()
            indent -= 1
            line += ["elif"] if word == "elseif" else []
        elif newline:
            if not depth:
                flush()
        else:
            depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))
            said = f"Text({text})" if text else f"Number({digits})" if digits else _WORDS.get(word, word)
            line += filter(None, [said or _SIGNS.get(sign, sign)])
    flush()
    names: dict[str, Any] = dict(Text=Text, Number=Number, Table=Table, **_LIBRARY)
    exec("def script(redis, KEYS, ARGV):\n" + "\n".join(lines), names)
    return lambda given: names["script"](**given)


def _match(text: str, pattern: str) -> Text | None:
    found = re.search(pattern.replace("%", "\\"), text)
    return Text(found[1]) if found else None


def _tonumber(what: Any) -> Number | None:
    try:
        return Number(what)
    except (TypeError, ValueError):
        return None


_LIBRARY: Final = {
    "tonumber": _tonumber,
    "math": SimpleNamespace(floor=lambda value: Number(floor(value))),
    "string": SimpleNamespace(
        sub=lambda text, begin, end: Text(text[int(begin) - 1 : int(end) if end >= 0 else len(text) + 1 + int(end)]),
        match=_match,
    ),
    "unpack": lambda table, begin=1: list(table)[int(begin) - 1 :],
}


def _from_reply(reply: Any) -> Any:
    if isinstance(reply, list):
        return Table(map(_from_reply, reply))
    return Number(reply) if isinstance(reply, int) else reply if isinstance(reply, bytes) else Text(reply)


def _to_reply(value: Any) -> Any:
    """`bytes` is a status."""
    if isinstance(value, Table):
        return [_to_reply(each) for each in value]
    if value is None or value is False:
        return None
    return (
        int(value) if isinstance(value, Number) or value is True else str(value) if isinstance(value, Text) else value
    )
