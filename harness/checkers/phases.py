"""What the lock did without faults, under faults, and after the heal.

`calm` is load while certainly no fault was in force, `faults` is the rest of the load, `recovery` is the time after
everything was healed. An operation belongs to the phase in which it was invoked, a section to the one in which it
started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from fencepost.text import count, milliseconds, number
from harness.checkers.liveness import Spread, spread
from harness.figures import CheckerFigures, Part, Row, Table, Tile
from harness.history.fault_windows import merged
from harness.history.groups import Codes, Ints, columns_of, where
from harness.history.recorded import Recorded
from harness.verdict import Answer

PHASES: Final = ("calm", "faults", "recovery")
_MOST_ERRORS: Final = 5
_COLUMNS: Final = (
    "seconds", "sections", "per second", "acquire ok", "refused", "unknown", "acquire p50", "acquire p99",
)  # fmt: skip


class Phase(msgspec.Struct, frozen=True):
    """One phase. `sections_per_s`: None for a phase of no length. `acquire_ok`, `acquire_fail`, `acquire_info`: calls
    by outcome; `acquire_ms_p50`, `acquire_ms_p99`: of granted ones, None without any. `errors`: the five most frequent
    ones of any operation."""

    seconds: float
    sections: int
    sections_per_s: float | None
    acquire_ok: int
    acquire_fail: int
    acquire_info: int
    acquire_ms_p50: float | None
    acquire_ms_p99: float | None
    errors: dict[str, int]

    def cells(self) -> tuple[str, ...]:
        """Under `_COLUMNS`."""
        return (
            number(self.seconds),
            count(self.sections),
            number(self.sections_per_s),
            count(self.acquire_ok),
            count(self.acquire_fail),
            count(self.acquire_info),
            milliseconds(self.acquire_ms_p50),
            milliseconds(self.acquire_ms_p99),
        )


class Figures(CheckerFigures, frozen=True):
    """A phase that did not happen is None. `acquire_ms`: how long granted acquires took, in all phases."""

    calm: Phase | None = None
    faults: Phase | None = None
    recovery: Phase | None = None
    acquire_ms: Spread | None = None

    @property
    def by_name(self) -> dict[str, Phase]:
        """The phases that happened, in order."""
        named = {"calm": self.calm, "faults": self.faults, "recovery": self.recovery}
        return {name: phase for name, phase in named.items() if phase is not None}

    @property
    def sections(self) -> int:
        return sum(phase.sections for phase in self.by_name.values())

    @property
    def sections_per_s(self) -> float | None:
        seconds = sum(phase.seconds for phase in self.by_name.values())
        return self.sections / seconds if seconds else None

    def rows(self) -> Iterator[Row]:
        """`1,234 (calm 41/s, faults 29/s, recovery 44/s)`."""
        rates = ", ".join(f"{name} {number(phase.sections_per_s)}/s" for name, phase in self.by_name.items())
        yield Row("sections", f"{count(self.sections)} ({rates})" if self.sections else count(0), order=10)

    def tiles(self) -> Iterator[Tile]:
        rate = "" if self.sections_per_s is None else f"{number(self.sections_per_s)} a second"
        yield Tile("Sections", count(self.sections), rate, order=10)

    def parts(self) -> Iterator[Part]:
        if not self.by_name:
            return
        tables = [Table("phase", _COLUMNS, tuple((name, phase.cells()) for name, phase in self.by_name.items()))]
        errors = tuple(
            (name, (count(times), text)) for name, phase in self.by_name.items() for text, times in phase.errors.items()
        )
        if errors:
            folded = "The most frequent errors"
            tables.append(Table("phase", ("times", "error"), errors, frozenset({"error"}), folded))
        yield Part(
            "By phase",
            order=10,
            note="calm: load while no fault was in force. Acquire: refused is definite; unknown may have been granted "
            "(a time-out).",
            tables=tuple(tables),
        )


def check(run: Recorded) -> Answer:
    start_ns, healed_ns, end_ns = _edges(run)
    faulty = merged(((since, until) for _, since, until in run.fault_windows), start_ns, healed_ns)
    faulty_ns = sum(until - since for since, until in faulty)
    length_ns = {"calm": healed_ns - start_ns - faulty_ns, "faults": faulty_ns, "recovery": end_ns - healed_ns}
    ops, sections = run.ops, run.sections
    times = (ops["invoke_ns"], sections["start_ns"])
    asked, began = (_phase(each.to_numpy(np.int64), faulty, healed_ns) for each in times)
    phases = {
        name: _seen(ops[asked == place], length_ns[name] / 1e9, int((began == place).sum()))
        for place, name in enumerate(PHASES)
        if length_ns[name] > 0 or (began == place).any()
    }
    return Answer(Figures(**phases, acquire_ms=spread(_acquire_ms(ops))))


def _edges(run: Recorded) -> tuple[int, int, int]:
    """Start, heal and end; in a run that was cut short, the last recorded thing replaces those it did not reach."""
    timeline = run.timeline
    last = int(run.ops["complete_ns"].max()) if len(run.ops) else timeline.start_ns
    end_ns = max(timeline.start_ns, timeline.stop_ns or last)
    return timeline.start_ns, min(timeline.healed_ns or end_ns, end_ns), end_ns


def _phase(at: Ints, faulty: list[tuple[int, int]], healed_ns: int) -> Codes:
    """The number of the phase at each of the moments. A moment lies in a fault if more of them began than ended."""
    began = np.array([since for since, _ in faulty], np.int64)
    ended = np.array([until for _, until in faulty], np.int64)
    in_fault = np.searchsorted(began, at, "right") > np.searchsorted(ended, at, "left")
    return np.where(at >= healed_ns, np.int8(2), in_fault.view(np.int8))


def _seen(ops: pd.DataFrame, seconds: float, sections: int) -> Phase:
    """`ops`: those of the phase."""
    acquires, took_ms = where(ops, f="acquire"), _acquire_ms(ops)
    p50, p99 = np.percentile(took_ms, [50, 99]).tolist() if len(took_ms) else (None, None)
    # In the order of the names' first appearance, which decides between errors that are as frequent.
    outcomes, errors = (
        Counter({str(name): int(times) for name, times in names.value_counts(sort=False).items()})
        for names in (acquires["outcome"], ops["error"])
    )
    return Phase(
        seconds=seconds,
        sections=sections,
        sections_per_s=sections / seconds if seconds > 0 else None,
        acquire_ok=outcomes["ok"],
        acquire_fail=outcomes["fail"],
        acquire_info=outcomes["info"],
        acquire_ms_p50=p50,
        acquire_ms_p99=p99,
        errors=dict((+errors).most_common(_MOST_ERRORS)),
    )


def _acquire_ms(ops: pd.DataFrame) -> npt.NDArray[np.float64]:
    """How long granted acquires took."""
    invoke, complete = columns_of(where(ops, f="acquire", outcome="ok"), "invoke_ns", "complete_ns")
    return (complete - invoke) / 1e6
