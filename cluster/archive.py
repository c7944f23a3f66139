"""Tar archives for an engine."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from typing import Final

_END: Final = bytes(2 * tarfile.BLOCKSIZE)


def archive_of(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """An archive of these members, each with its content, that ends with the end mark. `tarfile` pads its archives with
    up to 10 KiB of zeros; Podman reads as far as the end mark, and fails with `broken pipe` if padding comes later."""
    parts = []
    for member, content in members:
        member.size = len(content)
        parts += [member.tobuf(), content, bytes(-len(content) % tarfile.BLOCKSIZE)]
    return b"".join([*parts, _END])
