"""As whom the servers and the proxy of a run work: never as root.

Run by root, they get a user number of the run's own, from a range that no system gives to accounts. They own their data
folder and can enter no other one. Other users' servers work as that user. Where root cannot work as another user (its
user namespace has no other number, or its container no capability for it), servers stay root.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final, NamedTuple

_UNUSED: Final = range(1_879_048_192, 2_147_483_647)
"""User numbers that neither people, nor services, nor containers get (systemd's UIDS-GIDS.md)."""
_NEEDED: Final = sum(1 << number for number in (0, 1, 5, 6, 7))
"""What it takes to work as several users: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID and CAP_SETUID."""


class Owner(NamedTuple):
    uid: int
    gid: int

    @classmethod
    def of_run(cls) -> Owner:
        """Whom a new run's servers belong to."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        number = _UNUSED.start + secrets.randbelow(len(_UNUSED))
        return cls(number, number) if _is_mapped(number) and _is_capable() else cls(0, os.getegid())

    @property
    def is_somebody_else(self) -> bool:
        return self.uid != os.geteuid()

    def take(self, path: Path) -> None:
        """Give a file or folder to the owner."""
        if self.is_somebody_else:
            os.chown(path, *self)

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


def _is_mapped(number: int) -> bool:
    """Whether this user namespace has the number, as a user and as a group."""
    return all(
        any(int(first) <= number < int(first) + int(count) for first, _, count in map(str.split, lines))
        for lines in (Path(f"/proc/self/{kind}_map").read_text().splitlines() for kind in ("uid", "gid"))
    )


def _is_capable() -> bool:
    """Whether this process may give files away, use other users' files, end their processes, and become them."""
    (held,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line)
    return int(held, 16) & _NEEDED == _NEEDED
