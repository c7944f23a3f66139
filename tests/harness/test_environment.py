from __future__ import annotations

import subprocess

from harness.run.environment import revision
from tests.harness.runs import ROOT


def test_the_revision_is_that_of_the_checkout_that_runs() -> None:
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert revision()["commit"] == head.stdout.strip()
