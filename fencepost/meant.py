"""What was perhaps meant by a word that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_NEAR: Final = 0.65
"""The share of letters that two words have in common (`difflib`). At 0.6, `help` would be near to `shell`."""


def meant(word: str, known: Iterable[str]) -> str | None:
    """The known word that is nearest to this one, in whatever case; None if none is near."""
    from difflib import get_close_matches  # every client may come here, and none as a rule

    by_form = {each.casefold(): each for each in known}
    near = get_close_matches(word.casefold(), by_form, n=1, cutoff=_NEAR)
    return by_form[near[0]] if near else None


def question(word: str, known: Iterable[str], otherwise: str) -> str:
    """What follows `… is not known` in an error: `, did you mean partition?`, or `; ` and what else is to be said."""
    near = meant(word, known)
    return f", did you mean {near}?" if near else f"; {otherwise}"
