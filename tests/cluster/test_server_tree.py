"""A server that reads files beside its program: its tree as an archive for a container."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from cluster.run_user import Owner
from cluster.server_tree import archive
from fencepost.errors import BrokenEnvironmentError


def test_the_archive_has_the_whole_tree_empty_folders_too_and_is_the_owners_alone(tmp_path: Path) -> None:
    program = tmp_path / "tree" / "bin" / "server"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"program")
    program.chmod(0o755)
    (tmp_path / "tree" / "data" / "empty").mkdir(parents=True)
    (tmp_path / "tree" / "data" / "conf").write_bytes(b"x = 1")
    with tarfile.open(fileobj=io.BytesIO(archive(program, Owner(7, 8)))) as packed:
        members = {member.name: member for member in packed}
        content = packed.extractfile("data/conf")
        assert content is not None
        assert content.read() == b"x = 1"
    assert {name: member.mode for name, member in members.items()} == {
        "bin": 0o700, "bin/server": 0o700, "data": 0o700, "data/conf": 0o600, "data/empty": 0o700,
    }  # fmt: skip
    assert {(member.uid, member.gid) for member in members.values()} == {(7, 8)}


def test_a_tree_that_cannot_be_read_is_said_in_a_line(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "server"
    program.parent.mkdir()
    (tmp_path / "bin" / "server").symlink_to(tmp_path / "bin" / "other")
    (tmp_path / "bin" / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BrokenEnvironmentError, match="cannot be packed"):
        archive(program, Owner(7, 8))
