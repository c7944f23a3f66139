"""Which tests were skipped, and for the lack of what: another run of the tests can play just these.

`--note-skipped FILE` appends a line for each skipped test; `--play-skipped FILE` plays the tests of such a file and no
others, on a machine that has more by then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import pytest

LACKS: Final = "lacks"
"""The property of a skipped test's report that names the need."""


class Skipped(msgspec.Struct, frozen=True):
    """A test, and the first need (`tests/needs.py`) that its machine lacked."""

    test: str
    need: str


class Noting:
    """Writes down what is skipped for a need."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, need in report.user_properties:
            if name == LACKS and report.skipped:
                with self._file.open("ab") as file:
                    file.write(msgspec.json.encode(Skipped(report.nodeid, need)) + b"\n")


def read_skipped(file: Path) -> list[Skipped]:
    """The lines of such a file. Raises pytest.UsageError for a file that cannot be read."""
    try:
        return msgspec.json.Decoder(Skipped).decode_lines(file.read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise pytest.UsageError(f"--play-skipped {file}: {error}") from None
