"""What a scripted experiment expects of its verdict, said before it runs. Expectations are joined by `&`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.verdict import Blame, Verdict


@dataclass(frozen=True, slots=True)
class Expectation:
    """`says`: in words; `holds`: of a judged run."""

    says: str
    holds: Callable[[Verdict], bool]

    def __and__(self, other: Expectation) -> Expectation:
        return Expectation(
            f"{self.says}, and {other.says}", lambda verdict: self.holds(verdict) and other.holds(verdict)
        )


def overlaps_blamed_on(blame: Blame) -> Expectation:
    """Two clients were inside at once, and that was the fault of `blame` (`lock`, `client` or `undecided`)."""
    return Expectation(f"two holders at once, blamed on the {blame}", lambda verdict: _overlaps(verdict, blame) > 0)


def no_overlaps_blamed_on(blame: Blame) -> Expectation:
    return Expectation(f"no overlap blamed on the {blame}", lambda verdict: _overlaps(verdict, blame) == 0)


def no_overlaps() -> Expectation:
    """Never were two clients inside at once, whoever would be to blame."""
    return Expectation(
        "never two holders at once", lambda verdict: _count(verdict, "exclusion", "overlapping_pairs") == 0
    )


def sections(number: int) -> Expectation:
    """So many times was a client let in: keeps an experiment in which nothing happened from passing."""
    return Expectation(f"{number} sections in all", lambda verdict: _count(verdict, "exclusion", "sections") == number)


def lost_updates() -> Expectation:
    return Expectation("an acknowledged update is lost", lambda verdict: _count(verdict, "counter", "lost") > 0)


def no_lost_updates() -> Expectation:
    return Expectation("no acknowledged update is lost", lambda verdict: _count(verdict, "counter", "lost") == 0)


def stale_writes_refused() -> Expectation:
    """Fencing at work."""
    return Expectation(
        "the resource refuses a stale write", lambda verdict: _count(verdict, "fencing", "stale_writes_rejected") > 0
    )


def _overlaps(verdict: Verdict, blame: Blame) -> int:
    by_blame = verdict.figures["exclusion"]["overlaps"]
    assert isinstance(by_blame, dict)
    return int(by_blame[blame])


def _count(verdict: Verdict, checker: str, figure: str) -> int:
    value = verdict.figures[checker][figure]
    assert isinstance(value, int)
    return value
