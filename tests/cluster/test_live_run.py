"""`fencepost shell` looks into this user's runs only."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from cluster.lifetime import RunState
from cluster.live_run import find_live_run
from cluster.site import Site
from fencepost.errors import UsageError

ADDRESSES = {"addresses": {}, "access": [["fencepost", "a secret"], None], "proxy_socket": "/nowhere"}


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def test_a_run_of_this_user_s_is_found(parent: Path) -> None:
    with RunState.create("a-run", parent=parent, site=Site("process")) as state:
        (state.path / "addresses.json").write_bytes(msgspec.json.encode(ADDRESSES))
        assert find_live_run(None, parent).run_id == "a-run"


def test_no_other_user_s_run_is_joined_wherever_its_state_lies(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user can make the folder in which this user's runs would be, in a temporary folder for all."""
    with RunState.create("a-run", parent=parent, site=Site("process")) as state:
        (state.path / "addresses.json").write_bytes(msgspec.json.encode(ADDRESSES))
        monkeypatch.setattr(os, "getuid", lambda: 4_242)
        with pytest.raises(
            UsageError, match=r"state belongs to the user \S+; fencepost shell joins no other user's run$"
        ):
            find_live_run(None, parent)
        monkeypatch.undo()


@pytest.mark.needs("root")
def test_no_run_is_joined_whose_folder_is_another_user_s(parent: Path, tmp_path: Path) -> None:
    (tmp_path / "a-run").mkdir()
    os.chown(tmp_path / "a-run", 65_534, 65_534)
    with RunState.create("a-run", parent=parent, site=Site("process")) as state:
        (state.path / "addresses.json").write_bytes(msgspec.json.encode(ADDRESSES))
        with pytest.raises(UsageError, match="fencepost shell joins no other user's run"):
            find_live_run(str(tmp_path / "a-run"), parent)
