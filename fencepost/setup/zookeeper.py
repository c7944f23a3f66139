"""The tree that a ZooKeeper runs from: a Java runtime, pinned jars, and the program that starts them.

    bin/zookeeper    bin/java    lib/    conf/    jars/

`zookeeper` is a script, so that it can say its version at once; it is run from the top of the tree, which all
members share. The runtime is the same on every machine, without the parts for desktops.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from fencepost.setup.jars import bring_jars, read_jars
from fencepost.setup.python import unpack_wheel
from fencepost.setup.toolchains import JAVA
from fencepost.setup.workshop import SetupError, Step, Workshop, make_shared, replace

PROGRAM: Final = "zookeeper"
_JARS: Final = Path(__file__).with_name("zookeeper.jars")
_LEFT_OUT: Final = (
    *("libawt*", "libjawt*", "libfont*", "libfreetype*", "liblcms*", "libmlib*", "libjavajpeg*", "libsplash*"),
    *("libjsound*", "psfont*", "jfr", "classlist", "jrt-fs.jar", "libjdwp*", "libdt_*"),
)
_SCRIPT: Final = """#!/bin/sh
if [ "$1" = --version ]; then echo "{version}"; exit; fi
exec bin/java -cp "jars/*" "$@"
"""
_VERSION: Final = ("-cp", "jars/*", "org.apache.zookeeper.version.VersionInfoMain")


def zookeeper_step(shop: Workshop) -> Step:
    """Brings the tree to `zookeeper` in the tools folder, and a link to its program."""
    assert JAVA.wheel is not None
    brings = f"jars of ZooKeeper, checked against {_JARS.name}, and Java from the wheel {JAVA.wheel} to run them"
    inputs = (_JARS.read_text(), JAVA.wheel, Path(__file__).read_text())
    return Step(PROGRAM, brings, inputs, (shop.bin / PROGRAM,), _make)


def _make(shop: Workshop) -> str:
    assert JAVA.wheel is not None
    wanted = read_jars(_JARS)
    with shop.scratch(PROGRAM) as scratch:
        unpack_wheel(shop, PROGRAM, JAVA.wheel, scratch / "wheel")
        runtime, tree = (scratch / "wheel" / JAVA.inside).parents[1], scratch / "tree"
        (tree / "bin").mkdir(parents=True)
        shutil.copy2(runtime / "bin" / "java", tree / "bin" / "java")
        shutil.copytree(runtime / "conf", tree / "conf")
        shutil.copytree(runtime / "lib", tree / "lib", ignore=shutil.ignore_patterns(*_LEFT_OUT))
        bring_jars(shop, PROGRAM, wanted, tree / "jars")
        said = shop.run(PROGRAM, tree / "bin" / "java", *_VERSION, cwd=tree).splitlines()[-1]
        if f" {wanted[0].version} " not in said:
            raise SetupError(f"{PROGRAM}: the jars say {said!r}, not version {wanted[0].version}")
        (tree / "bin" / PROGRAM).write_text(_SCRIPT.format(version=said))
        make_shared(tree)
        (shop.tools / "licences").mkdir(exist_ok=True)
        replace(runtime / "legal", shop.tools / "licences" / PROGRAM)
        replace(tree, shop.tools / PROGRAM)
    (shop.bin / PROGRAM).unlink(missing_ok=True)
    (shop.bin / PROGRAM).symlink_to(Path("..", PROGRAM, "bin", PROGRAM))
    return f"{wanted[0].version}, {len(wanted)} pinned jars, with Java from the wheel {JAVA.wheel}"
