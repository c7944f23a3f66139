"""The workloads that come with fencepost: every module of this folder with a `WORKLOAD`, named after its file, with
dashes; FENCEPOST_PATH adds more (`fencepost.extensions`)."""

from __future__ import annotations

import inspect
import pkgutil
from typing import TYPE_CHECKING, cast

from fencepost.errors import UsageError
from fencepost.extensions import extended, load, object_in
from fencepost.meant import question

if TYPE_CHECKING:
    from workloads.workload import Workload

__path__ = extended(__path__, __name__)


def workload_names() -> tuple[str, ...]:
    """The names of all workloads, in alphabetical order."""
    return tuple(sorted(info.name.replace("_", "-") for info in pkgutil.iter_modules(__path__)))


def find_workload(name: str) -> Workload:
    """The workload of this name. Raises UsageError if there is none."""
    known = workload_names()
    if name not in known:
        listed = f"known are {', '.join(known)}; FENCEPOST_PATH brings your own"
        raise UsageError(f"no workload is named {name!r}{question(name, known, listed)}")
    from workloads.workload import Workload

    return cast(Workload, object_in(_module(name), "WORKLOAD", Workload))


def summary(name: str) -> str:
    """What the workload is, in one line: the first sentence of its module."""
    text = inspect.getdoc(load(_module(name))) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def _module(name: str) -> str:
    return f"{__name__}.{name.replace('-', '_')}"
