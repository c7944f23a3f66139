"""What every test can rely on, however the tests were started."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    # A shell starts what it puts in the background with SIGINT ignored, and programs that are started from there ignore
    # it too. The tests of Ctrl-C are about programs in the foreground.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
