"""Reading files that others may have put there: only regular ones, and nothing without an end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

from fencepost.errors import UsageError

DOCUMENT_BYTES: Final = 1 << 28
"""No JSON document of a run is larger."""
LINE_BYTES: Final = 1 << 24
"""No line of a log is longer."""


@contextmanager
def open_regular(path: Path) -> Iterator[FileIO]:
    """The file, for unbuffered reading. Raises UsageError if it cannot be read, or is a folder, a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with FileIO(descriptor) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path} is not a regular file: the folder is damaged, or not from fencepost")
            yield file
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); check its permissions") from error


def read_document(path: Path) -> bytes:
    """The bytes of a JSON document. Raises UsageError, also for one that is too large to be one of a run's."""
    with open_regular(path) as file:
        data = file.read(DOCUMENT_BYTES + 1)
    if len(data) > DOCUMENT_BYTES:
        raise UsageError(f"{path} is larger than {DOCUMENT_BYTES >> 20} MB: it is not from fencepost")
    return data
