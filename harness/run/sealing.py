"""Keeps the record of a run sealed while it is on (`harness.store.seal`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from time import monotonic
from typing import Final

from fencepost.errors import UsageError
from harness.run.background import beside
from harness.store.run_folder import RunFolder
from harness.store.seal import Seal

EVERY_S: Final = 0.5
_SHARE: Final = 20
"""The seal of a large run is renewed less often, so that it takes no more than this part of a processor."""


@contextmanager
def sealing(folder: RunFolder) -> Iterator[None]:
    """Renew the seal while the block runs, and once more after it. What cannot be sealed does not stop the run:
    its record is then vouched for up to an earlier moment."""
    seal = Seal(folder)

    def renew() -> None:
        with suppress(OSError, UsageError):
            seal.renew()

    def keep_sealed(is_over: Event) -> None:
        took_s = 0.0
        while not is_over.wait(max(EVERY_S, _SHARE * took_s)):
            began_s = monotonic()
            renew()
            took_s = monotonic() - began_s

    try:
        with beside(keep_sealed, "sealing"):
            yield
    finally:
        renew()
