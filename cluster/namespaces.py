"""The launcher of a sandbox: starts a command in its own PID, network and mount namespaces.

    python -I -S cluster/namespaces.py ORDERS STATUS [COMMAND …]

It is a program, started by `cluster.sandbox`, and imports little, so that a sandbox costs milliseconds. Three processes
come of it: the *launcher* outside, the *init* (process 1 inside), and the *command*. The kernel kills everything in a
PID namespace when its init ends, so it is enough that the init ends:

- the command ends: the init collects its exit status, ends with it, and the launcher passes it on;
- the launcher ends: the kernel kills the init (PR_SET_PDEATHSIG); a pipe between both covers the moment before that is
  set;
- the process that started the launcher ends: it held the only write end of the pipe ORDERS, and both watch for its
  closing.

Root needs no user namespace. Everybody else gets one in which the own user and group keep their numbers. There the
command may make further network namespaces, as root's may; it says whether what it starts may. The network namespace
has a loopback interface and nothing else; mounts made inside are not seen outside and vanish with it.

One JSON line on STATUS reports the result, before the command starts: `{"type":"entered","init":PID}` or
`{"type":"refused","what":"…"}` (then the exit status is 125). Without a command this is all that happens: a trial.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

REFUSED: Final = 125

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
_ISOLATED: Final = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWNET
_CAPABILITIES: Final = sum(1 << number for number in (12, 13, 21))
"""CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN."""
_CAPABILITY_VERSION: Final = 0x20080522
_PR_CAP_AMBIENT, _AMBIENT_RAISE, _AMBIENT_CLEAR = 47, 2, 4
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_PR_SET_PDEATHSIG: Final = 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


def unshare() -> None:
    """Give this process a network and a mount namespace, and its next child a PID namespace. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        try:
            return _call("unshare", _ISOLATED)
        except PermissionError:  # root in a container without the capability
            pass
    _call("unshare", _ISOLATED | _CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")
    return None


def pass_on_capabilities() -> None:
    """What this thread starts from now on may make network namespaces, as it may itself. Raises OSError."""
    header, sets = struct.pack("Ii", _CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    _call("capget", header, sets)
    effective, permitted, inheritable, *rest = struct.unpack("6I", sets.raw)
    _call("capset", header, struct.pack("6I", effective, permitted, inheritable | (_CAPABILITIES & permitted), *rest))
    for number in range(32):
        if _CAPABILITIES & permitted & 1 << number:
            _call("prctl", _PR_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0)


def keep_capabilities() -> None:
    """What this thread starts from now on gets none of its capabilities. Raises OSError."""
    _call("prctl", _PR_CAP_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)


def raise_loopback() -> None:
    """A new network namespace has a loopback interface that is down. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        name, flags = struct.unpack("16sh14x", request)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", name, flags | _IFF_UP))


def keep_mounts_private() -> None:
    """Nothing that is mounted from now on is seen outside. Raises OSError."""
    _call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


def mount_proc() -> None:
    """Show the processes of this PID namespace in /proc. Raises OSError."""
    _call("mount", b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)


def join(pid: int) -> None:
    """Enter the namespaces of a process; the PID namespace counts for children only. Raises OSError."""
    kinds = _ISOLATED
    if os.stat("/proc/self/ns/user").st_ino != os.stat(f"/proc/{pid}/ns/user").st_ino:  # noqa: PTH116
        kinds |= _CLONE_NEWUSER
    process = os.pidfd_open(pid)
    try:
        _call("setns", process, kinds)
    finally:
        os.close(process)


def main(orders: int, status: int, command: Sequence[str]) -> int:
    """The launcher; its exit status. `orders`: closed at its other end when it is time to end. `status`: where the line
    goes."""
    for number in _STOPPING:  # the command is asked to stop through its pipe, and in no other way
        signal.signal(number, signal.SIG_IGN)
    step = "unshare"
    try:
        unshare()
        step = "raise the loopback interface"
        raise_loopback()
        step = "make mounts private"
        keep_mounts_private()
        step = "fork"
        outlived, alive = os.pipe()
        init = os.fork()
    except OSError as error:
        return _refuse(status, step, error)
    if init == 0:
        os.close(alive)
        os._exit(_init(orders, status, outlived, command))
    os.close(outlived)
    _await(orders, os.pidfd_open(init))
    os.kill(init, signal.SIGKILL)
    return _exit_status(os.waitpid(init, 0)[1])


def _init(orders: int, status: int, launcher: int, command: Sequence[str]) -> int:
    """Process 1: collects every process that ends, and ends with the command."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    outside = int(os.readlink("/proc/self"))  # noqa: PTH115 - still the outer /proc, which knows this process by its number there
    try:
        mount_proc()
    except OSError as error:
        return _refuse(status, "mount /proc", error)
    _say(status, {"type": "entered", "init": outside})
    if not command:
        return 0
    if (child := os.fork()) == 0:
        signal.set_wakeup_fd(-1)
        for number in (*_STOPPING, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        if os.geteuid() != 0:  # root keeps them
            pass_on_capabilities()
        os.execv(command[0], list(command))  # noqa: S606
    os.close(status)
    while True:
        ended = _await(orders, launcher, woken)
        if ended is not woken:
            return 0
        os.read(woken, 4096)
        while True:
            try:
                pid, how = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return REFUSED  # not reached: the command is a child until it was collected
            if pid == child:
                return _exit_status(how)
            if pid == 0:
                break


def _await(*descriptors: int) -> int:
    """Wait until one can be read or was closed at its other end; ORDERS, the first, has only its closing looked at:
    what is written there is the command's."""
    poll = select.poll()
    for number, descriptor in enumerate(descriptors):
        poll.register(descriptor, select.POLLIN if number else 0)
    return poll.poll()[0][0]


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _refuse(status: int, step: str, error: OSError) -> int:
    _say(status, {"type": "refused", "what": f"{step}: {error.strerror}"})
    return REFUSED


def _say(status: int, line: dict[str, object]) -> None:
    os.write(status, json.dumps(line).encode() + b"\n")


def _exit_status(how: int) -> int:
    return os.WEXITSTATUS(how) if os.WIFEXITED(how) else 128 + os.WTERMSIG(how)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
