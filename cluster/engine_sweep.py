"""What of a run the Docker engine has, and how that is taken away again.

Everything that a run makes in the engine carries two labels, the run's id and the state folder of the process that
started it. Removal goes by these labels and never by a list kept in memory, so it also finds what a killed run left
behind, and it cannot touch what is not ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.at_once import at_once
from cluster.engine_http import NoEngineError, ask_engine
from cluster.lifetime import state_parent
from cluster.sweep import UnaskedError
from cluster.waiting import becomes_true
from fencepost.errors import BrokenEnvironmentError

RUN_LABEL: Final = "fencepost.run"
STATE_LABEL: Final = "fencepost.state"

_REMOVED_WITHIN_S = 10
_ALONE_WITHIN_S: Final = 1.0
"""For networks whose run has no container left: an engine removes such a one at once, or not until it is restarted."""
_CALLS_AT_ONCE: Final = 16


class _Found(NamedTuple):
    """A container or a network. `removal`: the path to delete it, with its query."""

    what: str
    labels: Mapping[str, str]
    removal: tuple[str, Mapping[str, str]]


def sweep_docker(is_alive: Callable[[Path], bool], *, parent: Path | None = None) -> list[str]:
    """A `cluster.sweep.Sweeper`: remove containers and networks of dead runs; returns a line for each thing removed.

    Only what carries our labels and names a state folder in `parent` (`state_parent()` by default) is looked at: the
    engine may serve others, whose runs we could not know to be alive. Without an engine there is nothing to sweep.
    Raises UnaskedError if there is one that does not answer, and BrokenEnvironmentError, after all runs were looked at,
    if something cannot be removed.
    """
    parent = parent or state_parent()
    try:
        containers, networks = _containers([RUN_LABEL, STATE_LABEL]), _networks([RUN_LABEL, STATE_LABEL])
    except NoEngineError as error:
        if error.cannot_have_runs:
            return []
        raise UnaskedError(error.found) from error
    removed: list[str] = []
    stuck: list[str] = []
    with_containers = {_run_of(each) for each in containers}
    for run in sorted(with_containers | {_run_of(each) for each in networks}):
        run_id, state = run
        if Path(state).parent == parent and not is_alive(Path(state)):
            within_s = _REMOVED_WITHIN_S if run in with_containers else _ALONE_WITHIN_S
            try:
                gone = remove_run({RUN_LABEL: run_id, STATE_LABEL: state}, within_s)
            except BrokenEnvironmentError as error:
                stuck.append(str(error))
            else:
                removed += [f"removed {what} from the Docker engine" for what in gone]
    if stuck:
        raise BrokenEnvironmentError("; ".join(stuck))
    return removed


def _run_of(each: _Found) -> tuple[str, str]:
    """Its id, and its state folder."""
    return each.labels[RUN_LABEL], each.labels[STATE_LABEL]


def remove_run(labels: Mapping[str, str], within_s: float = _REMOVED_WITHIN_S) -> list[str]:
    """Remove every container and then every network that carries all of the labels; says what was removed.

    What is gone already, or is being removed by somebody else, is waited for. Raises BrokenEnvironmentError if
    something is still there after that time, or the engine does not answer.
    """
    wanted = [f"{key}={value}" for key, value in labels.items()]
    removed: dict[str, None] = {}
    problem = "none"

    def remove(each: _Found) -> None:
        nonlocal problem
        removed[each.what] = None
        path, query = each.removal
        try:
            reply = ask_engine("DELETE", path, query)
        except NoEngineError as error:  # it takes its time; look again
            problem = error.found
        else:
            if (
                not reply.is_success and reply.status != 404
            ):  # in removal by another, or a network still in use: look again
                problem = reply.words

    def is_gone() -> bool:
        containers = _containers(wanted)
        at_once([partial(remove, each) for each in containers], at_most=_CALLS_AT_ONCE)
        networks = _networks(wanted)
        at_once([partial(remove, each) for each in networks], at_most=_CALLS_AT_ONCE)
        return not containers and not networks

    if not becomes_true(is_gone, within_s=within_s, every_s=0.02):
        raise BrokenEnvironmentError(
            f"the Docker engine did not remove {', '.join(removed)} within {within_s:g} s: {problem}; "
            "restart the engine when nothing else uses it, then run `fencepost clean`"
        )
    return list(removed)


def _containers(labels: Sequence[str]) -> list[_Found]:
    # One that the engine is just removing may have lost its name already.
    return [
        _Found(
            f"container {(each.get('Names') or [each['Id']])[0].lstrip('/')}",
            each["Labels"],
            (f"/containers/{each['Id']}", {"force": "1", "v": "1"}),
        )
        for each in _listed("/containers/json", {"all": "1", **_with(labels)})
    ]


def _networks(labels: Sequence[str]) -> list[_Found]:
    found = _listed("/networks", _with(labels))
    return [_Found(f"network {each['Name']}", each["Labels"], (f"/networks/{each['Id']}", {})) for each in found]


def _with(labels: Sequence[str]) -> Mapping[str, str]:
    return {"filters": json.dumps({"label": list(labels)})}


def _listed(path: str, query: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    reply = ask_engine("GET", path, query)
    if not reply.is_success or not isinstance(reply.body, list):
        raise BrokenEnvironmentError(f"the Docker engine did not answer GET {path}: {reply.words}")
    return reply.body
