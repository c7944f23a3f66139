"""What a run was and what its results are, in short texts that the terminal and the page share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cluster.backend_registry import backends
from fencepost.text import MISSING, milliseconds, number, plural, printable
from harness.config import RunConfig
from harness.figures import Tile
from harness.history.recorded import Recorded
from harness.report import checker_output
from harness.store.run_folder import part_of
from harness.verdict import Verdict
from workloads.kinds import find_workload

_ORIGINS: Final = {"pulled": "pulled from a registry", "built-from-host": "built from this machine's binaries"}


def lock_name(run: Recorded) -> str:
    return printable(run.config.lock_name)


def named_lock(run: Recorded) -> str:
    """Which lock was given a name with `--name`, in brackets; empty if none was."""
    config = run.config
    return "" if config.name is None else f" ({printable(config.lock_command or config.lock)})"


def title(run: Recorded) -> str:
    """`redlock-ng under partition`."""
    if run.config.nemesis == "none":
        return f"{lock_name(run)} without faults"
    return f"{lock_name(run)} under {printable(run.config.nemesis.replace('+', ' + '))}"


def ran(run: Recorded) -> str:
    """`30.0 s of load and 3.1 s after the heal`: the actual times, not the planned ones."""
    line = run.timeline
    stopped = line.stop_ns or line.end_ns
    if line.healed_ns is None:
        text = f"{milliseconds((stopped - line.start_ns) / 1e6)}, never healed" if stopped else "aborted"
    else:
        text = f"{milliseconds((line.healed_ns - line.start_ns) / 1e6)} of load"
        if stopped is not None:
            text += f" and {milliseconds((stopped - line.healed_ns) / 1e6)} after the heal"
    return f"{text} (interrupted)" if line.interrupted else text


def cluster_line(run: Recorded, environment: Mapping[str, object]) -> str:
    """`5 × valkey 8.1.8 in containers (images built from this machine's binaries), resource on redis 7.0.15, toxiproxy
    2.12.0`."""
    known = dict(_flat(environment.get("cluster")))
    backend = known.get("backend")
    how = backends()[str(backend)].words if backend in backends() else backend
    text = f"{run.config.nodes} × {server(run, environment)}"
    if how:
        text += f" {how}"
    origins = {str(v) for name, v in known.items() if name.rpartition(".")[2] == "origin"}
    if origins:
        text += f" (images {' and '.join(sorted(_ORIGINS.get(o, o) for o in origins))})"
    if resource := _program(known, "resource_server"):
        text += f", resource on {resource}"
    proxy = next((v for n, v in known.items() if "toxiproxy" in n and "version" in n and v), None)
    return printable(f"{text}, toxiproxy {proxy}" if proxy else text)


def persistence_line(run: Recorded, environment: Mapping[str, object]) -> str:
    """`persistence aof-always, each node on its own ext4 disk (fsync 1.2 ms at p50, 3.4 ms at p99)`."""
    if run.config.nodes_at is not None:
        return "persistence not known"
    text = f"persistence {run.config.persistence}"
    if not run.config.disks:
        return text
    text += f", each node on its own {run.config.disk_fs} disk"
    known = dict(_flat(environment.get("cluster")))
    p50, p99 = (known.get(f"disks.fsync_ms.{quantile}") for quantile in ("p50", "p99"))
    if p50 is None:
        return text
    return f"{text} (fsync {milliseconds(p50)} at p50, {milliseconds(p99)} at p99)"


def server(run: Recorded, environment: Mapping[str, object]) -> str:
    """`redis 7.0.15`; without the version if the run was aborted before it was known."""
    known = dict(_flat(environment.get("cluster")))
    return printable(_program(known, "server") or run.config.server)


def _program(known: Mapping[str, object], part: str) -> str | None:
    """`redis 8.2.3`, of the facts about one server, and which program it is if the user named one."""
    name, version = known.get(f"{part}.name"), known.get(f"{part}.version")
    if not name or not version:
        return None
    named = known.get(f"{part}.path") or known.get(f"{part}.image") if known.get(f"{part}.is_named") else None
    return f"{name} {version} ({named})" if named else f"{name} {version}"


def record(run: Recorded) -> list[str]:
    """What a reader must know about a record that no manifest vouches for."""
    if run.doubts and run.is_sealed:
        return ["aborted: a later change to the record of its last moment may go unnoticed"]
    if run.doubts:
        return ["aborted, so no manifest vouches for it: a file that was changed since then may go unnoticed"]
    return [] if run.is_vouched_for else ["by an older fencepost: a file that was cut since then may go unnoticed"]


def run_facts(run: Recorded, environment: Mapping[str, object]) -> list[str]:
    """The line under the title."""
    config = run.config
    return [
        config.workload,
        f"seed {config.seed}",
        clients(config),
        cluster_line(run, environment),
        persistence_line(run, environment),
        ran(run),
        *(f"record {text}" for text in record(run)),
    ]


def story(run: Recorded, environment: Mapping[str, object]) -> list[str]:
    """What was done, for a reader who does not know the project."""
    if experiment := part_of(environment, "experiment"):
        return _story_of_experiment(run, experiment)
    config = run.config
    keys = "one key" if len(config.key_names) == 1 else f"{len(config.key_names):,} keys"
    return [
        f"{plural(config.clients, 'client')}, each an operating-system process{_tasks(config)}, competed for {keys} "
        f"with the lock {lock_name(run)} (it expires after {config.ttl_ms:,} ms) on {plural(config.nodes, 'node')}. "
        f"{find_workload(config.workload).story(config)}{_story_of_loads(config)}",
        _story_of_faults(run),
    ]


def clients(config: RunConfig) -> str:
    """`10 clients`; `10 clients of 3 tasks`."""
    return plural(config.clients, "client") + (f" of {config.tasks} tasks" if config.tasks > 1 else "")


def _tasks(config: RunConfig) -> str:
    return f" with {config.tasks} tasks that share one lock object" if config.tasks > 1 else ""


def _story_of_loads(config: RunConfig) -> str:
    """What the workload does not tell: rests, extensions, and loads that change."""
    if config.loads:
        return (
            " How many clients worked, on how many keys, how long they stayed inside and rested, and whether they "
            f"extended their leases, changed {plural(len(config.loads) - 1, 'time')} during the run."
        )
    rest = f" Then it rested for {config.think.in_words}." if config.think.high_ms else ""
    if not config.extensions:
        return rest
    times = "once" if config.extensions == 1 else f"up to {config.extensions} times"
    share = "half" if config.extend_at == 0.5 else f"{config.extend_at:.0%}"
    return f" Inside, it extended its lease {times}, each time when {share} of it had passed.{rest}"


def _story_of_experiment(run: Recorded, experiment: Mapping[str, object]) -> list[str]:
    config = run.config
    return [
        printable(str(experiment.get("claim", ""))),
        f"{plural(config.clients, 'client')}, each an operating-system process, followed a script step by step with "
        f"the lock {lock_name(run)} (it expires after {config.ttl_ms:,} ms) on {plural(config.nodes, 'node')}. "
        f"Expected result: {printable(str(experiment.get('expects', MISSING)))}.",
    ]


def _story_of_faults(run: Recorded) -> str:
    if not run.planned_faults:
        return "No faults were injected."
    source = "A saved schedule" if run.config.schedule else f"A schedule drawn from seed {run.config.seed}"
    played = "was run" if run.timeline.healed_ns is not None else "was started"
    return (
        f"{source} {played} at the same time: {plural(run.planned_faults, 'fault')} ({printable(run.config.nemesis)}). "
        "Each is injected, probed to see whether it took effect, and healed. Every client had its own link to every "
        "node, so that single paths could be cut."
    )


def tiles(verdict: Verdict, environment: Mapping[str, object]) -> list[Tile]:
    """The key figures of a run: the checkers', and what the proxy costs."""
    shown = checker_output.tiles(verdict)
    if overhead := part_of(environment, "proxy_overhead_us"):
        shown.append(Tile("Proxy overhead, p50", overhead_p50(overhead), overhead_note(overhead)))
    return shown


def overhead_note(overhead: Mapping[str, object]) -> str:
    """`p99 140 µs; a PING 52 µs direct, 110 µs through (p50)`."""
    p99, direct, through = (number(overhead.get(name)) for name in ("added_p99", "direct_p50", "through_p50"))
    return f"p99 {p99} µs; a PING {direct} µs direct, {through} µs through (p50)"


def overhead_p50(overhead: Mapping[str, object]) -> str:
    """`61.2 µs`."""
    return f"{number(overhead.get('added_p50'))} µs"


def _flat(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield prefix, ", ".join(str(v) for v in value)
    else:
        yield prefix, value
