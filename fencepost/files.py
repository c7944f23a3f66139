"""Files that others may have put there, and names that others have chosen: only regular files are read, nothing without
an end, and every document is checked before anything is done with it. What is written is there whole or not at all.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from io import FileIO
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from fencepost.errors import BrokenEnvironmentError, UsageError

DOCUMENT_BYTES: Final = 1 << 28
"""No JSON document of a run is larger."""
LINE_BYTES: Final = 1 << 24
"""No line of a log is longer."""
NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for anything but the JSON that was expected."""
NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_ELSEWHERE: Final = "; run fencepost in a folder that this user can write to"
_ADVICE: Final = {errno.EFBIG: " (ulimit -f)", **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _ELSEWHERE)}
_NAME_BYTES: Final = 255
_PATH_BYTES: Final = 4_095

T = TypeVar("T")


class UnreadableError(UsageError):
    """This user may not read a file: nothing is known of it, and nothing need be wrong with it."""


def matching(folder: Path, pattern: str) -> list[Path]:
    """What matches in a folder in which others are at work. What vanishes meanwhile does not match; `Path.glob` raises
    FileNotFoundError then."""
    return [folder / name for name in glob(pattern, root_dir=folder, include_hidden=True)]  # noqa: PTH207


def checked_path(text: str) -> Path:
    """The path that a user named. Raises UsageError for one that no file can have, or that cannot be recorded."""
    if not text:
        raise UsageError("an empty text is no path; name a file or a folder")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the path {text!r} is not UTF-8; rename it") from None
    if b"\0" in encoded:
        raise UsageError(f"the path {text!r} has a zero byte in it")
    if len(encoded) > _PATH_BYTES or max(map(len, encoded.split(b"/"))) > _NAME_BYTES:
        raise UsageError(
            f"the path {text[:40]}… is too long: a path has at most {_PATH_BYTES:,} bytes, and a name in it at most "
            f"{_NAME_BYTES}"
        )
    return Path(text)


def kind_of(path: Path) -> Literal["file", "folder", "other"] | None:
    """What is at this path; None: nothing is. Raises UsageError if it cannot be looked at."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise unread(path, error) from None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def check_folder(path: Path, flag: str) -> None:
    """Raises UsageError if nothing is where an option names a folder."""
    if kind_of(path) is None:
        raise UsageError(f"{flag} {path}: there is no such folder")


@contextmanager
def open_regular(path: Path) -> Iterator[FileIO]:
    """The file, for unbuffered reading. Raises UsageError if it cannot be read, or is a folder, a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with FileIO(descriptor) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path} is not a regular file: it is damaged, or not from fencepost")
            yield file
    except (OSError, ValueError) as error:
        raise unread(path, error) from error


def identity_of(path: Path) -> tuple[int, int, int]:
    """Another one as soon as the file has changed: inode, time of the last change, size. For caches of what it says.
    Raises OSError if there is no file."""
    state = path.stat()
    return state.st_ino, state.st_mtime_ns, state.st_size


def read_document(path: Path) -> bytes:
    """The bytes of a document. Raises UsageError, also for one that is too large."""
    with open_regular(path) as file:
        # What is read has its memory reserved beforehand; some allocators also fill it.
        data = file.read(min(os.fstat(file.fileno()).st_size, DOCUMENT_BYTES) + 1)
    if len(data) > DOCUMENT_BYTES:
        raise UsageError(f"{path} is larger than {DOCUMENT_BYTES >> 20} MB: it is not from fencepost")
    return data


def read_json(path: Path, kind: type[T], what: str = "what fencepost writes there") -> T:
    """The JSON document as a value of this type. `what` it should be, for the error. Raises UsageError."""
    return decode_json(read_document(path), path, kind, what)


def decode_json(document: bytes, path: Path, kind: type[T], what: str = "what fencepost writes there") -> T:
    """The same of a document that was read already, from `path`."""
    try:
        return msgspec.json.decode(document, type=kind)
    except NOT_JSON as error:
        raise UsageError(f"{path} is not {what}: {' '.join(str(error).split())}") from None


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Convert what goes wrong while writing to one-line errors that name the path."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: Path) -> BrokenEnvironmentError:
    """What went wrong while writing to `path`, in one line."""
    if error.errno in NO_SPACE:
        return BrokenEnvironmentError(f"no space left to write {path}; make room and run again")
    advice = _ADVICE.get(error.errno or errno.EIO, "")
    return BrokenEnvironmentError(f"{path} cannot be written: {os.strerror(error.errno or errno.EIO)}{advice}")


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file; a reader sees the old one or the new one, never half of it. Raises OSError."""
    with beside(path) as half:
        half.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A path to write to, in the same folder, which becomes `path` if the block ends well and is removed if it does
    not. However long the name of `path` is, there is room for this one."""
    half = path.with_name(f".{os.getpid()}.{os.urandom(6).hex()}.half")
    try:
        yield half
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def unread(path: Path, error: OSError | ValueError) -> UsageError:
    """Why a file cannot be read, in one line."""
    if isinstance(error, PermissionError):
        return UnreadableError(f"{path} cannot be read (Permission denied); check whose it is, and its permissions")
    return UsageError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})")
