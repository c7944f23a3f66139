"""The tree that a PostgreSQL runs from: its program, what that reads beside it, and a database that was never started.

    bin/postgres    lib/*.so    share/timezonesets    share/timezone    data/

`data` is what `initdb` makes, with a database `locks` that belongs to the user `client`. Each run copies `data`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from fencepost.setup.workshop import SetupError, Workshop, make_shared, replace

TREE: Final = "postgres"
"""The folder of the tree in the tools folder."""
_NEEDED: Final = ("bin/postgres", "lib/plpgsql.so", "lib/dict_snowball.so", "share/timezonesets", "share/timezone/GMT")
_INITDB: Final = ("-U", "fencepost", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=1")
_STATEMENTS: Final = ("CREATE ROLE client LOGIN", "CREATE DATABASE locks OWNER client")
_LOGINS: Final = "host all all all trust\n"
_NOBODY: Final = "65534"


def plant(shop: Workshop, step: str, installed: Path, scratch: Path) -> None:
    """Make the tree of an installation (`bin`, `lib`, `share`) and put it in its place. Raises SetupError."""
    new = scratch / "tree"
    for name in _NEEDED:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (installed / name).is_dir() else shutil.copy2
        copy(installed / name, new / name)
    make_shared(new)
    shutil.copytree(_new_database(shop, step, installed, scratch), new / "data")
    (new / "dev").mkdir()
    for path in (new / "data", *(new / "data").rglob("*")):  # every user of the machine copies it
        path.chmod(0o755 if path.is_dir() else 0o644)
    replace(new, shop.tools / TREE)


def _new_database(shop: Workshop, step: str, installed: Path, scratch: Path) -> Path:
    """A PostgreSQL refuses to work as root, so root makes it as `nobody`, where that user can reach the programs."""
    place = scratch
    user: tuple[str, ...] = ()
    if os.geteuid() == 0:
        place, user = (
            Path(tempfile.mkdtemp(dir="/tmp")),
            ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
        )
    try:
        data = place / "data"
        data.mkdir(mode=0o700)
        if user:
            place.chmod(0o755)
            shutil.copytree(installed.parents[1], place / "wheel")
            installed = place / "wheel" / installed.relative_to(installed.parents[1])
            os.chown(data, int(_NOBODY), int(_NOBODY))
        shop.run(step, *user, installed / "bin/initdb", "-D", data, *_INITDB, env={"TZ": "GMT"}, cwd=place)
        for statement in _STATEMENTS:
            words = f'echo "{statement}" | "{installed}/bin/postgres" --single -D "{data}" postgres'
            said = shop.run(step, *user, "sh", "-c", words, cwd=place)
            if "ERROR" in said or "FATAL" in said:
                raise SetupError(f"{step}: {said.strip().splitlines()[-1]}")
        (data / "pg_hba.conf").write_text(_LOGINS)
        kept = scratch / "data-kept"
        shutil.copytree(data, kept)
        return kept
    finally:
        if place != scratch:
            shutil.rmtree(place, ignore_errors=True)
