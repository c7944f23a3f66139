"""What a run was and what came of it, in short texts: the terminal and the page tell the same story with these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fencepost.text import MISSING, bound, count, milliseconds, number, of_sections, out_of, plural, printable
from harness.history.recorded import Recorded
from harness.report.wording import figure, figures, hold
from harness.verdict import Verdict

_ORIGINS: Final = {"pulled": "pulled from a registry", "built-from-host": "built from this machine's binaries"}


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure. `tone`: "" or "bad" (it breaks a promise) or "warn" (it is worth a look)."""

    name: str
    value: str
    note: str
    tone: str = ""


def lock_name(run: Recorded) -> str:
    return printable(run.config.lock_command or run.config.lock)


def title(run: Recorded) -> str:
    """`redlock-ng under partition`."""
    if run.config.nemesis == "none":
        return f"{lock_name(run)} without faults"
    return f"{lock_name(run)} under {printable(run.config.nemesis.replace('+', ' + '))}"


def ran(run: Recorded) -> str:
    """`30.0 s of load and 3.1 s after the heal`, as it was, not as it was planned."""
    line = run.timeline
    stopped = line.stop_ns or line.end_ns
    if line.healed_ns is None:
        text = f"{milliseconds((stopped - line.start_ns) / 1e6)}, never healed" if stopped else "broken off"
    else:
        text = f"{milliseconds((line.healed_ns - line.start_ns) / 1e6)} of load"
        if stopped is not None:
            text += f" and {milliseconds((stopped - line.healed_ns) / 1e6)} after the heal"
    return f"{text} (interrupted)" if line.interrupted else text


def cluster_line(run: Recorded, environment: Mapping[str, object]) -> str:
    """`5 × redis 7.0.15 in containers (images built from this machine's binaries), toxiproxy 2.12.0`."""
    known = dict(_flat(environment.get("cluster")))
    backend = known.get("backend")
    how = {"process": "as processes", "docker": "in containers"}.get(str(backend), str(backend) if backend else "")
    text = f"{run.config.nodes} × {server(run, environment)}"
    if how:
        text += f" {how}"
    origins = {str(v) for name, v in known.items() if name.rpartition(".")[2] == "origin"}
    if origins:
        text += f" (images {' and '.join(sorted(_ORIGINS.get(o, o) for o in origins))})"
    proxy = next((v for n, v in known.items() if "toxiproxy" in n and "version" in n and v), None)
    return printable(f"{text}, toxiproxy {proxy}" if proxy else text)


def persistence_line(run: Recorded, environment: Mapping[str, object]) -> str:
    """`persistence aof-always, each node on an ext4 disk of its own (fsync 1.2 ms at p50, 3.4 ms at p99)`."""
    text = f"persistence {run.config.persistence}"
    if not run.config.disks:
        return text
    text += f", each node on an {run.config.disk_fs} disk of its own"
    known = dict(_flat(environment.get("cluster")))
    p50, p99 = (known.get(f"disks.fsync_ms.{quantile}") for quantile in ("p50", "p99"))
    if p50 is None:
        return text
    return f"{text} (fsync {milliseconds(p50)} at p50, {milliseconds(p99)} at p99)"


def server(run: Recorded, environment: Mapping[str, object]) -> str:
    """`redis 7.0.15`; without the version where the run broke off before it was known."""
    known = dict(_flat(environment.get("cluster")))
    names = ("server_version", "server.version", "redis_version", "node.version", "nodes.version")
    version = next((known[n] for n in names if known.get(n)), None)
    flavour = next((known[n] for n in ("server.flavour", "server_flavour") if known.get(n)), run.config.server)
    return printable(f"{flavour} {version}" if version else str(flavour))


def run_facts(run: Recorded, environment: Mapping[str, object]) -> list[str]:
    """What stands under the title."""
    config = run.config
    return [
        config.workload,
        f"seed {config.seed}",
        plural(config.clients, "client"),
        cluster_line(run, environment),
        persistence_line(run, environment),
        ran(run),
    ]


def story(run: Recorded, environment: Mapping[str, object]) -> list[str]:
    """What was done, for somebody who never saw the project."""
    experiment = environment.get("experiment")
    if isinstance(experiment, Mapping):
        return _story_of_experiment(run, experiment)
    config = run.config
    keys = "one key" if config.keys == 1 else f"{config.keys:,} keys"
    fencing = {
        "none": "No fencing token was used, so nothing but the lock stood between two clients.",
        "writes": "Writes carried a fencing token, which the store checked; reads did not.",
        "all": "Reads and writes carried a fencing token, which the store checked.",
    }[config.fencing]
    return [
        f"{plural(config.clients, 'client')}, each an operating-system process, competed for {keys} with the lock "
        f"{lock_name(run)} (it expires after {config.ttl_ms:,} ms) on {plural(config.nodes, 'node')}. Whoever got in "
        f"read a counter, stayed for {hold(config.hold)}, wrote it back plus one, and gave the lock back. "
        f"{_story_of_extensions(config.extensions)}{fencing}",
        _story_of_faults(run),
    ]


