"""A disk keeps what was fsynced before its power was cut, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cluster import disk as disk_module
from cluster.disk import Disk, check_disks, make_disks, remove_disks, sweep_disks
from cluster.engine_sweep import sweep_docker
from cluster.fsync import fsync_latency_ms
from cluster.lifetime import RunState
from cluster.persistence import FileSystem
from cluster.process import ProcessCluster
from cluster.programs import ToxiproxyProgram
from cluster.run_user import Owner
from cluster.sweep import sweep
from fencepost.errors import BrokenEnvironmentError, UsageError
from tests.cluster.conftest import MakeCluster
from tests.cluster.disks import KINDS, traces
from tests.cluster.reapers import kill_reaper
from tests.specs import spec_of

FIVE = [f"n{number}" for number in range(1, 6)]


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, state: RunState) -> Iterator[Disk]:
    disks = make_disks(state, ["n1"], request.param, Owner.of_run())
    yield disks["n1"]
    remove_disks(disks)
    assert traces(state.path) == []


def append(file: Path, text: str, *, sync: bool) -> None:
    with file.open("a") as open_file:
        open_file.write(text)
        open_file.flush()
        if sync:
            os.fsync(open_file.fileno())


def test_a_power_cut_loses_what_was_not_fsynced_and_keeps_what_was(disk: Disk) -> None:
    file = disk.path / "file"
    append(file, "kept", sync=True)
    append(file, " lost", sync=False)
    assert file.read_text() == "kept lost", "until then nobody can tell"
    disk.cut_power()
    disk.restore()
    assert file.read_text() == "kept"


def test_a_disk_without_power_fails_and_works_again_after_every_restore(disk: Disk) -> None:
    for round_number in range(3):
        disk.cut_power()
        disk.cut_power()
        assert disk.is_cut
        with pytest.raises(OSError, match="Input/output error"):
            (disk.path / "more").write_text("x")
        disk.restore()
        disk.restore()
        assert not disk.is_cut
        append(disk.path / "rounds", f"{round_number}", sync=True)
    assert (disk.path / "rounds").read_text() == "012"


def test_a_disk_that_is_in_use_is_not_mounted_a_second_time(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "_UNMOUNT_S", 0.1)
    user = subprocess.Popen(["sleep", "60"], cwd=disk.path)
    try:
        disk.cut_power()
        with pytest.raises(BrokenEnvironmentError, match=r"n1 cannot be mounted again: umount .* busy"):
            disk.restore()
    finally:
        user.kill()
        user.wait()
    assert disk.is_cut
    monkeypatch.undo()
    disk.restore()
    append(disk.path / "file", "works again", sync=True)


@contextmanager
def in_a_copy_of_all_mounts(folder: Path) -> Iterator[None]:
    """A program works in the folder, in a mount namespace of its own."""
    with subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo there; read line"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as elsewhere:
        assert elsewhere.stdout is not None
        assert elsewhere.stdout.readline() == b"there\n"
        yield
        elsewhere.communicate(b"\n")


def test_a_copy_of_the_mount_in_another_mount_namespace_holds_no_disk(disk: Disk, tmp_path: Path) -> None:
    with in_a_copy_of_all_mounts(tmp_path):
        disk.cut_power()
        disk.restore()
    with in_a_copy_of_all_mounts(tmp_path):
        disk.remove()
        assert traces(disk.path.parent) == []


def test_a_disk_in_which_a_program_of_another_mount_namespace_works_is_not_mounted_a_second_time(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_UNMOUNT_S", 0.1)
    with in_a_copy_of_all_mounts(disk.path):
        disk.cut_power()
        with pytest.raises(BrokenEnvironmentError, match="another mount namespace"):
            disk.restore()
    monkeypatch.undo()
    disk.restore()


def test_nothing_but_a_disk_of_ours_ever_loses_its_power(tmp_path: Path) -> None:
    not_mounted = Disk("n1", tmp_path, "ext4", Owner.of_run(), {})
    not_mounted.path.mkdir()
    for _ in range(2):
        with pytest.raises(BrokenEnvironmentError, match="no disk is mounted there"):
            not_mounted.cut_power()
    (tmp_path / "still").write_text("writable")


@pytest.mark.needs("ext4")
def test_five_disks_are_there_in_less_than_a_second(state: RunState) -> None:
    for _ in range(10):  # a busy machine makes single ones late
        began = time.monotonic()
        disks = make_disks(state, FIVE, "ext4", Owner.of_run())
        took_s = time.monotonic() - began
        remove_disks(disks)
        if took_s < 1:
            break
    assert took_s < 1
    assert traces(state.path) == []
    assert list((state.path / "disks").iterdir()) == []


@pytest.mark.needs("ext4")
def test_when_one_disk_cannot_be_made_none_stays(state: RunState, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Disk.make

    def make_all_but_n3(disk: Disk) -> None:
        make(disk)
        if disk.name == "n3":
            raise BrokenEnvironmentError("no space")

    monkeypatch.setattr(Disk, "make", make_all_but_n3)
    with pytest.raises(BrokenEnvironmentError, match="no space"):
        make_disks(state, FIVE, "ext4", Owner.of_run())
    assert traces(state.path) == []


@pytest.mark.needs("ext4")
def test_a_cluster_that_cannot_start_leaves_no_disk(state: RunState, tmp_path: Path) -> None:
    broken = ToxiproxyProgram(Path("/bin/false"), "0")
    spec = spec_of(FIVE, ["c1"], policy="aof-no", toxiproxy=broken, disks="ext4")
    cluster = ProcessCluster(spec, state, tmp_path / "logs")
    with pytest.raises(BrokenEnvironmentError, match="Toxiproxy ended at once"):
        cluster.start()
    assert traces(state.path) == []


@pytest.mark.needs("ext4")
def test_a_cluster_leaves_no_disk_also_when_some_are_without_power(make_cluster: MakeCluster, state: RunState) -> None:
    cluster = make_cluster(nodes=3, policy="rdb", disks="ext4")
    assert len(traces(state.path)) == 6
    cluster.nodes["n1"].cut_power()
    cluster.nodes["n2"].pause()
    cluster.stop()
    assert traces(state.path) == []


def test_a_node_without_a_disk_is_not_killed_in_place_of_a_power_cut(make_cluster: MakeCluster) -> None:
    node = make_cluster().nodes["n1"]
    with pytest.raises(BrokenEnvironmentError, match="n1 has no separate disk"):
        node.cut_power()
    assert node.is_up()


HARNESS = """
import sys, pathlib
from cluster.lifetime import RunState
from tests.specs import site_of, spec_of
backend, parent = sys.argv[1], pathlib.Path(sys.argv[2])
if backend == "process":
    from cluster.process import ProcessCluster as Cluster
