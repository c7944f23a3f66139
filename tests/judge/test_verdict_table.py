"""The table "Difficult cases" of docs/verdicts.md, one tiny history per row. TTL 100 ms, times in ms."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.history import ClientEnd
from harness.checkers.exclusion import check
from harness.history.open_ended_leases import with_open_ended_leases
from tests.judge.histories import History, ms

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "verdicts.md"


def lost_release() -> History:
    return History().section("c1", 0, None).op("c1", "release", "info", 1, 10, 60)


def killed() -> History:
    return History().section("c1", 0, None).end("c1", "killed", 30)


def killed_late() -> History:
    return History().section("c1", 0, None).end("c1", "killed", 150)


def killed_releasing() -> History:
    """It wrote at 10, and was killed at 30 before it recorded when it started to release."""
    history = History().section("c1", 0, None).op("c1", "write", "ok", 1, 9, 10, value=1)
    history.ends.append(ClientEnd("c1", 1, "killed", ms(30), "releasing"))
    return history


def extended(outcome: str, complete: float) -> History:
    history = History().section("c1", 0, None)
    lease = {"validity_ms": 99.0, "deadline_ns": ms(complete + 100)} if outcome == "ok" else {}
    history.op("c1", "extend", outcome, 1, complete - 10, complete, **lease)
    return history.op("c1", "release", "ok", 1, 150, 151)


def cut_off() -> History:
    return History().section("c1", 990, None).fault("p1", 1000, None, paused_clients=("c1",)).end("c1", "cut-off", 1200)


def paused_before_the_stamp(deadline: bool) -> History:
    """Granted at about 1, stopped from 2 to 299, recorded at 300 as "99 ms left", although nothing was left."""
    history = History().fault("p1", 2, 299, paused_clients=("c1",))
    more = {"deadline_ns": ms(100)} if deadline else {"computed_after_ns": ms(299.5), "computed_before_ns": ms(300)}
    history.op("c1", "acquire", "ok", 1, 0, 300, validity_ms=99.0, requested_ns=ms(0.5), **more)
    return history.op("c1", "release", "ok", 1, 350, 351)


def open_ended(released: str, *, calm: bool = False) -> History:
    history = History().op("c1", "acquire", "ok", 1, 1, 20).op("c1", "release", released, 1, 60, 61)
    return history if calm else history.fault("p1", 21, 25, cut_links=(("c1", "n1"),))


TABLE: dict[str, tuple[Callable[[], History], float, str]] = {
    "the release was lost; the other entered after it was invoked": (lost_release, 11, "none"),
    "the release was lost; the other entered as it was invoked": (lost_release, 10, "lock"),
    "a client was killed inside; the other entered before that": (killed, 20, "lock"),
    "a client was killed inside; the other entered as it was killed": (killed, 30, "lock"),
    "a client was killed inside; the other entered after that": (killed, 31, "none"),
    "a client was killed while it released; the other entered before that": (killed_releasing, 20, "none"),
    "a client was killed while it released; the other entered before its last step was complete": (
        killed_releasing,
        10,
        "lock",
    ),
    "a client outlived its lease inside and was killed; the other entered in between": (killed_late, 120, "client"),
    "an acquire timed out, granted or not; the other entered in the meantime": (
        lambda: History().op("c1", "acquire", "info", 1, 0, 50),
        20,
        "none",
    ),
    "an acquire timed out, and a later attempt for the same section was granted": (
        lambda: History().op("c1", "acquire", "info", 1, 0, 50).section("c1", 100, 150, asked=60),
        90,
        "lock",
    ),
    "an extension came in time": (lambda: extended("ok", 60), 120, "lock"),
    "an extension was refused": (lambda: extended("fail", 60), 120, "client"),
    "an extension has no answer": (lambda: extended("info", 60), 120, "client"),
    "an extension came as the lease expired": (lambda: extended("ok", 100), 120, "lock"),
    "an extension came late": (lambda: extended("ok", 101), 120, "undecided"),
    "equal timestamps: one client left as the other entered": (lambda: History().section("c1", 0, 20), 20, "lock"),
    "equal timestamps: the lease expired as the other entered": (lambda: History().section("c1", 0, 150), 100, "lock"),
    "the lease expired just before the other entered": (
        lambda: History().section("c1", 0, 150, deadline=99.999999),
        100,
        "client",
    ),
    "the lease had expired before the client learned of it": (
        lambda: History().section("c1", 20, 60, deadline=10, asked=1),
        30,
        "client",
    ),
    "acquire() succeeded and reported an expired lease": (
        lambda: (
            History()
            .op("c1", "acquire", "ok", 1, 1, 20, validity_ms=-10.0, deadline_ns=ms(10))
            .op("c1", "release", "ok", 1, 60, 61)
        ),
        30,
        "undecided",
    ),
    "no time was promised, and the lock released it": (lambda: open_ended("ok"), 30, "lock"),
    "no time was promised, and its session had ended by the release": (lambda: open_ended("fail"), 30, "undecided"),
    "no time was promised, and the release has no answer": (lambda: open_ended("info"), 30, "undecided"),
    "no time was promised, and the lock said later that it is held": (
        lambda: open_ended("info").op("c1", "held", "ok", 1, 35, 36),
        30,
        "lock",
    ),
    "no time was promised, and the lock said before that it is held": (
        lambda: open_ended("info").op("c1", "held", "ok", 1, 25, 29),
        30,
        "undecided",
    ),
    "no time was promised, and nothing can have ended the session within a TTL": (
        lambda: open_ended("fail", calm=True),
        30,
        "lock",
    ),
    "the run ended during a pause; the other entered within the lease": (cut_off, 1010, "lock"),
    "the run ended during a pause; the other entered after the lease": (cut_off, 1100, "client"),
    "a pause between computing the validity and recording it": (
        lambda: paused_before_the_stamp(deadline=False),
        320,
        "undecided",
    ),
    "the same pause, and the lock reports its deadline": (
        lambda: paused_before_the_stamp(deadline=True),
        320,
        "client",
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_who_is_to_blame(case: str) -> None:
    """The other client is inside for 20 ms from `other` on, with its own lease if the lock promises one."""
    history, other, blamed = TABLE[case]
    made = history()
    if case.startswith("no time was promised"):
        made.op("c2", "acquire", "ok", 1, other - 1, other).op("c2", "release", "ok", 1, other + 20, other + 21)
    else:
        made.section("c2", other, other + 20)
    answer = check(with_open_ended_leases(made.recorded()))
    found = [finding.blame for finding in answer.findings]
    assert found == ([] if blamed == "none" else [blamed])


def test_the_document_shows_this_table() -> None:
    part = DOCUMENT.read_text().partition("### Difficult cases")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (.+?) \| \**(\w+)\** \|", part, re.MULTILINE)[1:]
    assert dict(rows) == {case: blamed for case, (_, _, blamed) in TABLE.items()}
