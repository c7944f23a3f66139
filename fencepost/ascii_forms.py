"""ASCII forms of what fencepost prints, for a terminal or a file that takes no more than its encoding has."""

from __future__ import annotations

import codecs
import os
import unicodedata
from collections.abc import Mapping
from typing import Final

ERRORS: Final = "fencepost-ascii"
"""The name of the error handler: what a stream cannot encode is written in its ASCII form."""

_FORMS: Final[Mapping[str, str]] = {
    "…": "...", "·": "-", "µ": "u", "μ": "u", "×": "x", "−": "-", "–": "-", "—": "--", "±": "+/-", "≤": "<=",
    "≥": ">=", "≠": "!=", "“": '"', "”": '"', "„": '"', "’": "'", "‘": "'", "✓": "yes", "✗": "no", "→": "->",
    "←": "<-", "•": "*", "°": " deg", "\N{REPLACEMENT CHARACTER}": "?", "█": "#", "▓": "%", "▒": "=", "░": ".",
    "━": "-", "─": "-", "═": "=", "│": "|", "┃": "|", "║": "|", "╸": "-", "╺": "-", "╌": "-", "╎": ":",
    "⋮": ":", "▶": ">", "◀": "<", "\u2028": " ", "\u2029": " ",
}  # fmt: skip
_BOXES: Final = range(0x2500, 0x2580)
_BRAILLE: Final = range(0x2800, 0x2900)


def ascii_form(character: str) -> str:
    """`...` for an ellipsis, `e` for an accented one; an escape like `\\u4e2d` where there is no form."""
    form = _FORMS.get(character)
    if form is None and ord(character) in _BOXES:
        form = "+"
    elif form is None and ord(character) in _BRAILLE:
        form = "*"
    elif form is None:
        form = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return form or character.encode("ascii", "backslashreplace").decode()


def register() -> None:
    """Let streams use the handler."""
    codecs.register_error(ERRORS, _in_ascii)


def encoding() -> str | None:
    """`ascii` where the user's locale is C or POSIX, which Python would take for UTF-8; None where it is as Python
    says. (A locale that is not set at all is as Python says: containers have none.)"""
    if os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8"):
        return None
    names = (os.environ.get(variable, "") for variable in ("LC_ALL", "LC_CTYPE", "LANG"))
    # Python itself sets LC_CTYPE=C.UTF-8 where LANG is C (PEP 538).
    chosen = next((name for name in names if name and name != "C.UTF-8"), "")
    return "ascii" if chosen in ("C", "POSIX") else None


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(ascii_form, error.object[error.start : error.end])), error.end
