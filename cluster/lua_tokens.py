"""The tokens of a Lua script, and what short sequences of them mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_TOKEN: Final = re.compile(
    r"""--\[(?P<c>=*)\[.*?\](?P=c)\]|--[^\n]*|\s+"""
    r"""|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[(?P<e>=*)\[.*?\](?P=e)\])"""
    r"""|(?P<word>[A-Za-z_]\w*|\d[\w.]*|\.\.\.|\.\.|[=~<>]=|.)""",
    re.DOTALL,
)
_LITERALS: Final[Mapping[str, str]] = {"nil": "null", "false": "null", "true": "1"}
"""How Lua's values are answered."""


def tokens_of(text: str) -> list[str]:
    """Texts begin with a quote, all others do not."""
    found = []
    for match in _TOKEN.finditer(text):
        if match["text"] is not None:
            inner = match["text"]
            found.append('"' + (inner[1:-1] if inner[0] in "\"'" else inner.strip("[]=")))
        elif match["word"] is not None:
            found.append(match["word"])
    return found


def split_at(tokens: Sequence[str], word: str) -> list[list[str]]:
    """The parts between these words; one that has brackets open is no part, and tells nothing."""
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == word:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part if part.count("(") == part.count(")") else [] for part in parts]


def closing(tokens: Sequence[str], at: int) -> int:
    """The place of the bracket that closes the one there."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place] == "(") - (tokens[place] == ")")
        if not depth:
            return place
    return -1


def literal_of(tokens: Sequence[str]) -> str | None:
    """What is answered, as JSON, if the expression is a literal; None if it is not."""
    match list(tokens):
        case []:
            return "null"
        case [word] if word in _LITERALS:
            return _LITERALS[word]
        case [number] if number.isdecimal():
            return str(int(number))
        case ["-", number] if number.isdecimal():
            return str(-int(number))
        case _:
            return None
