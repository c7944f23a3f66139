"""A run that is under way: its folder grows as the test says, and its state is held as by a living harness."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cluster.lifetime import RunState
from fencepost.history import ClientEnd, FaultEvent, Op, Timeline
from harness.config import RunConfig
from harness.session import judge_and_draw
from harness.store.append_log import AppendLog
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from tests.peers.recorded import complete


class LiveRun:
    """A context manager. `place`: what `serving` got. Times are ms since the start of its load."""

    def __init__(self, place: Path, **settings: Any) -> None:
        wanted = {"seed": 1, "clients": 2, "nodes": 3, "ttl_ms": 1000, "nemesis": "none", "duration_ms": 600_000}
        self.folder = RunFolder.create(place / "runs", RunConfig(**wanted | settings))
        long_ago = time.time() - 3600  # what has just begun is taken for under way, whoever lives
        os.utime(self.folder.path / "config.json", (long_ago, long_ago))
        self._state = RunState.create(self.folder.name, parent=place / f"fencepost-{os.getuid()}")
        self._start_ns = time.monotonic_ns() - 10_000_000_000

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.close()

    def ns(self, at_ms: float) -> int:
        return self._start_ns + int(at_ms * 1e6)

    def begin(self) -> None:
        """The load begins: ten seconds ago."""
        self.folder.write_timeline(Timeline(start_ns=self._start_ns))

    def section(self, client: str, start_ms: float, end_ms: float) -> None:
        """A section within its validity."""
        began, ended = self.ns(start_ms), self.ns(end_ms)
        lease = {"validity_ms": 1000.0, "deadline_ns": began + 1_000_000_000}
        with AppendLog(self.folder.client_log(client, 1)) as log:
            log.append(Op("acquire", "ok", "k1", 1, began - 1_000_000, began, **lease))
            log.append(Op("release", "ok", "k1", 1, ended, ended + 1_000_000))

    def fault(self, event: Any, what: str, at_ms: float) -> None:
        """`injected` or `healed`."""
        hit = {"nodes": ("n1",)} if event == "injected" else {}
        with self.folder.nemesis_log() as log:
            log.append(FaultEvent(event, "f1", "pause", what, self.ns(at_ms), self.ns(at_ms + 1), True, "seen", **hit))

    def end(self) -> None:
        """The harness ends as planned, and judges the run."""
        stop, end = self.ns(11_000), self.ns(12_000)
        with self.folder.client_ends_log() as log:
            log.extend(ClientEnd(client, 1, "finished", end) for client in ("c1", "c2"))
        complete(self.folder, end)
        self.folder.write_timeline(Timeline(start_ns=self._start_ns, healed_ns=stop, stop_ns=stop, end_ns=end))
        write_manifest(self.folder)
        self._state.close()
        judge_and_draw(self.folder)
