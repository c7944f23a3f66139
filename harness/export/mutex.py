"""The history of a lock as a mutex has it: acquire and release, for judges that ask for linearizability.

Such a judge knows no leases, so a recorded run has to be read in its terms first. A section ends where its release is
*invoked*, whatever became of the release: a lease may be gone by then, and a release that is refused, or never
answered, still ends the section. So a release is a point in time. With this reading *no two sections overlap* and
*linearizable* mean the same (tests/peers/README.md has the proof).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fencepost.errors import UsageError
from fencepost.history import Outcome
from harness.export.formats import Choice
from harness.export.tables import records
from harness.history.recorded import Recorded


@dataclass(frozen=True, slots=True)
class MutexStep:
    """One acquire or release of one life of one client.

    `outcome`: `info` for a release that never came, because its client was killed or cut off inside: the lock comes
    free some time later. `reentry`: a granted acquire that was complete in the very nanosecond in which the same
    client's section before it ended.
    """

    f: Literal["acquire", "release"]
    client: str
    life: int
    key: str
    section: int
    outcome: Outcome
    invoke_ns: int
    complete_ns: int
    reentry: bool = False


def mutex_steps(run: Recorded, choice: Choice, name: str) -> Iterator[MutexStep]:
    """The steps of the run: the granted sections by start, each with its end, then the acquires without a grant.

    A section whose lease was over before it began has no certain (or possible) window, and no steps. `name`: of the
    format. Raises UsageError if the workload lets several clients in at once.
    """
    if not run.is_exclusive:
        raise UsageError(f"--to {name} writes the history of a mutex; this run's lock lets several clients in at once")
    acquires = list(records(run.ops[(run.ops["f"] == "acquire").to_numpy()]))
    invoked = {(op["client"], op["life"], op["section"]): op["invoke_ns"] for op in acquires if op["outcome"] == "ok"}
    last_end: dict[tuple[str, int, str], int] = {}
    limit = {"section": "end_ns", "possible": "deadline_max_ns", "certain": "deadline_min_ns"}[choice.window]
    for row in records(run.sections):
        owner, key, section, start_ns = (row["client"], row["life"]), row["key"], row["section"], row["start_ns"]
        reentry = last_end.get((*owner, key)) == start_ns
        last_end[*owner, key] = row["end_ns"]
        until_ns = min(row["end_ns"], row[limit])
        if until_ns < start_ns:
            continue
        yield MutexStep("acquire", *owner, key, section, "ok", invoked[*owner, section], start_ns, reentry)
        left: Outcome = "ok" if row["ended"] == "release" else "info"
        yield MutexStep("release", *owner, key, section, left, until_ns, until_ns)
    for op in acquires:
        if op["outcome"] != "ok":
            same = op["client"], op["life"], op["key"], op["section"], op["outcome"]
            yield MutexStep("acquire", *same, op["invoke_ns"], op["complete_ns"])
