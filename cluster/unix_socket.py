"""Dial a Unix socket, however long its path is, and see who listens there."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

_ANSWERS_WITHIN_S: Final = 1.0


def dialled(path: Path, timeout_s: float | None) -> socket.socket:
    """A connection to the server that listens there, with this time limit. Raises OSError."""
    # A socket's path may have 107 bytes, and a temporary folder may be deeper than that; a descriptor's is short.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_s)
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


def listener_of(path: Path) -> int | None:
    """The process that listens there; None if none answers, or it is not visible from here, as in a virtual machine."""
    with suppress(OSError), dialled(path, _ANSWERS_WITHIN_S) as connection:
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return pid or None
    return None
