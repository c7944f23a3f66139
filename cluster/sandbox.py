"""Start a command in its own namespaces, with a pipe to it and a pipe from it (`cluster.namespaces`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from cluster import namespaces
from fencepost.errors import BrokenEnvironmentError

_LAUNCHER: Final = Path(namespaces.__file__)
_LONGEST_LINE: Final = 4096


class Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refused"):
    """The machine does not allow a sandbox. `what`: the step and the kernel's answer."""

    what: str


class _Entered(msgspec.Struct, frozen=True, tag_field="type", tag="entered"):
    init: int


@dataclass(slots=True)
class Sandbox:
    """A started sandbox. `launcher`: its process outside; `init`: the outer process id of its first process, with which
    everything in it lives and dies. `orders` and `messages`: the descriptors of the pipes to and from the command,
    which are the caller's to close; closing `orders` ends the sandbox."""

    launcher: subprocess.Popen[bytes]
    init: int
    orders: int
    messages: int


def launch(
    command: Sequence[str], environment: Mapping[str, str], output: int = subprocess.DEVNULL
) -> Sandbox | Refusal:
    """Start `command ORDERS MESSAGES` in a sandbox: two descriptors, to read from and to write to, are appended to it.
    It has the environment and the working directory of this process, and `environment` on top. What it prints goes to
    the descriptor `output`."""
    return _launch(command, environment, output)


@cache
def why_not() -> str | None:
    """None if a sandbox can be started on this machine, else what was refused. Known by starting an empty one."""
    tried = _launch([], {}, subprocess.DEVNULL)
    if isinstance(tried, Refusal):
        return tried.what
    tried.launcher.wait()
    os.close(tried.orders)
    os.close(tried.messages)
    return None


def _launch(command: Sequence[str], environment: Mapping[str, str], output: int) -> Sandbox | Refusal:
    their_orders, orders = os.pipe()
    messages, their_messages = os.pipe()
    ends = (str(their_orders), str(their_messages))
    words = [*command, *ends] if command else []
    try:
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", _LAUNCHER, *ends, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(their_orders, their_messages),
            env={**os.environ, **environment},
            start_new_session=True,  # a Ctrl-C at the terminal is the harness's alone
        )
    except OSError as error:
        os.close(orders)
        os.close(messages)
        raise BrokenEnvironmentError(f"the sandbox cannot be started: {error}") from error
    finally:
        os.close(their_orders)
        os.close(their_messages)
    said = _first_line(messages)
    if isinstance(said, _Entered):
        return Sandbox(launcher, said.init, orders, messages)
    os.close(orders)
    os.close(messages)
    status = launcher.wait()
    return said or Refusal(f"the launcher ended without a word, exit status {status}")


def _first_line(messages: int) -> _Entered | Refusal | None:
    """What the launcher says, byte by byte: whatever follows is the command's."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
        if not (byte := os.read(messages, 1)):
            return None
        line += byte
    return msgspec.json.decode(line, type=_Entered | Refusal)
