"""A run that is under way, as its folder shows it: the logs are read as they grow, each line once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic_ns
from typing import Final, Generic, TypeVar

import msgspec

from fencepost.errors import UsageError
from fencepost.files import open_regular
from fencepost.history import FaultEvent, Timeline
from fencepost.text import MISSING, milliseconds, plural, printable
from harness.config import RunConfig
from harness.history.fault_windows import FOREVER_NS, longest_windows
from harness.report.wording import blame
from harness.serve.active_runs import has_ended, is_under_way
from harness.serve.live_message import Cell, Chart, LiveMessage
from harness.store.run_folder import RunFolder, client_logs
from harness.verdict import Finding

_RATE_OVER_S: Final = 3
_BINS: Final = 600
"""Of a chart, at most."""
S = TypeVar("S", bound=msgspec.Struct)


class _Step(msgspec.Struct, gc=False):
    """As much of an operation as is counted."""

    f: str
    outcome: str
    invoke_ns: int
    complete_ns: int


@dataclass(slots=True)
class _Tail(Generic[S]):
    """A log that grows."""

    path: Path
    decoder: msgspec.json.Decoder[S]
    at: int = 0

    def new(self) -> Sequence[S]:
        """The records since the last look. Raises UsageError for a file that is no log."""
        with open_regular(self.path) as file:
            file.seek(self.at)
            lines, newline, _ = file.read().rpartition(b"\n")
        self.at += len(lines) + len(newline)
        try:
            return self.decoder.decode_lines(lines)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.path} is damaged: {error}") from None


@dataclass(slots=True)
class RunSoFar:
    """Follows one run. `look` is called periodically, by one thread at a time."""

    folder: RunFolder
    _config: RunConfig | None = None
    _clients: dict[Path, _Tail[_Step]] = field(default_factory=dict)
    _nemesis: _Tail[FaultEvent] | None = None
    _events: list[FaultEvent] = field(default_factory=list)
    _per_second: Counter[int] = field(default_factory=Counter)
    _operations: int = 0
    _granted: dict[int, list[int]] = field(default_factory=dict)
    """How long acquire calls took that were granted, in ns, by the second; of the last seconds only."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come: it was judged, it was aborted, or its harness is gone."""
        path = self.folder.path
        if is_under_way(path):
            return False
        if (path / "manifest.json").exists():  # asked last: it may have been written since
            return (path / "verdict.json").exists() and (path / "report.html").exists()
        return True

    def look(self, findings: Sequence[Finding]) -> LiveMessage:
        """Read what is new. Raises UsageError if it cannot be understood."""
        self._config = config = self._config or self.folder.read_config()
        timeline = self.folder.read_timeline()
        if timeline is not None:
            self._follow(timeline.start_ns)
        total_s = (config.duration_ms + config.recovery_ms) / 1e3
        elapsed_s = 0.0 if timeline is None else self._elapsed_s(timeline, total_s)
        windows = longest_windows(self._events)
        in_force = [event for event, _, end_ns in windows if end_ns == FOREVER_NS]
        sections = self._per_second.total()
        return LiveMessage(
            texts={
                "state": self._state(timeline, elapsed_s, total_s),
                "sections": f"{sections:,}",
                "rate": f"{self._rate(elapsed_s):,.0f}",
                **self._latency(elapsed_s),
                "operations": f"{self._operations:,}",
                "injected": f"{sum(event.event == 'injected' for event in self._events):,}",
                "in-force": "" if in_force else "None right now.",
                "found": "" if findings else "None so far.",
            },
            share=1.0 if self._has_ended() else min(elapsed_s / total_s, 1.0),
            rows={
                "faults": [[Cell(printable(event.what)), Cell(printable(event.seen))] for event in in_force],
                "findings": [
                    [Cell(printable(each.text)), Cell(blame(each.blame), tone=f"blame-{each.blame}")]
                    for each in findings
                ],
            },
            chart=None if timeline is None else self._chart(timeline, windows, elapsed_s, total_s),
        )

    def _follow(self, start_ns: int) -> None:
        steps = msgspec.json.Decoder(_Step)
        for _, _, path in client_logs(self.folder.clients):
            for step in self._clients.setdefault(path, _Tail(path, steps)).new():
                self._operations += 1
                if step.f == "acquire" and step.outcome == "ok":
                    second = max(0, step.complete_ns - start_ns) // 1_000_000_000
                    self._per_second[second] += 1
                    self._granted.setdefault(second, []).append(step.complete_ns - step.invoke_ns)
        if (log := self.folder.path / "nemesis.jsonl").exists():
            self._nemesis = self._nemesis or _Tail(log, msgspec.json.Decoder(FaultEvent))
            self._events += self._nemesis.new()

    def _elapsed_s(self, timeline: Timeline, total_s: float) -> float:
        now_ns = timeline.end_ns or (timeline.start_ns + int(total_s * 1e9) if self._has_ended() else monotonic_ns())
        return max(0.0, (now_ns - timeline.start_ns) / 1e9)

    def _has_ended(self) -> bool:
        return has_ended(self.folder.path)

    def _state(self, timeline: Timeline | None, elapsed_s: float, total_s: float) -> str:
        assert self._config is not None
        if self._has_ended():
            judged = (self.folder.path / "verdict.json").exists()
            return "The run is over." if judged else "The run is over and is being judged."
        if timeline is None:
            return f"{plural(self._config.nodes, 'node')} and {plural(self._config.clients, 'client')} are starting."
        if timeline.stop_ns is not None:
            return "The clients are ending."
        phase = "Load under faults" if timeline.healed_ns is None else "Recovery: everything is healed"
        return f"{phase}, {elapsed_s:.0f} of {total_s:.0f} s"

    def _rate(self, elapsed_s: float) -> float:
        """Sections per second, over the last whole seconds."""
        now = int(elapsed_s)
        seconds = range(max(0, now - _RATE_OVER_S), now)
        return sum(self._per_second[second] for second in seconds) / len(seconds) if seconds else 0.0

    def _latency(self, elapsed_s: float) -> dict[str, str]:
        """The median and the longest of the granted acquire calls of the last whole seconds."""
        oldest = int(elapsed_s) - _RATE_OVER_S
        self._granted = {second: took for second, took in self._granted.items() if second >= oldest}
        took = [each / 1e6 for some in self._granted.values() for each in some]
        if not took:
            return {"acquire": MISSING, "slowest": MISSING}
        return {"acquire": milliseconds(median(took)), "slowest": milliseconds(max(took))}

    def _chart(
        self, timeline: Timeline, windows: Sequence[tuple[FaultEvent, int, int]], elapsed_s: float, total_s: float
    ) -> Chart:
        def since_start_s(at_ns: int) -> float:
            return round((at_ns - timeline.start_ns) / 1e9, 3)

        bin_s = max(1, math.ceil(total_s / _BINS))
        return Chart(
            total_s=total_s,
            bin_s=bin_s,
            sections=[
                sum(self._per_second[second] for second in range(first, first + bin_s))
                for first in range(0, int(min(elapsed_s, total_s)), bin_s)
            ],
            faults=[
                (since_start_s(began), None if done == FOREVER_NS else since_start_s(done), printable(event.what))
                for event, began, done in windows
            ],
        )
