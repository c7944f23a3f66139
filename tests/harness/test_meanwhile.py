from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from cluster.waiting import becomes_true
from harness.run.meanwhile import imported_meanwhile

WAITS = "import threading\nwaiter = next(t for t in threading.enumerate() if t.name == 'waiter')\nwaiter.join()\n"


def thread() -> threading.Thread:
    (found,) = [each for each in threading.enumerate() if each.name == "meanwhile"]
    return found


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_who_ends_early_waits_for_no_module_that_was_not_begun(place: Path) -> None:
    go_on = threading.Event()
    waiter = threading.Thread(target=go_on.wait, name="waiter")
    waiter.start()
    (place / "meanwhile_slow.py").write_text(WAITS)
    (place / "meanwhile_next.py").touch()
    with imported_meanwhile(["meanwhile_slow", "meanwhile_next"]):
        importing = thread()
        assert becomes_true(lambda: "meanwhile_slow" in sys.modules)
    go_on.set()
    importing.join()
    assert "meanwhile_slow" in sys.modules
    assert "meanwhile_next" not in sys.modules


def test_all_are_imported_while_the_block_runs_also_after_one_that_cannot_be(place: Path) -> None:
    (place / "meanwhile_broken.py").write_text("raise SystemExit(0)\n")
    (place / "meanwhile_whole.py").touch()
    with imported_meanwhile(["meanwhile_broken", "meanwhile_whole"]):
        assert becomes_true(lambda: "meanwhile_whole" in sys.modules)
