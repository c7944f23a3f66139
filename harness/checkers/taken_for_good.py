"""Did a request take something from the lock that no request gave back?

A token that a client popped, or a count that it raised, is gone for good if no request gives it back: the client was
killed, or its call was refused although its request had done it (the reply came too late, or never). A lock that gives
its keys a time to live, or that purges what clients left that are gone, does not need them to (`harness.history.
never_given_back`). What was taken is lost when the clients went on for `LEAST_MS` after everything was healed, and a
lease if that is longer, and for `LEAST_TTLS` leases after the call had ended, and no request had given it back. This
costs time and no safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.text import listed, plural, printable
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.requests import how_sent
from harness.figures import KeyFigures, Row
from harness.history.ledger import Change
from harness.history.never_given_back import never_given_back
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

LEAST_TTLS: Final = 2
LEAST_MS: Final = 2_000
_EXAMPLES: Final = 3


class Figures(KeyFigures, frozen=True):
    """`lost`: what was taken and never given back."""

    lost: int

    def rows(self) -> Iterator[Row]:
        if self.lost:
            yield Row("lost", f"{plural(self.lost, 'permit')} taken and never given back", order=86)


def check(run: Recorded) -> Answer:
    """No figures where it is not on record which request changed a key."""
    ledger, healed_ns, stop_ns = run.ledger, run.timeline.healed_ns, run.timeline.stop_ns
    if ledger is None or healed_ns is None or stop_ns is None or not len(ledger.rows):
        return Answer()
    by_ns, healed_by_ns = (
        stop_ns - round(max(leases * run.config.ttl_ms, LEAST_MS) * 1e6) for leases in (LEAST_TTLS, 1)
    )
    lost = list(never_given_back(run, ledger, by_ns)) if healed_ns <= healed_by_ns else []
    return Answer(Figures(len(lost)), (_finding(run, lost),) if lost else ())


def _finding(run: Recorded, lost: Sequence[Change]) -> Finding:
    keys = listed(list(dict.fromkeys(printable(str(change["key"])) for change in lost)))
    text = (
        f"{plural(len(lost), 'request')} took a permit of {keys} and no request ever gave it back, although the key "
        "does not expire"
    )
    known = [change for change in lost if change["cause"] == "request"]
    return TAKEN.found("lock", text, len(lost), [_example(run, change) for change in (known or lost)[:_EXAMPLES]])


def _example(run: Recorded, change: Change) -> dict[str, object]:
    example: dict[str, object] = {
        "key": str(change["key"]),
        "node": str(change["node"]),
        "at_ms": run.at_ms(change["at_ns"]),
        "command": str(change["did"]),
    }
    if change["cause"] != "request":
        return example
    return example | {
        "client": str(change["task"] or change["client"]),
        "outcome": str(change["outcome"] or ""),
        "sent": how_sent(run, change),
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    key = case.text("key")
    if "client" not in case.example:
        return Told(
            f"{case.text('node')} carried out {case.text('command')} at {case.at()} for a connection that its client "
            f"had left, and no request gave the permit of {key} back: it is lost for good.",
            cause="never given back",
        )
    client, sent = case.texts("client", "sent")
    then = _THEN.get(str(case.example["outcome"]), "was gone before the call ended")
    return Told(
        f"{client} took a permit of {key}: {sent}. {client} {then}, and no request gave the permit back: it is lost "
        "for good.",
        cause="never given back",
    )


_THEN: Final = {
    "ok": "was inside and left",
    "fail": "was told that it did not get one",
    "info": "was told of an error",
}
TAKEN: Final = FindingKind(
    "taken-for-good", "liveness", _told, stands_for="never given back", noun="permit(s) lost for good", surveyed="free"
)
