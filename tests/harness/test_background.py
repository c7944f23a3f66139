from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from cluster.polling import becomes_true
from harness.run.background import imported_meanwhile

WAITS = "import meanwhile_gate\nmeanwhile_gate.begun.set()\nmeanwhile_gate.go_on.wait()\n"


def importing() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "meanwhile"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for of_an_earlier_test in importing():
        of_an_earlier_test.join()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_who_ends_early_waits_for_no_module_that_was_not_begun(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = ModuleType("meanwhile_gate")
    begun, go_on = threading.Event(), threading.Event()
    vars(gate).update(begun=begun, go_on=go_on)
    monkeypatch.setitem(sys.modules, "meanwhile_gate", gate)
    (place / "meanwhile_slow.py").write_text(WAITS)
    (place / "meanwhile_next.py").touch()
    with imported_meanwhile(["meanwhile_slow", "meanwhile_next"]):
        (thread,) = importing()
        assert begun.wait(timeout=30)
    go_on.set()
    thread.join()
    assert "meanwhile_slow" in sys.modules
    assert "meanwhile_next" not in sys.modules


def test_all_are_imported_while_the_block_runs_also_after_one_that_cannot_be(place: Path) -> None:
    (place / "meanwhile_broken.py").write_text("raise SystemExit(0)\n")
    (place / "meanwhile_whole.py").touch()
    with imported_meanwhile(["meanwhile_broken", "meanwhile_whole"]):
        assert becomes_true(lambda: "meanwhile_whole" in sys.modules)
