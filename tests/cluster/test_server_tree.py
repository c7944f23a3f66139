"""A server that reads files beside its program: its tree as an archive for a container."""

from __future__ import annotations

import errno
import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from cluster.run_user import Owner
from cluster.server_tree import archive, plant
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


def test_read_only_files_are_linked_and_stay_set_ups_and_others_are_the_owners_copies(tmp_path: Path) -> None:
    program = a_tree(tmp_path)
    (folder := tmp_path / "server").mkdir()
    plant(program, folder, Owner(os.geteuid(), os.getegid()))
    assert (folder / "bin/server").samefile(program)
    (folder / "data/conf").write_bytes(b"x = 2")
    assert (program.parents[1] / "data/conf").read_bytes() == b"x = 1"


@pytest.mark.needs("root")
def test_what_servers_share_is_given_to_none_of_them(tmp_path: Path) -> None:
    program = a_tree(tmp_path)
    (folder := tmp_path / "server").mkdir()
    shutil.copy("/bin/true", program)
    program.chmod(0o555)
    plant(program, folder, Owner(7, 8))
    assert (program.stat().st_uid, (folder / "data/conf").stat().st_uid) == (0, 7)
    assert (folder / "bin/server").samefile(program)


def test_where_a_link_cannot_be_made_everything_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr("os.link", refused)
    program = a_tree(tmp_path)
    (folder := tmp_path / "server").mkdir()
    plant(program, folder, Owner(os.geteuid(), os.getegid()))
    assert (folder / "bin/server").read_bytes() == b"program"
    assert not (folder / "bin/server").samefile(program)


def a_tree(place: Path) -> Path:
    """As set-up leaves one: what a server never changes is read-only. Returns its program."""
    program = place / "tree" / "bin" / "server"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"program")
    program.chmod(0o555)
    (place / "tree" / "data").mkdir()
    (place / "tree" / "data" / "conf").write_bytes(b"x = 1")
    return program
