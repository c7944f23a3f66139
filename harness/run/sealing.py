"""Keeps the record of a run sealed while it is on (`harness.store.seal`)."""

from __future__ import annotations

import threading
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Final, Self

from fencepost.errors import UsageError
from harness.store.run_folder import RunFolder
from harness.store.seal import Seal

EVERY_S: Final = 0.5
_SHARE: Final = 20
"""The seal of a large run is renewed less often, so that it takes no more than this part of a processor."""


class Sealing:
    """A context manager: a thread that renews the seal. What cannot be sealed does not stop the run: its record is then
    vouched for up to an earlier moment."""

    def __init__(self, folder: RunFolder) -> None:
        self._seal = Seal(folder)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_sealed, name="sealing", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()
        self._renew()

    def _keep_sealed(self) -> None:
        took_s = 0.0
        while not self._is_over.wait(max(EVERY_S, _SHARE * took_s)):
            began_s = monotonic()
            self._renew()
            took_s = monotonic() - began_s

    def _renew(self) -> None:
        with suppress(OSError, UsageError):
            self._seal.renew()
