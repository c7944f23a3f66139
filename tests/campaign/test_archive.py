"""A run folder that is sent in one piece arrives whole, and nothing else does."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import BrokenEnvironmentError
from harness.store.archive import pack, unpack
from harness.store.run_folder import RunFolder


@pytest.fixture
def parcel(tmp_path: Path) -> bytes:
    folder = tmp_path / "here" / "run-1"
    (folder / "clients").mkdir(parents=True)
    (folder / "clients" / "c1.jsonl").write_text("{}\n")
    (folder / "clients" / "c1.jsonl").chmod(0o600)
    return pack(RunFolder(folder))


def test_a_run_arrives_whole(parcel: bytes, tmp_path: Path) -> None:
    run = unpack(parcel, "run-1", tmp_path / "there")
    assert run.path == tmp_path / "there" / "run-1"
    assert (run.path / "clients" / "c1.jsonl").read_text() == "{}\n"


def test_it_arrives_on_a_python_whose_tar_files_know_no_filter(
    parcel: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2, which Debian 12 has, is such a one."""
    extract = tarfile.TarFile.extractall

    def without_filter(tar: tarfile.TarFile, path: str, members: Iterable[tarfile.TarInfo]) -> None:
        extract(tar, path, members)

    monkeypatch.setattr(tarfile.TarFile, "extractall", without_filter)
    assert (unpack(parcel, "run-1", tmp_path / "there").path / "clients" / "c1.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("run-1/../../outside", {}),
        ("/tmp/outside", {}),
        ("run-1/link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("run-1/link", {"type": tarfile.LNKTYPE, "linkname": "run-1/other"}),
        ("run-1/pipe", {"type": tarfile.FIFOTYPE}),
        ("run-1/device", {"type": tarfile.CHRTYPE}),
    ],
)
def test_what_is_no_file_or_folder_of_the_run_is_refused(name: str, fields: dict[str, Any], tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        member = tarfile.TarInfo(name)
        for field, value in fields.items():
            setattr(member, field, value)
        tar.addfile(member, io.BytesIO())
    with pytest.raises(BrokenEnvironmentError, match=r"the run folder run-1 did not come whole: .*neither a file nor"):
        unpack(made.getvalue(), "run-1", tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []
    assert not (tmp_path / "outside").exists()
