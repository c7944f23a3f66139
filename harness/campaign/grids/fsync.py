"""What does fsync=always buy over a delayed restart, and what does each cost?

`make report-fsync`: five persistence policies, restart at once and delayed beyond the TTL, process crash and power cut,
for the reference lock and a real library; and what each policy costs without any fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import product

from cluster.backends import process
from cluster.persistence import POLICIES, Policy
from fencepost.text import plural
from harness.campaign.grid import Cell, Grid, Headline, Part, Pool, every_combination

_KEPT = "what the servers keep"
_RESTARTS = {"back at once": "0", "back after 1.2 TTL": "1.2ttl"}
_STRIKES = {"process crash": "crash", "power cut": "power"}

_INTRODUCTION = (
    "A distributed lock lets one of many programs at a time do something that two must not do at once. The locks "
    "compared here (the Redlock algorithm) keep a key on each of five Redis servers: the client that set it on three "
    "of them holds the lock, until it releases the lock or the key expires after its time to live (TTL).",
    "What if one of these servers goes down and comes back without the key? Then a second client may find a majority "
    "that knows of no lock while the first one still holds it. The description of Redlock names two remedies: have "
    "every write reach the disk before it is acknowledged (fsync=always), or keep a server that went down away until "
    "everything that it may have forgotten has expired (a delayed restart).",
    "Servers can go down in two ways. When a process crashes, what it wrote is still in the memory of the operating "
    "system and reaches the disk later. When the power is cut, it is lost unless it was synced. Each server here has a "
    "small disk of its own, whose power is really cut: the file system is shut down without flushing.",
)

_POLICY_WORDS = (
    "The rows are what a server keeps on disk: nothing; a snapshot a second after a change (rdb); or a log of all "
    "writes, synced when the operating system likes (aof-no), once a second (aof-everysec), or before each answer "
    "(aof-always)."
)


def _safety(locks: tuple[str, ...], seeds: int, at_once: str, delayed: str, recovery: str) -> Part:
    """`at_once`, `delayed`: how long the load is, by restart. After a delayed one it takes longer until the next server
    can go down, so that the same number of opportunities takes three times as long."""
    durations = dict(zip(_RESTARTS, (at_once, delayed), strict=True))
    cells = tuple(
        Cell(
            name=f"{policy} · {strike}, {restart} · {lock}",
            options={
                "persistence": policy,
                "nemesis": f"hunt:how={how},restart-delay={delay}",
                "lock": lock,
                "require": "lease",
                "duration": durations[restart],
            },
            at={_KEPT: policy, "went down by": strike, "restart": restart, "lock": lock},
        )
        for policy, (strike, how), (restart, delay), lock in product(
            POLICIES, _STRIKES.items(), _RESTARTS.items(), locks
        )
    )
    return Part(
        title="Does the lock hold when a server goes down?",
        text="The links are arranged so that each lock is held by exactly three of five servers, and the one server "
        "that both halves of the clients reach goes down right after a lock was granted. What is counted is an "
        f"opportunity: such a server went down while its key could matter. {_POLICY_WORDS}",
        cells=cells,
        seeds=seeds,
        options={
            "cluster": process.BACKEND.name,
            "recovery": recovery,
            "clients": "4",
            "hold": "uniform:300ms-500ms",
            "disks": "",
        },
        baseline={"lock": ""},
        pairs=tuple(
            (f"none · {strike}, back after 1.2 TTL · {lock}", f"aof-always · {strike}, back at once · {lock}")
            for lock in locks
            for strike in _STRIKES
        ),
    )


def _cost(policies: Sequence[Policy], clients: Sequence[int], keys: Sequence[int], seeds: int, duration: str) -> Part:
    cells = every_combination(
        {
            _KEPT: {policy: {"persistence": policy, "require": "lease"} for policy in policies},
            "clients": {plural(n, "client"): {"clients": str(n)} for n in clients},
            "keys": {"one key" if n == 1 else f"{n:,} keys": {"keys": str(n)} for n in keys},
        }
    )
    return Part(
        title="What does it cost?",
        kind="cost",
        text="The same servers on the same disks without any fault. A client that got the lock reads and writes a "
        "counter and releases the lock at once, so that the lock itself is what takes the time. With one key all "
        "clients wait for each other; with many they rarely meet.",
        cells=cells,
        seeds=seeds,
        options={
            "cluster": process.BACKEND.name,
            "lock": "redlock",
            "nemesis": "none",
            "duration": duration,
            "recovery": "0",
            "hold": "0",
            "node-timeout": "500ms",
            "retry-delay": "10ms",
            "disks": "",
        },
        baseline={"clients": "", "keys": ""},
    )


def _headline(safety: Part, cost: Part) -> Headline:
    """Cells are counted together only where each could have failed: a remedy is not tried by an outage in which its
    server forgets nothing anyway (`docs/persistence.md` has what each keeps)."""

    def pool(label: str, restart: str, outages: AbstractSet[tuple[str, str]]) -> Pool:
        some = (cell for cell in safety.cells if cell.at["restart"] == restart)
        return Pool(label, tuple(cell.name for cell in some if (cell.at[_KEPT], cell.at["went down by"]) in outages))

    at_once, delayed = _RESTARTS
    crash, power = _STRIKES
    every = set(product(POLICIES, _STRIKES))
    kept = {(policy, crash) for policy in POLICIES if policy.startswith("aof")} | {("aof-always", power)}
    rates = {
        "nothing": pool("nothing kept, back at once", at_once, {("none", crash), ("none", power)}),
        "rdb": pool("rdb, back at once", at_once, {("rdb", crash), ("rdb", power)}),
    }
    for policy, strike in product(("aof-no", "aof-everysec", "aof-always"), _STRIKES):
        name = f"{policy}_{strike}".replace("-", "_").replace(" ", "_")
        rates[name] = pool(f"{policy}, {strike}, back at once", at_once, {(policy, strike)})
    rates["delayed"] = pool(f"something forgotten, {delayed}", delayed, every - kept)
    rates["delayed_kept"] = pool(f"nothing forgotten, {delayed}", delayed, kept)
    others = [
        (first.name, second.name)
        for first, second in product(cost.cells, cost.cells)
        if first.at[_KEPT] == "none" and second.at == {**first.at, _KEPT: "aof-always"}
    ]
    struck = [
        (f"none · {cell.at['went down by']}, {delayed} · {cell.at['lock']}", cell.name)
        for cell in safety.cells
        if cell.at[_KEPT] == "aof-always" and cell.at["restart"] == at_once
    ]
    return Headline(
        text="When a server that mattered went down, kept nothing and was back at once, two clients were inside in "
        "$nothing. With fsync=always and a power cut it was $aof_always_power_cut; with a restart after 1.2 TTL, of "
        "servers that forget, it was $delayed. Fsync=always makes $speed times the acquisitions of servers that keep "
        "nothing, all the time; a delayed restart costs nothing until a server goes down, and then that server for "
        "1.2 TTL. Under these outages, one after the other, fsync=always made $struck times the acquisitions of "
        "servers that keep nothing and restart later: a majority was in reach for $reach_kept of the time, and for "
        "$reach_delayed with the delay.",
        rates=rates,
        speeds={"speed": tuple(others), "struck": tuple(struck)},
        availabilities={
            "reach_kept": tuple(second for _, second in struck),
            "reach_delayed": tuple(first for first, _ in struck),
        },
    )


def _grid(name: str, title: str, parts: tuple[Part, Part]) -> Grid:
    return Grid(
        name=name,
        title=title,
        question="What does fsync=always buy over a delayed restart, and what does each of them cost?",
        introduction=_INTRODUCTION,
        headline=_headline(*parts),
        parts=parts,
    )


_TITLE = "Redlock when servers forget: fsync=always or a delayed restart?"

GRID = _grid(
    "fsync",
    _TITLE,
    (
        _safety(("redlock", "redlock-ng"), seeds=10, at_once="8s", delayed="26s", recovery="1s"),
        _cost(POLICIES, (1, 4, 16, 64), (1, 1000), seeds=3, duration="10s"),
    ),
)
QUICK = _grid(
    "fsync-quick",
    f"{_TITLE} (quick form)",
    (
        _safety(("redlock",), seeds=1, at_once="8s", delayed="16s", recovery="200ms"),
        _cost(("none", "aof-everysec", "aof-always"), (1, 16), (1000,), seeds=1, duration="3s"),
    ),
)
