"""Habits: how the clients of a run use the lock, drawn from the seed beside the faults and the loads.

A load (`harness.loads`) lasts for a few TTLs, a habit for the whole run. It is one option of the run, or several, that
a user could have given. What was drawn is in the run's configuration, so a replay and the judge see the same. An
option that the user named, or that has another value than its default, keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from cluster.registry import servers
from harness.config import DRAWN_HABITS, HABITS, NO_HABITS, RunConfig
from nemesis.random_draws import below, between, one_of
from nemesis.spec import names_a_mix
from workloads.registry import can_be_cancelled, holds_two_keys, opened_by_client, tasks_can_share

_ODD_TTLS_MS: Final = (700, 1_300, 1_500, 2_300)
_LEAST_TTLS: Final = 12
"""How many TTLs fit into the load: what a run shows is counted in them."""
_SOME: Final = 0.03
"""Of the sections: more would leave no time for the others."""
_CANCELLED: Final = 0.1
"""Of the acquires and releases. Most are over before they would be cancelled."""
_TWO_KEYS: Final = 0.3
"""Of the sections: both kinds meet each other."""
_LEAST_TIMEOUTS: Final = 4
"""How many times the longest wait for one node fits into a TTL."""
_FEWEST_TASKS, _MOST_TASKS = 2, 4
_MOST_USERS: Final = 24
"""Tasks of all clients together: more would starve each other on two cores."""


def _tasks(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """Two to four tasks of a client process share its lock object. There are fewer clients then, so that about as many
    users compete as without tasks."""
    if config.clients * _FEWEST_TASKS > _MOST_USERS or not tasks_can_share(config.lock, config.lock_command):
        return {}
    tasks = _FEWEST_TASKS + below(rng, _MOST_TASKS - _FEWEST_TASKS + 1)
    return {"tasks": tasks, "clients": -(-config.clients // tasks)}


def _odd_ttl(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """A TTL of 0.7, 1.3, 1.5 or 2.3 s: some locks count in whole seconds."""
    least_ms, most_ms = config.node_timeout_ms * _LEAST_TIMEOUTS, config.duration_ms / _LEAST_TTLS
    fitting = [ttl_ms for ttl_ms in _ODD_TTLS_MS if least_ms <= ttl_ms <= most_ms]
    return {"ttl_ms": one_of(rng, fitting)} if fitting else {}


def _kept_data(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """Nodes keep their data: what a lock left behind outlives a kill."""
    server = None if config.nodes_at is not None else servers().get(config.server)
    return {"persistence": "aof-always"} if server is not None and "aof-always" in server.policies else {}


def _shared_prefix(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """The names of keys begin with each other's: k1, k1:1, k11."""
    return {"key_names_are": "prefixes"}


def _overstay(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """A client stays on when its lease is over, and then releases."""
    return {"overstay": _SOME} if config.renewal_ms is None else {}


def _forget(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """A client whose lease is over acquires again without a release."""
    lock = opened_by_client(config.lock, config.lock_command)
    cannot = lock is None or config.reentries or config.renewal_ms is not None or getattr(lock, "RELEASED_FIRST", False)
    return {} if cannot else {"forget": 0.5, "overstay": _SOME}


def _cancel(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """A client cancels some of its calls while they are under way."""
    return {"cancel": _CANCELLED} if can_be_cancelled(config.lock, config.lock_command) else {}


def _two_keys(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """A client takes a second key while it holds one."""
    return {"two_keys": _TWO_KEYS} if holds_two_keys(config.lock, config.lock_command) else {}


def _reopen(rng: Random, config: RunConfig) -> Mapping[str, Any]:
    """Clients close their lock object every few TTLs and open another one."""
    if config.tasks > 1 or opened_by_client(config.lock, config.lock_command) is None:
        return {}
    return {"reopen_ms": round(between(rng, 1, 4) * config.ttl_ms)}


_DRAWS: Final[Mapping[str, Callable[[Random, RunConfig], Mapping[str, Any]]]] = {
    "tasks": _tasks,
    "odd-ttl": _odd_ttl,
    "kept-data": _kept_data,
    "shared-prefix": _shared_prefix,
    "overstay": _overstay,
    "forget": _forget,
    "cancel": _cancel,
    "two-keys": _two_keys,
    "reopen": _reopen,
}
"""The options that each habit sets; none where the run cannot have it. Half of the seeds have each, whichever others
they have."""


def with_habits(config: RunConfig, given: Collection[str] = ()) -> RunConfig:
    """The configuration with its habits. If it says nothing of them, they are drawn if its faults are a mix, unless a
    schedule or a plain load is given. `given`: the fields that the user named, which no habit replaces."""
    asked = config.habits
    if asked is None:
        if config.schedule is not None or config.load == "plain" or not names_a_mix(config.nemesis):
            return config
        asked = DRAWN_HABITS
    had = []
    for name in HABITS:
        rng = Random(f"{config.seed}:habit:{name}")
        is_drawn = rng.random() < 0.5
        if not (name in asked.split("+") or (asked == DRAWN_HABITS and is_drawn)):
            continue
        options = _DRAWS[name](rng, config)
        left_open = _open(config, options, given)
        if left_open or (options and asked != DRAWN_HABITS):
            had.append(name)
            config = replace(config, **left_open)
    return replace(config, habits="+".join(had) or NO_HABITS)


def _open(config: RunConfig, options: Mapping[str, Any], given: Collection[str]) -> Mapping[str, Any]:
    """Those of the options that the user left open. The number of clients goes with that of their tasks."""
    usual = type(config)(seed=0)
    left_open = {
        name: value
        for name, value in options.items()
        if name not in given and getattr(config, name) == getattr(usual, name)
    }
    if "tasks" in left_open:
        left_open["tasks"] = min(left_open["tasks"], _MOST_USERS // left_open.get("clients", config.clients))
    elif "tasks" in options:
        return {}
    return left_open
