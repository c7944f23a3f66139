"""The cells of the fsync grid that decide, on containers; and how long a delay must be.

A container takes a second or two to come back, so leases are longer here than in the grid on processes.
"""

from __future__ import annotations

from msgspec.structs import replace

from harness.campaign.grid import Cell, Grid, Headline, Part, Pool

_TTL = "4s"
_KEPT = "what the servers keep"
_BACK = "back"
_DELAYS = {
    "at once": ("0", "60s"),
    "after 0.3 TTL": ("0.3ttl", "60s"),
    "after 1 TTL": ("1ttl", "90s"),
    "after 1.2 TTL": ("1.2ttl", "100s"),
}
"""The delays, each with the load: the later a server comes back, the longer it takes until the next can go down."""
_SHARED = {
    "cluster": "docker",
    "lock": "redlock",
    "clients": "4",
    "ttl": _TTL,
    "hold": "3500ms",
    "recovery": "1s",
    "disks": "",
}
_SEEDS = 7

_DELAYED = Part(
    title="How long must a server that kept nothing stay away?",
    text="The links are arranged so that each lock is held by exactly three of five servers, and the one server that "
    "both halves of the clients reach is killed right after a lock was granted. A client stays inside for 3.5 s of the "
    "4 s that its lease lasts. What is counted is an opportunity: such a server went down while its key could matter.",
    cells=tuple(
        Cell(
            name=f"none · process crash, back {word}",
            options={
                "persistence": "none",
                "nemesis": f"hunt:how=crash,restart-delay={delay}",
                "duration": load,
            },
            at={_BACK: word},
        )
        for word, (delay, load) in _DELAYS.items()
    ),
    seeds=_SEEDS,
    options=_SHARED,
)
_SYNCED = Part(
    title="What does a power cut leave of an append-only file?",
    text="The same, but the power of the server's disk is cut, and it is back at once. The log of writes is synced "
    "once a second (aof-everysec), or before each answer (aof-always).",
    cells=tuple(
        Cell(
            name=f"{policy} · power cut, back at once",
            options={
                "persistence": policy,
                "nemesis": "hunt:how=power,restart-delay=0",
                "duration": _DELAYS["at once"][1],
            },
            at={_KEPT: policy},
        )
        for policy in ("aof-everysec", "aof-always")
    ),
    seeds=_SEEDS,
    options=_SHARED,
)


_RATES = ("nothing", "third", "one", "longer", "everysec", "always")
"""The name of each cell's rate in the headline."""

GRID = Grid(
    name="fsync-containers",
    title="Redlock when servers in containers forget: fsync=always or a delayed restart?",
    question="Does what holds for servers that are processes hold for servers in containers, and how long must a "
    "delayed restart be?",
    introduction=(
        "The report “Redlock when servers forget” compares fsync=always with a delayed restart on servers that are "
        "processes. This one repeats the configurations that decide with servers in containers, and adds shorter "
        "delays.",
    ),
    headline=Headline(
        text="When a server that mattered was killed, had kept nothing and was back at once, two clients were inside "
        "in $nothing; after 0.3 TTL in $third, after one TTL in $one, and after 1.2 TTL in $longer. When its power "
        "was cut and it was back at once, it was $everysec with a log that is synced once a second, and $always with "
        "fsync=always.",
        rates={
            name: Pool(cell.name, (cell.name,))
            for name, cell in zip(_RATES, (*_DELAYED.cells, *_SYNCED.cells), strict=True)
        },
    ),
    parts=(_DELAYED, _SYNCED),
)
QUICK = replace(
    GRID,
    name="fsync-containers-quick",
    title=f"{GRID.title} (quick form)",
    parts=tuple(replace(part, seeds=1) for part in GRID.parts),
)
