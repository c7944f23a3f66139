"""Scripted experiments: a claim, a configuration, an expected result, and ten lines of steps that test it.

    @experiment(persistence="none", expect=overlaps_blamed_on("lock"))
    def crash_without_persistence(stage: Stage) -> None:
        \"\"\"A node that forgets a lease and restarts immediately grants it again.\"\"\"
        one, two = stage.clients("c1", "c2")
        one.sees("n1", "n2", "n3")
        one.acquire("k1")
        stage.nodes("n3").kill().start()
        two.sees("n3", "n4", "n5")
        two.acquire("k1")

The steps only act. The result is read from the judged history, as with any other run.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

import msgspec

from fencepost.errors import InternalError, UsageError
from fencepost.files import checked_path, kind_of
from fencepost.meant import question
from fencepost.user_code import user_code
from harness.config import RunConfig
from harness.lock_choices import with_lock_choices
from harness.scripts.expect import Expectation
from harness.scripts.stage import Stage

__all__ = ["Experiment", "Stage", "experiment", "find_experiments", "shipped_experiments"]

Play = Callable[[Stage], None]


class _KnownSettings(RunConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Refuses a setting that a run does not have."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment, ready to play. `claim`: its docstring. `settings`: what it sets in the run's configuration."""

    name: str
    claim: str
    play: Play
    expect: Expectation
    settings: Mapping[str, Any]

    def config(self, **chosen: Any) -> RunConfig:
        """The run's configuration; what the user chose replaces what the experiment says. Raises UsageError for what
        cannot mean anything."""
        fixed: dict[str, Any] = {"seed": 0, "nemesis": self.name, "duration_ms": _LASTS_ABOUT_MS, "recovery_ms": 0}
        try:
            config = RunConfig(**(fixed | dict(self.settings) | chosen))
            config.check()
            return with_lock_choices(config, self.settings.keys() | chosen.keys())
        except UsageError as error:
            raise UsageError(f"experiment {self.name}: {error}") from None

    def source(self) -> str:
        """The steps as they are written."""
        try:
            return inspect.getsource(self.play)
        except OSError:
            return ""


_LASTS_ABOUT_MS: Final = 3_000
"""A script ends by itself; this is what a campaign plans with."""

_USUAL: Final[Mapping[str, Any]] = {"lock": "redlock", "ttl_ms": 10_000, "node_timeout_ms": 200, "clients": 2}
"""What an experiment has unless it says otherwise. The TTL is long, so that a busy machine has the time to bring a node
back within it: a container took up to four seconds. Who waits for the end of a lease has a shorter one."""


def experiment(*, expect: Expectation, **settings: Any) -> Callable[[Play], Experiment]:
    """Make an experiment of a function over a `Stage`. Its name is the function's, its docstring is the claim.

    `settings`: fields of `harness.config.RunConfig`, like `persistence="none"`, `disks=True` for disks whose power can
    be cut (root), or `clocks=True` for clocks that can be set. Raises UsageError for a setting that a run does not
    have, for a value of the wrong type, and for a function without a docstring.
    """
    try:
        msgspec.convert({"seed": 0, **settings}, _KnownSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"@experiment: {error}; the settings are the fields of harness.config.RunConfig") from None
    settings = {**_USUAL, **settings}

    def of(play: Play) -> Experiment:
        claim = inspect.getdoc(play)
        if not claim:
            raise UsageError(f"the experiment {play.__name__} has no docstring; write there what it should show")
        return Experiment(play.__name__.replace("_", "-"), claim, play, expect, MappingProxyType(settings))

    return of


@cache
def shipped_experiments() -> Mapping[str, Experiment]:
    """The experiments in `harness/scripts/experiments/`, by name. Raises InternalError if two share one."""
    import harness.scripts.experiments as folder

    found: dict[str, Experiment] = {}
    for info in pkgutil.iter_modules(folder.__path__, "harness.scripts.experiments."):
        for each in experiments_in(import_module(info.name)).values():
            if each.name in found:
                raise InternalError(f"two experiments are called {each.name}; the second one is in {info.name}")
            found[each.name] = each
    return MappingProxyType(found)


def find_experiments(target: str) -> tuple[Experiment, ...]:
    """The experiments that the user asked for: `all`, a name, `FILE.py` or `FILE.py:function`. Raises UsageError."""
    shipped = shipped_experiments()
    if target == "all":
        return tuple(shipped.values())
    if target in shipped:
        return (shipped[target],)
    path, _, function = target.partition(":")
    if not path.endswith(".py"):
        listed = "`fencepost script --list` shows the known ones; or give a FILE.py"
        raise UsageError(f"experiment {target!r} is not known{question(target, shipped, listed)}")
    found = experiments_in(_load(checked_path(path)))
    if not found:
        raise UsageError(f"{path} has no experiment; put @experiment(expect=…) before a function over a Stage")
    if not function:
        return tuple(found.values())
    if function not in found:
        raise UsageError(f"{path} has no experiment {function!r}; it has {', '.join(found)}")
    return (found[function],)


def experiments_in(module: ModuleType) -> dict[str, Experiment]:
    """The experiments that the module defines, by the names of their functions."""
    return {
        each.play.__name__: each
        for each in vars(module).values()
        if isinstance(each, Experiment) and each.play.__module__ == module.__name__
    }


def describe(experiment: Experiment, config: RunConfig, target: str) -> dict[str, object]:
    """The experiment as JSON, for the run's folder and page. `target`: its name on the command line."""
    return {
        "name": experiment.name,
        "target": target,
        "claim": experiment.claim,
        "expects": experiment.expect.says,
        "source": experiment.source(),
        "config": msgspec.to_builtins(config),
        "settings": msgspec.to_builtins(dict(experiment.settings)),
    }


def _load(path: Path) -> ModuleType:
    if kind_of(path) != "file":
        raise UsageError(f"there is no file {path}; give a name of `fencepost script --list` or a FILE.py")
    spec = spec_from_file_location(f"experiment_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as a Python module")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    with user_code(str(path), f"{path} cannot be loaded"):
        spec.loader.exec_module(module)
    return module
