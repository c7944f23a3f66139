"""A disk whose power can be cut: a small separate file system for one node.

A killed process loses nothing that it wrote, because the kernel still has it; only a disk that stops distinguishes what
was fsynced from what was not. Each disk is a sparse image file, loop-mounted. `cut_power` is the "godown" of fstests:
an ioctl shuts the file system down without writing its log; what the kernel still held is lost, and the next
mount finds what a disk would have after a power cut. Needs root, loop devices, and the mkfs of the file system.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cluster.fsync import fsync_latency_ms
from cluster.lifetime import RunState, StateFolder, state_parent
from cluster.mounts import LOOP_MAJOR, is_mounted, mounts_below, release_image, works_in
from cluster.parallel import at_once
from cluster.persistence import FileSystem
from cluster.polling import VERB_LIMIT_S, becomes_true
from cluster.run_user import Owner
from cluster.system_tools import find_tool
from fencepost.errors import BrokenEnvironmentError, FencepostError, LackingMachineError
from fencepost.files import matching

_FOLDER = "disks"
_IMAGE = ".img"
_MIB = 1 << 20
_SIZE_MIB: Mapping[FileSystem, int] = {"ext4": 256, "xfs": 320}
"""Images are sparse, so size costs little. An append-only file is first rewritten at 64 MiB, and both must fit;
mkfs.xfs refuses less than 300 MiB."""
_MKFS: Mapping[FileSystem, tuple[str, ...]] = {
    # Everything is written now: no background initialization may disturb a measurement later.
    "ext4": ("-q", "-F", "-b", "4096", "-N", "4096", "-m", "0", "-J", "size=4", "-E", "nodiscard,lazy_itable_init=0"),
    "xfs": ("-q", "-K"),
}
_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are the same number."""
_WITHOUT_LOG_FLUSH = struct.pack("I", 2)
_PLUG = ".plug"
_UNMOUNT_S = VERB_LIMIT_S / 3
_PROGRAM_S = 10
_FSYNCS = 50


