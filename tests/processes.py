"""The processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import psutil


def every_process() -> Iterator[psutil.Process]:
    """All that run now. psutil remembers each by its number, and a number may be another process's by now, which it
    then refuses to signal."""
    psutil.process_iter.cache_clear()
    return psutil.process_iter()
