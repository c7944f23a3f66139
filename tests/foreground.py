"""Programs that tests start obey Ctrl-C and a closed terminal, however the tests themselves were started.

A shell starts what it puts in the background with SIGINT ignored, and `nohup` has SIGHUP ignored. Whatever is started
from there inherits that, and fencepost rightly goes on ignoring such a signal: it would seem not to end.
"""

from __future__ import annotations

import signal
from types import FrameType


def obey_signals() -> None:
    """What this process starts from now on ignores none of the signals that ask a program to end. The process itself
    ends at Ctrl-C and goes on, as it was meant to, when its terminal is closed."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _go_on)  # a handler, unlike SIG_IGN, is not inherited by other programs


def _go_on(number: int, frame: FrameType | None) -> None:
    return
