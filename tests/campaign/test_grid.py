from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fencepost.errors import UsageError
from harness.campaign import facts
from harness.campaign.grid import (
    GRIDS,
    Cell,
    Grid,
    Part,
    check,
    common_options,
    from_axes,
    load_grid,
    split_values,
    with_options,
)
from harness.campaign.plan_order import Estimate, in_order
from harness.campaign.play import make_plan
from harness.options import parse_run


def grid_of(*axes: str, seeds: int = 2, **common: str) -> Grid:
    return check(from_axes(axes, seeds, 1, common))


def test_axes_span_every_combination_and_each_cell_is_a_run_that_fencepost_test_could_make() -> None:
    grid = grid_of("lock=redlock,redlock-ng", "clients=2,4", ttl="2s")
    assert list(grid.cells) == [
        "redlock · clients 2",
        "redlock · clients 4",
        "redlock-ng · clients 2",
        "redlock-ng · clients 4",
    ]
    config = parse_run(grid.words("redlock-ng · clients 4", 9))
    assert (config.lock, config.clients, config.ttl_ms, config.seed) == ("redlock-ng", 4, 2000, 9)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("none,aof-always", ["none", "aof-always"]),
        ("hunt:how=crash,hunt:how=power", ["hunt:how=crash", "hunt:how=power"]),
        ("crash:targets=one,restart-delay=0,pause", ["crash:targets=one,restart-delay=0", "pause"]),
        ("crash:targets=one,restart-delay=0;none", ["crash:targets=one,restart-delay=0", "none"]),
        ("crash:how=a+pause:targets=b,interval=2s,none", ["crash:how=a+pause:targets=b,interval=2s", "none"]),
    ],
)
def test_a_comma_inside_of_a_nemesis_does_not_end_its_value(text: str, values: list[str]) -> None:
    assert split_values(text) == values


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (["clients"], "NAME=VALUE"),
        (["clients=1,1"], "twice"),
        (["clients=1,,2"], "empty"),
        (["clients=1", "clients=2"], "twice"),
        (["seed=1,2"], "--seed belongs to the campaign"),
        (["client=1,2", "clients=3"], "clients is given twice"),
        (["clinets=1,2"], "did you mean clients"),
        (["disks=yes,no"], "--disks takes no value"),
    ],
)
def test_what_is_no_axis_is_refused(axes: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        grid_of(*axes)


def test_options_for_all_runs_are_read_as_fencepost_test_reads_them() -> None:
    assert common_options(["--clients", "3", "--ttl=1s", "--disks", "--hold", "0"]) == {
        "clients": "3",
        "ttl": "1s",
        "disks": "",
        "hold": "0",
    }
    assert common_options(["--disks", "--dur", "3s"]) == {"disks": "", "duration": "3s"}
    for words, told in (
        (["stray"], "stray"),
        (["--results", "x"], "belongs to the campaign"),
        (["--keys"], "no value"),
    ):
        with pytest.raises(UsageError, match=told):
            common_options(words)


def test_every_cell_gets_the_same_seeds_and_a_round_is_finished_before_the_next_begins() -> None:
    grid = grid_of("clients=1,2,3", seeds=4)
    slots = in_order(grid)
    assert [slot.seed for slot in slots] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
    assert all({slot.cell for slot in slots[n : n + 3]} == set(grid.cells) for n in range(0, 12, 3))
    assert [slots[n].cell for n in (0, 3, 6, 9)] == ["clients 1", "clients 2", "clients 3", "clients 1"]


def test_a_part_with_fewer_seeds_sits_out_the_later_rounds() -> None:
    many = Part(title="many", cells=(Cell("a", {}, {}),), seeds=3)
    few = Part(title="few", cells=(Cell("b", {}, {}),), seeds=1)
    slots = in_order(Grid(name="g", title="t", question="q", parts=(many, few), first_seed=5))
    assert [tuple(slot) for slot in slots] == [("a", 5), ("b", 5), ("a", 6), ("a", 7)]


def test_the_estimate_learns_what_runs_take_besides_their_load() -> None:
    grid = grid_of("clients=1,2", duration="10s", recovery="0")
    slots = in_order(grid)
    estimate = Estimate({name: parse_run(grid.words(name, 1)) for name in grid.cells})
    assert 4 * 10 < estimate.seconds(slots) < 4 * 14
    estimate.learn("clients 1", 16)
    assert estimate.seconds(slots) == pytest.approx(4 * 16)


def test_a_grid_in_json_is_read_and_one_with_a_mistake_is_refused_in_one_line(tmp_path: Path) -> None:
    grid = grid_of("clients=1,2")
    (tmp_path / "grid.json").write_bytes(msgspec.json.encode(grid))
    assert load_grid(str(tmp_path / "grid.json"), quick=False) == grid
    (tmp_path / "bad.json").write_text('{"name": 7}')
    for given, words in (("bad.json", "not a grid"), ("none.json", "no such file")):
        with pytest.raises(UsageError, match=words) as raised:
            load_grid(str(tmp_path / given), quick=False)
        assert "\n" not in str(raised.value)


def test_a_grid_in_python_may_have_a_quick_form(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from harness.campaign.grid import from_axes\nGRID = from_axes(['clients=1,2'], 3, 1, {})\n")
    assert load_grid(str(file), quick=False).run_count == 6
    with pytest.raises(UsageError, match="no QUICK"):
        load_grid(str(file), quick=True)


@pytest.mark.parametrize("name", sorted(path.stem for path in GRIDS.glob("*.py") if path.stem != "__init__"))
@pytest.mark.parametrize("quick", [False, True])
def test_every_run_of_the_grids_that_come_along_can_be_parsed(name: str, quick: bool) -> None:
    grid = load_grid(name, quick=quick)
    for cell in grid.cells:
        assert parse_run(grid.words(cell, 3)).seed == 3


def test_the_quick_form_of_the_report_on_fsync_fits_into_seven_minutes() -> None:
    grid = load_grid("fsync", quick=True)
    estimate = Estimate({name: parse_run(grid.words(name, 1)) for name in grid.cells})
    assert estimate.seconds(in_order(grid)) < 420


def test_the_report_on_fsync_is_about_servers_that_are_processes() -> None:
    """A container is back so late that the lock has often been released: another report is about those."""
    for quick in (True, False):
        grid = load_grid("fsync", quick=quick)
        assert {parse_run(grid.words(cell, 1)).cluster for cell in grid.cells} == {"process"}


def test_the_published_report_on_fsync_has_every_cell_that_it_promises() -> None:
    safety, cost = load_grid("fsync", quick=False).parts
    assert {axis: len(values) for axis, values in safety.axes.items()} == {
        "what the servers keep": 5,
        "went down by": 2,
        "restart": 2,
        "lock": 2,
    }
    assert len(safety.cells) == 40
    assert cost.axes["clients"] == ["1 client", "4 clients", "16 clients", "64 clients"]
    assert len(cost.cells) == 40


def test_seeds_and_common_options_of_the_command_line_hold_for_a_grid_from_a_file() -> None:
    grid = with_options(load_grid("fsync", quick=True), 4, 100, {"cluster": "docker"})
    assert {part.seeds for part in grid.parts} == {4}
    config = parse_run(grid.words(next(iter(grid.cells)), 101))
    assert (config.cluster, config.seed, config.disks) == ("docker", 101, True)


def test_a_grid_that_contradicts_itself_is_refused() -> None:
    cell = Cell("a", {}, {})
    for part, words in (
        (Part(title="p", cells=(cell, cell), seeds=1), "twice"),
        (Part(title="p", cells=(cell,), seeds=0), "1 or more"),
        (Part(title="p", cells=(cell,), seeds=1, kind="speed"), "kind"),
        (Part(title="p", cells=(cell,), seeds=1, pairs=(("a", "b"),)), "'b'"),
        (Part(title="p", cells=(), seeds=1), "no cells"),
    ):
        with pytest.raises(UsageError, match=words):
            check(Grid(name="g", title="t", question="q", parts=(part,)))


def test_the_numbers_of_an_axis_are_those_of_its_option_whatever_its_values_are_called() -> None:
    (part,) = grid_of("lock=redlock,redlock-ng", "clients=2,16").parts
    assert part.numbers("clients") == {"clients 2": 2, "clients 16": 16}
    assert part.numbers("lock") == {}
    cost = load_grid("fsync", quick=False).parts[1]
    assert cost.numbers("clients") == {"1 client": 1, "4 clients": 4, "16 clients": 16, "64 clients": 64}
    assert cost.numbers("what the servers keep") == {}


def test_an_axis_of_one_value_has_no_numbers() -> None:
    (part,) = grid_of("lock=redlock,redlock-ng", "clients=2").parts
    assert part.numbers("clients") == {}


def test_a_cell_may_play_an_experiment_with_the_options_of_script() -> None:
    cell = Cell("crash", {"cluster": "process"}, {"experiment": "crash"}, script="crash-without-persistence")
    grid = check(Grid(name="g", title="", question="", parts=(Part(title="p", cells=(cell,), seeds=2),)))
    assert grid.words("crash", 2) == ["--cluster=process"], "a seed only counts repetitions"
    assert facts.command(grid, "crash") == "fencepost script crash-without-persistence --cluster=process"
    plan = make_plan(grid, yes=False)
    assert plan.configs["crash"].nemesis == "crash-without-persistence"


def test_an_option_that_a_script_does_not_have_is_refused() -> None:
    cell = Cell("crash", {"duration": "5s"}, {}, script="crash-without-persistence")
    with pytest.raises(UsageError, match="--duration is no option of `fencepost script`"):
        check(Grid(name="g", title="", question="", parts=(Part(title="p", cells=(cell,), seeds=1),)))


def test_several_experiments_are_no_cell() -> None:
    cell = Cell("all", {}, {}, script="all")
    grid = check(Grid(name="g", title="", question="", parts=(Part(title="p", cells=(cell,), seeds=1),)))
    with pytest.raises(UsageError, match="name one of them"):
        make_plan(grid, yes=False)
