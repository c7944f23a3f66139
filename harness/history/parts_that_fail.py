"""The parts of a lock that may fail. This module imports no tables: an experiment says what it expects without them."""

from __future__ import annotations

from typing import Final, Literal

Part = Literal["library", "servers", "clock", "client's clock", "unknown"]
PARTS: Final[tuple[Part, ...]] = ("library", "servers", "clock", "client's clock", "unknown")
IN_WORDS: Final[dict[Part, str]] = {
    "library": "the library did wrong",
    "servers": "servers forgot keys",
    "clock": "a server's clock was wrong",
    "client's clock": "a client's clock was wrong",
    "unknown": "the record does not show which part failed",
}
"""Names of counts in published records, which stay as they are."""
AT_FAULT: Final[dict[Part, str]] = {
    "library": "library at fault",
    "servers": "server lost the key",
    "clock": "server clock wrong",
    "client's clock": "client clock wrong",
    "unknown": "the keys do not show why",
}