def _story_of_extensions(most: int) -> str:
    if not most:
        return ""
    times = "once" if most == 1 else f"up to {most} times"
    return f"Meanwhile it prolonged its lease {times}, each time when half of it was gone. "


def _story_of_experiment(run: Recorded, experiment: Mapping[str, object]) -> list[str]:
    config = run.config
    return [
        printable(str(experiment.get("claim", ""))),
        f"{plural(config.clients, 'client')}, each an operating-system process, were told step by step what to do with "
        f"the lock {lock_name(run)} (it expires after {config.ttl_ms:,} ms) on {plural(config.nodes, 'node')}. "
        f"Expected beforehand: {printable(str(experiment.get('expects', MISSING)))}.",
    ]


def _story_of_faults(run: Recorded) -> str:
    if not run.planned_faults:
        return "Nothing was broken on purpose."
    source = "a saved schedule" if run.config.schedule else f"a schedule drawn from seed {run.config.seed}"
    played = "was played" if run.timeline.healed_ns is not None else "was to be played"
    return (
        f"Meanwhile {source} {played}: {plural(run.planned_faults, 'fault')} ({printable(run.config.nemesis)}), each "
        "injected, probed to see whether it took, and healed. Every client reached every node over a link of its own, "
        "so that single paths could be cut."
    )


def faults_line(run: Recorded, verdict: Verdict) -> str:
    """`12 planned, 12 injected, 12 seen to work, 12 seen healed`."""
    found = figures(verdict, "faults")
    planned = found.get("planned", run.planned_faults)
    if planned == 0 and found.get("injected"):
        return (
            f"{count(found['injected'])} by the script, {count(found.get('observed'))} seen to work, "
            f"{count(found.get('healed'))} seen healed"
        )
    if planned == 0:
        return "none planned"
    if not found:
        return f"{count(planned)} planned; the record of what became of them is missing"
    return (
        f"{count(planned)} planned, {count(found.get('injected'))} injected, "
        f"{count(found.get('observed'))} seen to work, {count(found.get('healed'))} seen healed"
    )


def tiles(run: Recorded, verdict: Verdict, environment: Mapping[str, object]) -> list[Tile]:
    """The key figures of a run; those that a run does not have are left out, except for the sections."""
    sections = figure(verdict, "exclusion", "sections")
    seconds = _load_seconds(run)
    rate = f"{number(sections / seconds)} a second" if isinstance(sections, int) and seconds else ""
    shown = [Tile("Sections", count(sections), rate)]
    for name, key, tone in (
        ("Overlaps, lock to blame", "lock", "bad"),
        ("Overlaps, client to blame", "client", "warn"),
        ("Overlaps, undecided", "undecided", "warn"),
    ):
        events = figure(verdict, "exclusion", "overlaps", key)
        if isinstance(events, int):
            note = bound(sections) if events == 0 and isinstance(sections, int) and sections else ""
            if events and isinstance(sections, int):
                note = f"of {plural(sections, 'section')}"
            shown.append(Tile(name, count(events), note, tone if events else ""))
    longest = figure(verdict, "exclusion", "longest_overlap_ms")
    if isinstance(longest, int | float) and longest > 0:
        shown.append(Tile("Longest overlap", milliseconds(longest), "two clients inside at once"))
    lost = figure(verdict, "counter", "lost")
    if isinstance(lost, int):
        note = f"of {count(figure(verdict, 'counter', 'acknowledged'))} acknowledged"
        shown.append(Tile("Lost updates", count(lost), note, "bad" if lost else ""))
    stale = figure(verdict, "fencing", "stale_writes_accepted")
    if isinstance(stale, int) and figure(verdict, "fencing", "mode") != "none":
        note = f"{count(figure(verdict, 'fencing', 'stale_writes_rejected'))} rejected"
        shown.append(Tile("Stale writes accepted", count(stale), note, "bad" if stale else ""))
    wait = figures(verdict, "liveness", "wait_ms")
    if wait:
        note = f"p99 {milliseconds(wait.get('p99'))}, longest {milliseconds(wait.get('max'))}"
        shown.append(Tile("Waiting time, p50", milliseconds(wait.get("p50")), note))
    gap = figure(verdict, "liveness", "longest_gap_ms")
    if gap is not None:
        at = figure(verdict, "liveness", "longest_gap_at_ms")
        note = f"nobody got in, from {number(at / 1000)} s on" if isinstance(at, int | float) else "nobody got in"
        shown.append(Tile("Longest gap", milliseconds(gap), note))
    opportunities, violated = (
        figure(verdict, "opportunities", name) for name in ("opportunities", "violated_opportunities")
    )
    if isinstance(opportunities, int) and isinstance(violated, int):
        note = f"of {opportunities:,}: a node went down on which a lock depended"
        note += f"; {bound(opportunities)}" if violated == 0 and opportunities else ""
        shown.append(Tile("Opportunities that broke the lock", count(violated), note, "bad" if violated else ""))
    late = figure(verdict, "liveness", "late_grants")
    if isinstance(late, int) and late:
        shown.append(Tile("Late grants", count(late), "the validity was over when the client got to know", "warn"))
    recovery = figure(verdict, "liveness", "recovery_all_ms")
    if recovery is not None:
        first = milliseconds(figure(verdict, "liveness", "recovery_first_ms"))
        shown.append(Tile("Recovery, all clients", milliseconds(recovery), f"the first after {first}"))
    injected, observed = figure(verdict, "faults", "injected"), figure(verdict, "faults", "observed")
    if isinstance(observed, int) and run.planned_faults:
        missed = observed < run.planned_faults
        note = f"of {run.planned_faults:,} planned, {count(injected)} injected"
        shown.append(Tile("Faults seen to work", count(observed), note, "warn" if missed else ""))
    overhead = environment.get("proxy_overhead_us")
    if isinstance(overhead, Mapping) and overhead:
        shown.append(Tile("Proxy overhead, p50", f"{number(overhead.get('p50'))} µs", overhead_note(overhead)))
    return shown


