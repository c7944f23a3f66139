"""The promises of a lock, and what `--require` asks for.

exclusion   never two clients inside at once (of a semaphore: never more than its permits)
lease       a client that is told that it holds the lock does hold it, for as long as it is told
liveness    a client gets a lock that is free, in time, and a lock that no client holds comes free
data        no acknowledged update is lost, no stale write accepted, and tokens grow
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Promise = Literal["exclusion", "lease", "liveness", "data"]
Belongs = Promise | Literal["record", "none"]
"""What a kind of finding belongs to. `record`: the record, or the resource that it stands on, cannot be trusted, which
is a violation whatever is required. `none`: it breaks no promise by itself, also where the lock is to blame."""

Surveyed = Literal["exclusive", "validity", "extension", "free", "orphans", "timeout", "tokens", "way in", "follows"]
"""What a kind of finding says of a library in the survey: the name of the promise that it breaks (`harness.survey`).
`way in`: the promise about the fault that was in force. `follows`: nothing more than the overlap that it follows
from."""

PROMISES: Final[tuple[Promise, ...]] = get_args(Promise)
KEPT_BY_THE_LOCK: Final[tuple[Promise, ...]] = ("lease", "liveness")
"""Only a finding that blames the lock breaks these. The others are broken regardless of who is to blame."""

LOCK: Final = "lock"
"""What is required by default: that no finding blames the lock for a broken promise."""
REQUIREMENTS: Final = (LOCK, *PROMISES)
ONE_OR_MORE: Final = (
    rf"(?:{'|'.join(REQUIREMENTS)})(?:\+(?:{'|'.join(REQUIREMENTS)}))*",
    f"{', '.join(REQUIREMENTS[:-1])} or {REQUIREMENTS[-1]}, or several of them joined by +",
)
"""What `--require` takes: a pattern, and the same in words."""


def required(require: str) -> tuple[str, ...]:
    """What the value of a `--require` names."""
    return tuple(dict.fromkeys(require.split("+")))
