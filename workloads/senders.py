"""Which task of a client process sends what over which connection, as the process itself records it.

The proxy sees bytes, not which of several tasks sent them. So before bytes of another task leave a socket, its process
notes how many had left it until then. The proxy knows the connection by its port, and counts the same bytes
(`harness.store.wire_senders`). A lock's own program adds its notes to the same file (`docs/lock-protocol.md`).
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic_ns

from fencepost.history import Sender
from workloads.calling import calling_task
from workloads.recorder import Recorder
from workloads.sent_bytes import SentBytes


class SenderLog(SentBytes):
    """Notes who sends what leaves this process over TCP, while it is entered. A thread that sends gets
    BrokenEnvironmentError when the disk is full."""

    def __init__(self, path: Path) -> None:
        self._record = Recorder(path)
        super().__init__(self._noted, calling_task)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._record.close()

    def _noted(self, port: int, after_bytes: int, task: str | None) -> None:
        self._record(Sender(monotonic_ns(), port, after_bytes, task))