def overhead_note(overhead: Mapping[str, object]) -> str:
    """`p99 140 µs; a PING 52 µs direct, 110 µs through`."""
    text = f"p99 {number(overhead.get('p99'))} µs"
    if "direct_p50" in overhead:
        text += f"; {number(overhead.get('direct_p50'))} µs direct, {number(overhead.get('through_p50'))} µs through"
    return text


def data_rows(run: Recorded, verdict: Verdict) -> list[tuple[str, str]]:
    """The counter and the fencing, as rows."""
    counter, fencing = figures(verdict, "counter"), figures(verdict, "fencing")
    rows: list[tuple[str, str]] = []
    if counter:
        rows += [
            ("Increments acknowledged", count(counter.get("acknowledged"))),
            ("Writes accepted", count(counter.get("accepted"))),
            ("Counter at the last read", _final(counter.get("final"))),
            ("Lost updates", count(counter.get("lost"))),
        ]
        if counter.get("lost_unacknowledged"):
            rows.append(("Lost, but never acknowledged", count(counter["lost_unacknowledged"])))
        if counter.get("complete") is False:
            rows.append(("Complete", "no: the last read, or a part of the record, is missing"))
    if fencing:
        rows.append(("Fencing", printable(str(fencing.get("mode", run.config.fencing)))))
    if fencing and fencing.get("mode") != "none":
        rows += [
            ("Tokens come from", printable(str(fencing.get("token_source") or MISSING))),
            ("Stale writes accepted", count(fencing.get("stale_writes_accepted"))),
            ("Stale writes rejected", count(fencing.get("stale_writes_rejected"))),
            ("Stale reads rejected", count(fencing.get("stale_reads_rejected"))),
            ("Tokens that did not increase", count(fencing.get("tokens_not_increasing"))),
        ]
    return rows


def opportunities_line(verdict: Verdict) -> str | None:
    """`3 of 17 opportunities were followed by a violation, 3 of 21 times that nodes went down; the first after 1.9 s`.
    None where no node went down."""
    found = figures(verdict, "opportunities")
    if not found:
        return None
    per_opportunity = out_of(
        found.get("violated_opportunities"), found.get("opportunities"), "opportunity", "opportunities"
    )
    per_crash = out_of(found.get("violations"), found.get("crashes"), "crash", "crashes")
    text = f"violations at {per_opportunity} and after {per_crash}"
    first = found.get("first_violation_ms")
    return text if first is None else f"{text}; the first after {milliseconds(first)}"


def overlaps_line(verdict: Verdict) -> str:
    """`lock: 0 of 1,234 sections (95 % upper bound 0.30 %) · client: 3 · undecided: 0`."""
    by_blame = figures(verdict, "exclusion", "overlaps")
    if not by_blame:
        return MISSING
    first = of_sections(by_blame.get("lock", 0), figure(verdict, "exclusion", "sections"))
    text = f"lock {first} · client {count(by_blame.get('client', 0))} · undecided {count(by_blame.get('undecided', 0))}"
    longest = figure(verdict, "exclusion", "longest_overlap_ms")
    return f"{text}; longest {milliseconds(longest)}" if isinstance(longest, int | float) and longest > 0 else text


def moment_ms(values: Mapping[str, object]) -> float | None:
    """When an example of a finding happened, in ms since the start, if it says so."""
    for name in ("overlap_from_ms", "from_ms", "start_ms", "at_ms", "granted_ms", *values):
        value = values.get(name)
        if name.endswith(("from_ms", "start_ms", "at_ms", "granted_ms", "began_ms")) and isinstance(value, int | float):
            return float(value)
    return None


def _final(value: object) -> str:
    if isinstance(value, Mapping):
        shown = [f"{printable(str(k))} {count(v)}" for k, v in list(value.items())[:8]]
        return ", ".join(shown) + (f" and {len(value) - 8:,} more" if len(value) > 8 else "")
    return count(value)


def _load_seconds(run: Recorded) -> float:
    line = run.timeline
    end = line.stop_ns or line.end_ns or line.healed_ns
    return (end - line.start_ns) / 1e9 if end else 0.0


def _flat(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield prefix, ", ".join(str(v) for v in value)
    else:
        yield prefix, value
