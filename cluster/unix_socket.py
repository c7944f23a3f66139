"""Dial a Unix socket, however long its path is."""

from __future__ import annotations

import os
import socket
from pathlib import Path


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
