"""What do lock libraries leave behind? Keys without an owner, acquire calls that overrun, sections not backed by a
majority.

The reference and the libraries that come along, each under links that are cut, links that are slow, clients that are
stopped, and servers and clients that are killed.
"""

from __future__ import annotations

from harness.campaign.grid import Grid, Part, every_combination

_LOCKS = ("redlock", "redlock-ng", "redlock-py", "pottery")
_FAULTS = {
    "cut links": "partition",
    "slow links": "latency",
    "stopped clients": "pause:targets=clients",
    "killed servers and clients": "crash",
}


def _grid(name: str, title: str, locks: tuple[str, ...], seeds: int, duration: str) -> Grid:
    cells = every_combination(
        {
            "lock": {lock: {"lock": lock, "require": "lease"} for lock in locks},
            "faults": {words: {"nemesis": spec} for words, spec in _FAULTS.items()},
        }
    )
    return Grid(
        name=name,
        title=title,
        question="How do lock libraries behave when links, clients and servers fail, and what do they leave behind?",
        introduction=(
            "A distributed lock lets one of many programs at a time do something that two must not do at once. The "
            "locks compared here keep a key on each of five Redis servers: the client that set it on three of them "
            "holds the lock, until it releases the lock or the key expires after its time to live (TTL).",
            "Besides two holders at once three things are counted. An orphaned key is one that stays on a "
            "server when its client has released the lock, was refused, or is gone: until it expires it keeps "
            "other clients out. An acquire overruns when it takes longer than the library's own settings allow (or the "
            "TTL, where they set no limit). And a section has no majority behind it while certainly fewer than three "
            "servers held its value although its client had been told that it holds the lock.",
        ),
        parts=(
            Part(
                title="What becomes of the lock, and what stays behind?",
                cells=cells,
                seeds=seeds,
                options={"duration": duration, "recovery": "2s", "clients": "5", "hold": "uniform:20ms-80ms"},
                baseline={"faults": ""},
            ),
        ),
    )


_TITLE = "Lock libraries under faults"
GRID = _grid("libraries", _TITLE, _LOCKS, seeds=5, duration="20s")
QUICK = _grid("libraries-quick", f"{_TITLE} (quick form)", _LOCKS[:2], seeds=1, duration="5s")
