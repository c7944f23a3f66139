"""What is new since the night before, in words."""

from __future__ import annotations

from collections.abc import Sequence

from harness.nightly.nights import LockNight, Night


def changes(nights: Sequence[Night]) -> list[str]:
    """A sentence each; of the last night, against the last one before it in which the lock was played."""
    if len(nights) < 2:
        return []
    tonight = nights[-1]
    said = [text for played in tonight.played if (text := _change(played, before(nights, played)))]
    if tonight.revision != nights[-2].revision:
        said.append(f"fencepost itself has changed, from {nights[-2].revision or '?'} to {tonight.revision or '?'}.")
    return said


def before(nights: Sequence[Night], played: LockNight) -> LockNight | None:
    """The same lock on the same cluster in the last night before that has it."""
    for night in reversed(nights[:-1]):
        for other in night.played:
            if (other.lock, other.cluster) == (played.lock, played.cluster):
                return other
    return None


def _change(now: LockNight, then: LockNight | None) -> str:
    where = f"{now.lock} on {now.cluster}"
    if then is None:
        return f"{where} was never played before."
    if now.violations and not then.violations:
        return f"{where} has a violation, and had none."
    if then.violations and not now.violations:
        return f"{where} has no violation, and had one."
    return ""
