"""What a lock, a library or a server says may quote the password of a run. It is hidden before it is written down."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

TELLING: Final = 8
"""So many of its first characters are no chance: a text that was cut off may end within the password."""
_STARS: Final = b"***"


def hidden(text: bytes, secret: str | None) -> bytes:
    """The text with the secret, or the beginning of it, replaced by stars; as it is if there is none."""
    if not secret or secret[:TELLING].encode() not in text:
        return text
    return _beginnings(secret.encode()).sub(_STARS, text)


@cache
def _beginnings(secret: bytes) -> re.Pattern[bytes]:
    whole = [re.escape(secret[:length]) for length in range(len(secret), min(len(secret), TELLING) - 1, -1)]
    return re.compile(b"|".join(whole))