else:
    from cluster.docker import DockerCluster as Cluster
state = RunState.create("run-under-test", parent=parent, site=site_of(backend))
cluster = Cluster(spec_of(["n1", "n2"], ["c1"], policy="rdb", disks="ext4"), state, parent.parent / "logs")
cluster.start()
cluster.nodes["n1"].cut_power()
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.needs("ext4")
@pytest.mark.parametrize("backend", ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))])
def test_after_sigkill_of_harness_and_reaper_a_sweep_removes_disks(backend: str, tmp_path: Path) -> None:
    parent = tmp_path / "state"
    sweepers = [partial(sweep_docker, parent=parent), partial(sweep_disks, parent=parent)]
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, backend, parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"up\n"
        assert sweep(sweepers, parent=parent).others == (), "it lives"
        kill_reaper(parent / "run-under-test")
        harness.send_signal(signal.SIGKILL)
    assert len(traces(parent)) == 4
    swept = sweep(sweepers, parent=parent)
    assert [line for line in swept.others if "disk" in line] == [
        f"unmounted and deleted the disk {name} of run-under-test" for name in ("n1", "n2")
    ]
    assert traces(parent) == []
    assert not (parent / "run-under-test").exists()
    assert sweep(sweepers, parent=parent).others == ()


def test_without_root_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"need root, and this is user 1000; .* leave out power cuts") as told:
        check_disks("ext4")
    assert "\n" not in str(told.value)


@pytest.mark.needs("ext4")
def test_without_mkfs_there_is_one_line_that_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("cluster.system_tools._ROOTS_PATH", ())
    with pytest.raises(UsageError, match=r"no mkfs.ext4 on PATH; install e2fsprogs"):
        check_disks("ext4")


@pytest.mark.parametrize("file_system", KINDS)
def test_a_trial_leaves_nothing(file_system: FileSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    check_disks(file_system)
    assert traces(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_fsync_latency_of_a_folder_is_told_as_growing_percentiles(tmp_path: Path) -> None:
    told = fsync_latency_ms(tmp_path, rounds=20)
    assert 0 < told["p50"] <= told["p90"] <= told["p99"] <= told["max"]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BrokenEnvironmentError, match="fsync latency"):
        fsync_latency_ms(tmp_path / "missing")
