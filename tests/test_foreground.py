from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STARTS_A_PROGRAM = """
import subprocess, sys
from tests.foreground import obey_signals
obey_signals()
subprocess.run([sys.executable, "-c", "import signal; print(signal.getsignal({number}) is signal.SIG_IGN)"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_what_tests_start_ignores_no_signal_that_they_were_started_to_ignore(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        started = subprocess.run(
            [sys.executable, "-c", STARTS_A_PROGRAM.format(number=int(number))],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        signal.signal(number, before)
    assert started.stdout.strip() == "False"
