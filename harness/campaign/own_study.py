"""A study from a Python file that defines `STUDY`, and `QUICK` if it has a quick form: one of the user's, or one that
comes with fencepost and is known by its name (a folder in `harness/studies`)."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from fencepost.errors import UsageError
from fencepost.files import kind_of
from fencepost.user_code import user_code
from harness.campaign.grid import check, with_options
from harness.campaign.study import STUDIES, Study

T = TypeVar("T")

_STUDIES: Final = Path(__file__).parents[1] / "studies"


def known_studies() -> Mapping[str, Path]:
    """The files of the studies that come with fencepost, by name."""
    return {path.parent.name: path for path in sorted(_STUDIES.glob("*/study.py"))}


def read_study(
    file: Path, report: Path | None, seeds: int | None, common: Mapping[str, str], *, quick: bool = False
) -> Study[Any]:
    """The study of this file or name; `quick`: its quick form. `seeds`: how many runs of each cell, in place of the
    study's own number; `common`: options for all runs. Raises UsageError; so does the study when a function of the file
    fails."""
    known, wanted = known_studies(), "QUICK" if quick else "STUDY"
    file = known.get(str(file), file)
    if kind_of(file) != "file":
        raise UsageError(f"{file}: there is no such file, and no study of that name; known are {', '.join(known)}")
    with user_code(str(file), f"{file} cannot be read"):
        study = runpy.run_path(str(file)).get(wanted)
    if not isinstance(study, Study):
        raise UsageError(f"{file} has no {wanted}: it must be a harness.campaign.study.Study")
    grid = with_options(check(study.grid), seeds, study.grid.first_seed, common)
    return replace(
        study,
        grid=grid,
        place=report or STUDIES / grid.name,
        settle=_guarded(file, study.settle),
        document=_guarded(file, study.document),
        exit_code=_guarded(file, study.exit_code),
    )


def _guarded(file: Path, function: Callable[..., T]) -> Callable[..., T]:
    """A function of the user's: what it prints goes to stderr, and what it raises becomes one line."""

    def call(*given: Any) -> T:
        with user_code(str(file), f"{file}: {getattr(function, '__name__', 'a function')} failed"):
            return function(*given)

    return call
