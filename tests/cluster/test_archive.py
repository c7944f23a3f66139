"""What is sent to an engine to be unpacked."""

from __future__ import annotations

import io
import tarfile
from typing import cast

import pytest
from docker.models.containers import Container

from cluster.archive import archive_of
from cluster.container import ContainerStorage
from cluster.docker import _folder_of
from cluster.images import _tar
from cluster.run_user import Owner


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


class FakeContainer:
    """A container with one folder, of which it has this archive."""

    def __init__(self, archive: bytes) -> None:
        self.archive, self.put = archive, b""

    def get_archive(self, folder: str) -> tuple[list[bytes], object]:
        assert folder == "/data"
        return [self.archive], {}

    def put_archive(self, folder: str, archive: bytes) -> None:
        assert folder == "/data"
        self.put = archive


@pytest.mark.parametrize("prefix", ["data", ""], ids=["Docker", "Podman, of a volume"])
def test_files_are_known_by_their_names_below_the_folder(prefix: str) -> None:
    names = (prefix, f"{prefix}/aof", f"{prefix}/aof/1.rdb", f"{prefix}/data")
    members = [tarfile.TarInfo(name) for name in names]
    for folder in members[:2]:
        folder.type = tarfile.DIRTYPE
    for file in members[2:]:
        file.uid, file.mode = 3, 0o640
    container = FakeContainer(archive_of(zip(members, (b"", b"", b"snapshot", b"d"), strict=True)))
    storage = ContainerStorage(cast(Container, container), "/data")
    assert storage.read() == {"aof/1.rdb": b"snapshot", "data": b"d"}
    storage.write({"aof/1.rdb": b"snap"})
    with tarfile.open(fileobj=io.BytesIO(container.put)) as archive:
        assert [(each.name, each.size, each.uid, each.mode) for each in archive] == [("aof/1.rdb", 4, 3, 0o640)]
