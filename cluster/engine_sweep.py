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

from cluster.engine_address import Engine, NoContextError, NoEngineError, find_engine
from cluster.engine_http import ask_engine
from cluster.lifetime import sites_of_dead, state_parent
from cluster.parallel import at_once
from cluster.polling import becomes_true
from cluster.sweep import UnaskedError
from fencepost.errors import BrokenEnvironmentError

RUN_LABEL: Final = "fencepost.run"
STATE_LABEL: Final = "fencepost.state"
PROGRAM_LABEL: Final = "fencepost.program"
"""What an image built by fencepost carries: the path of its program in it."""

_REMOVED_WITHIN_S = 10
_ALONE_WITHIN_S: Final = 1.0
"""For networks whose run has no container left: an engine removes such a one at once, or not until it is restarted."""
_CALLS_AT_ONCE: Final = 16


class EngineResource(NamedTuple):
    """A container or a network. `removal`: the path to delete it, with its query."""

    what: str
    labels: Mapping[str, str]
    removal: tuple[str, Mapping[str, str]]


def sweep_docker(
    is_alive: Callable[[Path], bool], *, parent: Path | None = None, engines: Sequence[Engine] | None = None
) -> list[str]:
    """A `cluster.sweep.Sweeper`: remove containers and networks of dead runs; returns a line for each thing removed.

    Asked are the engines that the dead runs used according to their state folders, and `engines`: by default the one
    that a run would use now; a reaper names that of its run. Only what carries our labels and names a state folder in
    `parent` (`state_parent()` by default) is looked at: the engine may serve others, whose runs we could not know to
    be alive.
    Without an engine there is nothing to sweep. Raises UnaskedError if there is one that does not answer, and
    BrokenEnvironmentError, after all runs were looked at, if something cannot be removed, or the engine of a dead run
    does not answer.
    """
    parent = parent or state_parent()
    removed: list[str] = []
    unasked: list[str] = []
    stuck: list[str] = []
    sites = sites_of_dead(parent, "docker", is_alive)
    used = {folder: Engine.of(site) for folder, site in sites.items()}
    asked: Sequence[Engine] = engines or []
    if engines is None:
        try:
            asked = [find_engine()]
        except NoContextError as error:
            unasked.append(str(error))
    for engine in dict.fromkeys([*asked, *used.values()]):
        try:
            _sweep(engine, is_alive, parent, removed, stuck)
        except NoEngineError as error:
            runs = [str(folder) for folder, its in used.items() if its == engine]
            if runs or engines is not None:
                where = ", ".join(runs) or "a run"
                stuck.append(f"{error.found}, where {where} had containers; start it, or delete that folder")
            elif not error.cannot_have_runs:
                unasked.append(error.found)
    if stuck:
        raise BrokenEnvironmentError("; ".join([*stuck, *unasked]))
    if unasked:
        raise UnaskedError("; ".join(unasked))
    return removed


def _sweep(
    engine: Engine, is_alive: Callable[[Path], bool], parent: Path, removed: list[str], stuck: list[str]
) -> None:
    """Sweep one engine. Raises NoEngineError."""
    ours = [RUN_LABEL, STATE_LABEL]
    containers, networks = containers_of(engine, ours), networks_of(engine, ours)
    with_containers = {_run_of(each) for each in containers}
    for run in sorted(with_containers | {_run_of(each) for each in networks}):
        run_id, state = run
        if Path(state).parent == parent and not is_alive(Path(state)):
            within_s = _REMOVED_WITHIN_S if run in with_containers else _ALONE_WITHIN_S
            try:
                gone = remove_run(engine, {RUN_LABEL: run_id, STATE_LABEL: state}, within_s)
            except NoEngineError:
                raise
            except BrokenEnvironmentError as error:
                stuck.append(str(error))
            else:
                removed += [f"removed {what} from the Docker engine{_named(engine)}" for what in gone]


def _named(engine: Engine) -> str:
    return "" if engine.is_default else f" at {engine}"


def _run_of(each: EngineResource) -> tuple[str, str]:
    """Its id, and its state folder."""
    return each.labels[RUN_LABEL], each.labels[STATE_LABEL]


def remove_run(engine: Engine, labels: Mapping[str, str], within_s: float = _REMOVED_WITHIN_S) -> list[str]:
    """Remove every container and then every network that carries all of the labels; says what was removed.

    What is gone already, or is being removed by another process, is waited for. Raises BrokenEnvironmentError if
    something is still there after that time, or the engine does not answer.
    """
    wanted = [f"{key}={value}" for key, value in labels.items()]
    removed: dict[str, None] = {}
    problem = "none"

    def remove(each: EngineResource) -> None:
        nonlocal problem
        removed[each.what] = None
        path, query = each.removal
        try:
            reply = ask_engine(engine, "DELETE", path, query)
        except NoEngineError as error:  # it takes its time; look again
            problem = error.found
        else:
            if (
                not reply.is_success and reply.status != 404
            ):  # in removal by another, or a network still in use: look again
                problem = reply.words

    def is_gone() -> bool:
        containers = containers_of(engine, wanted)
        at_once([partial(remove, each) for each in containers], at_most=_CALLS_AT_ONCE)
        networks = networks_of(engine, wanted)
        at_once([partial(remove, each) for each in networks], at_most=_CALLS_AT_ONCE)
        return not containers and not networks

    if not becomes_true(is_gone, within_s=within_s, every_s=0.02):
        raise BrokenEnvironmentError(
            f"the Docker engine{_named(engine)} did not remove {', '.join(removed)} within {within_s:g} s: {problem}; "
            "restart the engine when nothing else uses it, then run `fencepost clean`"
        )
    return list(removed)


def containers_of(engine: Engine, labels: Sequence[str]) -> list[EngineResource]:
    """The ones that carry all of the labels, each `name` or `name=value`. Raises as `entries` does."""
    # One that the engine is just removing may have lost its name already.
    return [
        EngineResource(
            f"container {(each.get('Names') or [each['Id']])[0].lstrip('/')}",
            each["Labels"],
            (f"/containers/{each['Id']}", {"force": "1", "v": "1"}),
        )
        for each in entries(engine, "/containers/json", {"all": "1", **_with(labels)})
    ]


def networks_of(engine: Engine, labels: Sequence[str]) -> list[EngineResource]:
    """The ones that carry all of the labels, each `name` or `name=value`. Raises as `entries` does."""
    found = entries(engine, "/networks", _with(labels))
    return [
        EngineResource(f"network {each['Name']}", each["Labels"], (f"/networks/{each['Id']}", {})) for each in found
    ]


def _with(labels: Sequence[str]) -> Mapping[str, str]:
    return {"filters": json.dumps({"label": list(labels)})}


def entries(engine: Engine, path: str, query: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """What the engine answers to a GET of this path. Raises NoEngineError, or BrokenEnvironmentError if it refuses."""
    reply = ask_engine(engine, "GET", path, query)
    if not reply.is_success or not isinstance(reply.body, list):
        raise BrokenEnvironmentError(f"the Docker engine{_named(engine)} did not answer GET {path}: {reply.words}")
    return reply.body
