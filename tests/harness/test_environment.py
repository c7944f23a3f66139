from __future__ import annotations

import subprocess

import pytest

from harness.run.environment import revision
from tests.harness.runs import ROOT


def test_the_revision_is_that_of_the_checkout_that_runs() -> None:
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert revision()["commit"] == head.stdout.strip()


def test_a_checkout_of_another_user_has_a_revision_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    refused = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert "dubious ownership" in refused.stderr
    assert revision()["commit"]
