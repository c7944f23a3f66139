"""The one way in which foreign text gets into Markdown: names of cells, words of verdicts, commands.

A `Markdown` is markup; any other string is foreign, and becomes one line of plain text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fencepost.text import printable, printable_lines

_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKUP: Final = re.compile(r"[\\`*\[\]|~$!#&<>{}]|(?<![^\W_])_|_(?![^\W_])")
_AT_THE_START: Final = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))")


class Markdown(str):
    """Text that is Markdown already."""

    __slots__ = ()


BREAK: Final = Markdown("<br>")
_NOTES: Final = re.compile(r"\A---\n.*?^---\n|<!--.*?-->", re.DOTALL | re.MULTILINE)


def without_notes(text: str) -> str:
    """Markdown of ours without what its readers do not see: comments, and what stands between dashes before it."""
    return _NOTES.sub("", text)


def escaped(text: str) -> Markdown:
    """Foreign text as one line of plain text. What is `Markdown` stays as it is."""
    if isinstance(text, Markdown):
        return text
    plain = _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), printable(text))
    return Markdown(_AT_THE_START.sub(lambda found: f"{found[1]}{_first(found[2])}", plain))


def joined(parts: Sequence[str], by: Markdown = BREAK) -> Markdown:
    """The parts, each escaped."""
    return Markdown(by.join(map(escaped, parts)))


def code(text: str) -> Markdown:
    """Foreign text as code within a line or a table."""
    plain = printable(text).replace("|", "\\|")
    fence = _fence(plain, 1)
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Markdown(f"{fence}{space}{plain}{space}{fence}")


def block(text: str) -> list[str]:
    """Foreign text as a block of code: its lines."""
    plain = printable_lines(text)
    fence = _fence(plain, 3)
    return [fence, plain, fence]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table: its lines."""
    return [_row(heads), f"|{'---|' * len(heads)}", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


def _first(sign: str) -> str:
    """What would begin a list is a character of the text."""
    return f"{sign}\\" if sign.isdigit() else f"\\{sign}"


def _fence(text: str, least: int) -> str:
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))