class Disk:
    """One disk below `folder`: `<name>.img`, and `path`, where it is mounted, which belongs to `owner`. `environment`
    marks helpers as the run's.

    Every verb may be called again and then does nothing; each raises BrokenEnvironmentError if it did not take.
    """

    def __init__(
        self, name: str, folder: Path, file_system: FileSystem, owner: Owner, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.path = folder / name
        self.file_system = file_system
        self._image = self.path.with_suffix(_IMAGE)
        self._owner = owner
        self._environment = environment
        self._cut = False

    @property
    def is_cut(self) -> bool:
        """Whether the power is cut; `restore` brings it back."""
        return self._cut

    def make(self) -> None:
        """Make the file system and mount it, empty."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._image.open("xb") as image:
                image.truncate(_SIZE_MIB[self.file_system] * _MIB)
        except OSError as error:
            raise BrokenEnvironmentError(f"the disk of {self.name} cannot be made: {error}") from error
        self._run(f"mkfs.{self.file_system}", *_MKFS[self.file_system], str(self._image))
        self._mount()

    def cut_power(self) -> None:
        """Freeze what is on the disk and lose the rest; from now on every access fails."""
        # Set first: of a disk that was cut half-way nothing is known, and only a new mount makes it whole.
        self._cut = True
        _pull_the_plug(self.path)
        try:
            os.close(os.open(self.path / _PLUG, os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError as error:
            if error.errno == errno.EIO:
                return
            raise BrokenEnvironmentError(
                f"the disk of {self.name} fails, but not as in a power cut: {error}"
            ) from error
        raise BrokenEnvironmentError(f"the disk of {self.name} still takes writes after its power was cut")

    def restore(self) -> None:
        """Mount what a disk would have after the power cut. The server that used it must have ended."""
        if not self._cut:
            return
        if problem := _detach(self.path, self._environment):
            raise BrokenEnvironmentError(f"the disk of {self.name} cannot be mounted again: {problem}")
        self._mount()
        self._cut = False

    def check_used_by(self, pid: int) -> None:
        """Raise BrokenEnvironmentError unless the process works in this file system: a container of an engine that does
        not see our mounts would be given the empty folder below, on a disk that loses nothing."""
        if not works_in(pid, self.path):
            raise BrokenEnvironmentError(
                f"the server {self.name} (process {pid}) does not keep its data on its disk at {self.path}; a Docker "
                "engine must run in this mount namespace, else use --cluster process"
            )

    def remove(self) -> None:
        """Unmount and delete, cut or not. Nothing is flushed."""
        if is_mounted(self.path):
            # A child of the server that still writes a snapshot ends at its next write.
            with suppress(BrokenEnvironmentError):
                _pull_the_plug(self.path)
        _take_away(self.path, self._environment)

    def _mount(self) -> None:
        try:
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise BrokenEnvironmentError(f"the disk of {self.name} cannot be made: {error}") from error
        self._run("mount", "-t", self.file_system, "-o", "loop,noatime", str(self._image), str(self.path))
        if not is_mounted(self.path):
            raise BrokenEnvironmentError(f"the disk of {self.name} is not mounted at {self.path}, but mount says so")
        try:
            self._owner.take(self.path)  # each time: a power cut may have taken it back
        except OSError as error:
            raise BrokenEnvironmentError(f"the disk of {self.name} cannot be given to its server: {error}") from error

    def _run(self, program: str, *arguments: str) -> None:
        if problem := _problem_of(program, *arguments, environment=self._environment):
            raise BrokenEnvironmentError(f"the disk of {self.name} cannot be used: {problem}")


def no_disk(name: str) -> BrokenEnvironmentError:
    """What `Node.cut_power` raises for a node without a disk."""
    return BrokenEnvironmentError(f"{name} has no separate disk, so its power cannot be cut; bring it up with disks")


def make_disks(state: StateFolder, names: Sequence[str], file_system: FileSystem, owner: Owner) -> dict[str, Disk]:
    """A mounted disk by each name, below the run's state folder, made in parallel, which belong to `owner`.

    Raises BrokenEnvironmentError, after all of them were removed again.
    """
    folder = state.path / _FOLDER
    disks = {name: Disk(name, folder, file_system, owner, state.environment) for name in names}
    try:
        at_once([disk.make for disk in disks.values()])
    except BaseException:
        with suppress(BrokenEnvironmentError):
            remove_disks(disks)
        raise
    return disks


def disk_facts(disks: Mapping[str, Disk]) -> dict[str, object]:
    """For `Cluster.environment`: the file system, and what an fsync costs on an unused disk."""
    if not disks:
        return {}
    disk = next(iter(disks.values()))
    return {"disks": {"file_system": disk.file_system, "fsync_ms": fsync_latency_ms(disk.path, _FSYNCS)}}


def remove_disks(disks: Mapping[str, Disk]) -> None:
    """Remove all of them. Raises the first error after all were tried; a sweep finds what is then left."""
    at_once([disk.remove for disk in disks.values()])


def check_disks(file_system: FileSystem) -> None:
    """Raise LackingMachineError if this machine cannot cut the power of a disk. Known by doing it once."""
    if os.geteuid() != 0:
        raise LackingMachineError(
            f"disks whose power can be cut need root, and this is user {os.geteuid()}; "
            "run as root, or leave out power cuts and --disks"
        )
    try:
        for program in (f"mkfs.{file_system}", "mount", "umount"):
            find_tool(program)
        with RunState.create() as state:
            disks = make_disks(state, ["trial"], file_system, Owner.of_run())
            try:
                disks["trial"].cut_power()
                disks["trial"].restore()
            finally:
                remove_disks(disks)
    except FencepostError as error:
        raise LackingMachineError(
            f"no disk's power can be cut here: {error}; leave out power cuts and --disks"
        ) from error


def sweep_disks(is_alive: Callable[[Path], bool], *, parent: Path | None = None) -> list[str]:
    """A `cluster.sweep.Sweeper`: unmount the disks of dead runs, detach their loop devices and delete the images; a
    line for each. Containers that use them must have been swept before.

    Raises BrokenEnvironmentError if one cannot be removed.
    """
    parent = (parent or state_parent()).resolve()
    mounted = [path for path in mounts_below(parent) if path.parent.name == _FOLDER and path.parents[2] == parent]
    # An image is there before its mount, and still there after it.
    made = [image.with_suffix("") for image in matching(parent, f"*/{_FOLDER}/*{_IMAGE}")]
    removed: list[str] = []
    for path in sorted({*mounted, *made}):
        if not is_alive(path.parents[1]):
            with suppress(BrokenEnvironmentError):
                _pull_the_plug(path)
            _take_away(path, {})
            removed.append(f"unmounted and deleted the disk {path.name} of {path.parents[1].name}")
    return removed


def _pull_the_plug(path: Path) -> None:
    """Shut the file system down without writing its log. Does nothing if it is down already."""
    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # Never another file system than one of ours: were nothing mounted here, this would be the machine's own.
        device = os.fstat(descriptor).st_dev
        if os.major(device) != LOOP_MAJOR or device == path.parent.stat().st_dev:
            raise BrokenEnvironmentError(f"the power of {path} cannot be cut: no disk is mounted there")
        fcntl.ioctl(descriptor, _SHUTDOWN, _WITHOUT_LOG_FLUSH)
    except OSError as error:
        if error.errno != errno.EIO:  # how xfs answers when it is down
            raise BrokenEnvironmentError(f"the power of {path} cannot be cut: {error}") from error
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _take_away(path: Path, environment: Mapping[str, str]) -> None:
    """Unmount, detach and delete the disk at `path`."""
    if problem := _detach(path, environment):
        raise BrokenEnvironmentError(f"cannot take the disk {path} away: {problem}; then `fencepost clean` does it")
    path.with_suffix(_IMAGE).unlink(missing_ok=True)


def _detach(path: Path, environment: Mapping[str, str]) -> str | None:
    """Unmount the disk everywhere and free its loop device; None, or why that cannot be done.

    A mount namespace begins with a copy of every mount. Removing the folder takes those copies away, too
    (mount_namespaces(7)). A copy in which a program works stays, and that is an error: two mounts of one image would
    destroy it.
    """
    if problem := _unmount(path, _UNMOUNT_S, environment):
        return f"{problem}; end what works in it"
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        return str(error)
    if not release_image(path.with_suffix(_IMAGE), _UNMOUNT_S):
        return "a program in another mount namespace works in it; end that"
    return None


def _unmount(path: Path, within_s: float, environment: Mapping[str, str]) -> str | None:
    """None once nothing is mounted there, else why it stays. A process that ends may hold it for another moment."""
    problem: str | None = None

    def is_gone() -> bool:
        nonlocal problem
        if is_mounted(path):
            problem = _problem_of("umount", str(path), environment=environment)
        return not is_mounted(path)

    return None if becomes_true(is_gone, within_s=within_s, every_s=0.01) else problem or "it is mounted again"


def _problem_of(program: str, *arguments: str, environment: Mapping[str, str]) -> str | None:
    """Run a tool of the system; None, or what it complained about in one line."""
    try:
        done = subprocess.run(
            [find_tool(program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROGRAM_S,
            env={**os.environ, **environment, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program}: {error}"
    if done.returncode == 0:
        return None
    words = (done.stderr or done.stdout).strip().splitlines()
    return f"{program} ended with {done.returncode}: {words[0] if words else 'without a word'}"
