"""What is sent to an engine to be unpacked."""

from __future__ import annotations

import io
import tarfile

import pytest

from cluster.archive import archive_of
from cluster.docker import _folder_of
from cluster.images import _tar
from cluster.owner import Owner


def unpacked(archive: bytes) -> tuple[dict[str, bytes | None], int]:
    """What a reader finds, and where the end mark begins, two blocks of zeros."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as read:
        found = {each.name: file.read() if (file := read.extractfile(each)) else None for each in read}
        return found, read.offset


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 20_000])
def test_an_archive_ends_where_a_reader_stops(size: int) -> None:
    archive = archive_of([(tarfile.TarInfo("a"), b"x" * size), (tarfile.TarInfo("b/c"), b"y")])
    found, end = unpacked(archive)
    assert found == {"a": b"x" * size, "b/c": b"y"}
    assert archive[end:] == bytes(1024)


def test_the_archives_of_a_cluster_end_where_a_reader_stops() -> None:
    for archive in (_folder_of(Owner(3, 4), {"users.acl": b"user"}), _tar({"usr/bin/server": b"program"})):
        found, end = unpacked(archive)
        assert len(found) > 1
        assert archive[end:] == bytes(1024)


def test_the_folder_of_a_node_and_its_files_belong_to_the_owner() -> None:
    with tarfile.open(fileobj=io.BytesIO(_folder_of(Owner(3, 4), {"users.acl": b"user"}))) as archive:
        assert [(each.name, each.uid, each.gid, each.mode, each.isdir()) for each in archive] == [
            (".", 3, 4, 0o700, True),
            ("users.acl", 3, 4, 0o600, False),
        ]
