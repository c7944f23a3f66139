"""Folders in which others are at work."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fencepost.files import matching, read_document


def test_what_vanishes_while_one_looks_does_not_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("here", "going"):
        (tmp_path / run / "disks").mkdir(parents=True)
        (tmp_path / run / "disks" / "n1.img").touch()
    assert len(matching(tmp_path, "*/disks/*.img")) == 2
    scandir = os.scandir

    def as_it_goes(path: Any) -> Any:
        if str(path).endswith("going/disks"):
            (tmp_path / "going" / "disks").rename(tmp_path / "gone")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", as_it_goes)
    assert matching(tmp_path, "*/disks/*.img") == [tmp_path / "here" / "disks" / "n1.img"]
    assert (tmp_path / "gone").exists()


def test_hidden_names_match_and_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert matching(tmp_path, "*") == [tmp_path / ".lock"]
    assert matching(tmp_path / "missing", "*") == []


def test_reading_a_small_document_takes_little_memory(tmp_path: Path) -> None:
    """Some allocators fill what is reserved, as Python's own with PYTHONMALLOC=debug."""
    path = tmp_path / "small.json"
    path.write_bytes(b"{}")
    tracemalloc.start()
    try:
        assert read_document(path) == b"{}"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20
