"""A study from a Python file of the user's, which defines `STUDY`."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from fencepost.errors import UsageError
from fencepost.files import kind_of
from fencepost.user_code import user_code
from harness.campaign.grid import check, with_options
from harness.campaign.study import STUDIES, Study

T = TypeVar("T")


def read_study(file: Path, report: Path | None, seeds: int | None, common: Mapping[str, str]) -> Study[Any]:
    """The study of this file. `seeds`: how many runs of each cell, in place of the study's own number; `common`:
    options for all runs. Raises UsageError; so does the study when a function of the file fails."""
    if kind_of(file) != "file":
        raise UsageError(f"{file}: there is no such file")
    with user_code(str(file), f"{file} cannot be read"):
        study = runpy.run_path(str(file)).get("STUDY")
    if not isinstance(study, Study):
        raise UsageError(f"{file} has no STUDY: it must be a harness.campaign.study.Study")
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
