"""A schedule is data: the same seed gives the same bytes, and what was saved is what is played."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from fencepost.errors import UsageError
from nemesis.registry import nemeses
from nemesis.schedule import Schedule, decode_fault, draw_schedule, last_heal_ms, load_schedule, needs_disks, parse_spec
from tests.nemesis.fakes import topology

ALL = "partition+latency+pause+crash+power+shutdown"

GOLDEN = """\
{"schema_version":1,"seed":7,"spec":"partition","topology":{"clients":["c1","c2","c3"],\
"nodes":["n1","n2","n3","n4","n5"],"ttl_ms":1000},"duration_ms":6000,"faults":[
{"id":"f1","at_ms":809,"duration_ms":2955,"nemesis":"partition","fault":{"shape":"one-node","kind":"drop",\
"direction":"from-node","links":[["c1","n5"],["c2","n5"],["c3","n5"]]}}
]}
"""


def draw(spec: str = ALL, seed: int = 7, duration_ms: float = 30_000, **size: int) -> Schedule:
    return draw_schedule(parse_spec(spec), seed, topology(**size), duration_ms)


def without_ids(schedule: Schedule, nemesis: str):
    return [msgspec.structs.replace(p, id="") for p in schedule.faults if p.nemesis == nemesis]


def test_equal_seeds_give_equal_bytes_also_in_another_process_with_another_hash_seed() -> None:
    code = (
        "import sys; from nemesis.base import Topology; from nemesis.schedule import *; "
        "t = Topology(tuple(f'c{i}' for i in range(1, 11)), tuple(f'n{i}' for i in range(1, 6)), 1000); "
        f"sys.stdout.buffer.write(draw_schedule(parse_spec({ALL!r}), 7, t, 30000.0).to_bytes())"
    )
    for hash_seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        assert other.stdout == draw().to_bytes()


def test_another_seed_gives_another_schedule() -> None:
    assert len({draw(seed=seed).to_bytes() for seed in range(20)}) == 20


@pytest.mark.parametrize("name", ["partition", "latency", "pause", "crash", "power", "shutdown"])
def test_adding_a_nemesis_changes_nothing_in_what_the_others_do(name: str) -> None:
    assert without_ids(draw(name), name) == without_ids(draw(ALL), name)


def test_a_longer_load_only_adds_faults() -> None:
    short, long = draw("partition", duration_ms=20_000), draw("partition", duration_ms=40_000)
    assert long.faults[: len(short.faults)] == short.faults
    assert len(long.faults) > len(short.faults)


@pytest.mark.parametrize("duration_ms", [100, 500, 1_500, 4_000, 30_000, 120_000])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 4), (10, 5), (4, 9)])
def test_faults_of_one_nemesis_never_overlap_and_all_are_healed_before_the_end(
    duration_ms: int, size: tuple[int, int]
) -> None:
    downs = ("crash", "power", "shutdown")  # these are never shortened to fit
    spec = (
        ALL if duration_ms >= 1_500 else "+".join(f"{n}:restart-delay=0" if n in downs else n for n in ALL.split("+"))
    )
    for seed in range(10):
        schedule = draw(spec, seed=seed, duration_ms=duration_ms, clients=size[0], nodes=size[1])
        by_nemesis = defaultdict(list)
        for planned in schedule.faults:
            by_nemesis[planned.nemesis].append(planned)
            assert 0 <= planned.at_ms <= planned.end_ms <= last_heal_ms(duration_ms) < duration_ms
        assert set(by_nemesis) == set(ALL.split("+"))
        for faults in by_nemesis.values():
            assert faults[0].at_ms <= 1_000
            assert all(one.end_ms < next_one.at_ms for one, next_one in pairwise(faults))
        assert [p.id for p in schedule.faults] == [f"f{i}" for i in range(1, len(schedule.faults) + 1)]
        assert [p.at_ms for p in schedule.faults] == sorted(p.at_ms for p in schedule.faults)


def test_begins_are_about_an_interval_apart_and_faults_last_about_as_long_as_asked() -> None:
    schedule = draw("partition:interval=4s,duration=1s", duration_ms=4_000_000)
    gaps = [b.at_ms - a.at_ms for a, b in pairwise(schedule.faults)]
    lengths = [p.duration_ms for p in schedule.faults]
    assert all(2_000 <= gap <= 6_000 for gap in gaps)
    assert 3_800 < sum(gaps) / len(gaps) < 4_200
    assert all(500 <= length <= 1_500 for length in lengths)
    assert 950 < sum(lengths) / len(lengths) < 1_050


@pytest.mark.parametrize("name", ["crash:targets=one", "power", "shutdown", "corrupt"])
def test_a_restart_delay_for_which_there_is_no_time_is_refused_and_not_shortened(name: str) -> None:
    """A node that was back sooner would have forgotten leases that still run."""
    assert {planned.duration_ms for planned in draw(name, duration_ms=13_000, ttl_ms=10_000).faults} == {12_000}
    with pytest.raises(UsageError, match="a node that stays down for 12s is not back before 9s"):
        draw(name, duration_ms=10_000, ttl_ms=10_000)
    killed = draw("crash:targets=clients", duration_ms=10_000, ttl_ms=10_000).faults
    assert [planned.end_ms for planned in killed] == [9_000], "a client that is killed forgets nothing that it granted"


@pytest.mark.parametrize("name", ["crash", "power", "shutdown"])
def test_a_restart_delay_is_taken_as_it_is(name: str) -> None:
    assert {p.duration_ms for p in draw(f"{name}:restart-delay=0").faults} == {0}
    assert {p.duration_ms for p in draw(f"{name}:restart-delay=1.2ttl", ttl_ms=700).faults} == {840}


@pytest.mark.parametrize("name", ["crash", "power", "shutdown"])
@pytest.mark.parametrize(("targets", "count"), [("one", 1), ("minority", 2), ("majority", 3), ("all", 5)])
def test_as_many_nodes_go_down_as_were_asked_for(name: str, targets: str, count: int) -> None:
    faults = draw(f"{name}:targets={targets}").faults
    assert {len(planned.fault["nodes"]) for planned in faults} == {count}


def test_only_power_cuts_need_disks_and_an_edited_schedule_with_one_says_so_too(tmp_path: Path) -> None:
    assert needs_disks(draw("power"))
    assert not needs_disks(draw("crash+shutdown+partition"))
    edited = tmp_path / "schedule.json"
    edited.write_bytes(draw("crash:targets=one").to_bytes().replace(b'"nemesis":"crash"', b'"nemesis":"power"', 1))
    assert needs_disks(load_schedule(edited, topology()))


def test_pauses_outlast_the_ttl_and_most_are_aimed_at_clients_inside() -> None:
    faults = draw("pause", duration_ms=2_000_000, ttl_ms=900).faults
    assert all(1.2 * 900 <= p.duration_ms <= 2.5 * 900 for p in faults)
    aimed = sum(p.fault["inside"] for p in faults) / len(faults)
    assert 0.6 < aimed < 0.8
    assert any(p.fault["nodes"] for p in faults)


def test_delays_reach_from_a_few_milliseconds_to_beyond_the_ttl() -> None:
    delays = [p.fault["delay_ms"] for p in draw("latency:kind=delay", duration_ms=2_000_000).faults]
    assert min(delays) < 10
    assert max(delays) > 1_000
    assert all(5 <= delay <= 1_300 for delay in delays)


def test_none_plans_nothing() -> None:
    schedule = draw("none")
    assert schedule.faults == ()
    assert json.loads(schedule.to_bytes())["faults"] == []


def test_a_shape_that_needs_more_nodes_is_refused() -> None:
    with pytest.raises(UsageError, match="ring needs at least 3 nodes, there are 2"):
        draw("partition:shape=ring", nodes=2)


def test_the_bytes_of_a_seed_are_these_and_stay_these() -> None:
    assert draw("partition", duration_ms=6_000, clients=3).to_bytes().decode() == GOLDEN


def test_a_saved_schedule_reads_back_as_it_was_and_each_fault_too(tmp_path: Path) -> None:
    schedule = draw(duration_ms=120_000)
    path = tmp_path / "schedule.json"
    path.write_bytes(schedule.to_bytes())
    again = load_schedule(path, topology())
    assert again == schedule
    assert again.to_bytes() == schedule.to_bytes()
    for planned in again.faults:
        fault = decode_fault(planned)
        assert isinstance(fault, nemeses()[planned.nemesis].faults)
        assert json.loads(msgspec.json.encode(fault)) == planned.fault
        assert "\n" not in fault.describe()


def test_an_edited_schedule_is_played_in_order_of_time(tmp_path: Path) -> None:
    data = json.loads(draw("partition").to_bytes())
    data["faults"].reverse()
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(data))
    faults = load_schedule(path, topology()).faults
    assert [p.at_ms for p in faults] == sorted(p.at_ms for p in faults)


def test_a_link_to_the_resource_may_be_asked_for_in_a_file(tmp_path: Path) -> None:
    data = json.loads(draw("partition").to_bytes())
    data["faults"][0]["fault"]["links"] = [["c1", "resource"]]
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(data))
    assert load_schedule(path, topology()).faults[0].fault["links"] == [["c1", "resource"]]


def _edit(change):
    data = json.loads(draw("partition").to_bytes())
    change(data)
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read (No such file"),
        (b"\xff\xfe", "is not JSON"),
        (b"half a {", "is not JSON"),
        (b"[1,2]", "not a schedule"),
        (b'{"verdict":"valid","schema_version":1}', "not a schedule"),
        (_edit(lambda d: d.update(schema_version=2)), "has schema version 2, this fencepost reads 1"),
        (_edit(lambda d: d.pop("topology")), "missing required field `topology`"),
        (_edit(lambda d: d.update(surprise=1)), "unknown field `surprise`"),
        (_edit(lambda d: d["faults"][0].update(at_ms="soon")), "Expected `int`"),
        (_edit(lambda d: d["faults"][0].update(at_ms=-1)), "less than 0 ms"),
        (
            _edit(lambda d: d["faults"][0].update(nemesis="locusts")),
            "'locusts' that is not known; known are clock, corrupt, crash",
        ),
        (_edit(lambda d: d["faults"][0].update(id="f2")), "two faults are called 'f2'"),
        (_edit(lambda d: d["faults"][0]["fault"].update(kind="cuddle")), "fault f1 is not a partition fault"),
        (_edit(lambda d: d["faults"][0]["fault"].update(links=[["c99", "n1"]])), "names c99, but the clients"),
        (_edit(lambda d: d["faults"][0]["fault"].update(links=[["c1", "n6"]])), "names n6, but the nodes"),
    ],
)
def test_a_bad_file_gets_one_line(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "schedule.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_schedule(path, topology())
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
