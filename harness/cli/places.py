"""Where a word would have a place on the command line that has none where it stands."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import pairwise

from fencepost.errors import UsageError
from fencepost.options import Declared


def place_of(word: str, words: Sequence[str], options: Collection[Declared]) -> str | None:
    """What to write instead: `--nemesis partition`; None if no option takes this word. `words`: the whole line."""
    fields = {each.field: each for each in options}
    if (command := _value(words, "--lock-command")) is not None:
        behind = [command, *words[words.index("--lock-command") + 2 :]]
        return f'--lock-command "{shlex.join(behind)}"'
    for each in options:
        if word in each.choices:
            return f"{each.flag} {word}"
    if "nemesis" in fields and _is_nemesis(word):
        before = _value(words, "--nemesis")
        return f"--nemesis {before}+{word.strip('+')}" if before else f"--nemesis {word}"
    if "lock" in fields and _is_lock(word):
        return f"--lock {word}"
    if "workload" in fields and word in _workloads():
        return f"--workload {word}"
    return None


def _value(words: Sequence[str], flag: str) -> str | None:
    return next((value for name, value in pairwise(words) if name == flag), None)


def _is_nemesis(word: str) -> bool:
    from nemesis.spec import parse_spec

    with suppress(UsageError):
        return bool(parse_spec(word.strip("+")).lanes)
    return False


def _is_lock(word: str) -> bool:
    from workloads.registry import lock_names

    with suppress(UsageError):
        return any(info.name == word for info in lock_names())
    return False


def _workloads() -> Collection[str]:
    from workloads.kinds import workload_names

    return workload_names()
