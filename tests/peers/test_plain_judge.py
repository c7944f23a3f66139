"""fencepost and a second, plain judge (`tests/peers/plain_judge`) agree on recorded and on random run folders."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.config import RunConfig
from tests.peers.comparison import DAMAGED, by_the_plain_judge, by_the_product
from tests.peers.raw_folders import tear, write_folder
from tests.peers.recorded import names, unpack

HERE = Path(__file__).parent
CONFIG: dict[str, Any] = msgspec.to_builtins(RunConfig(seed=1))
UNHURRIED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
    derandomize=True,
)
seeds = st.integers(0, 2**32)
sizes = st.integers(1, 6)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("peers"))


@pytest.mark.parametrize("name", names())
def test_the_judges_agree_on_a_recorded_run(recorded: Path, name: str) -> None:
    assert by_the_product(recorded / name) == by_the_plain_judge(recorded / name)


def test_the_recorded_runs_show_every_kind_of_finding(recorded: Path) -> None:
    found = [by_the_plain_judge(recorded / name) for name in names()]
    assert {blame for judged in found for blame in judged["overlaps"]} >= {"lock", "client"}
    for kind in ("lost", "stale_accepted", "overstated"):
        assert any(judged[kind] for judged in found), kind
    assert {judged["verdict"] for judged in found} == {"valid", "violation"}


def fresh(path: Path, seed: int, size: int) -> Path:
    folder = path / f"{seed}-{size}-{len(list(path.iterdir()))}"
    write_folder(folder, CONFIG, seed, size)
    return folder


@settings(UNHURRIED, max_examples=90)
@given(seed=seeds, size=sizes)
def test_the_judges_agree_on_random_folders(tmp_path: Path, seed: int, size: int) -> None:
    folder = fresh(tmp_path, seed, size)
    assert by_the_product(folder) == by_the_plain_judge(folder)


@settings(UNHURRIED, max_examples=30)
@given(seed=seeds, size=st.integers(2, 6))
def test_the_judges_agree_on_readers_and_writers(tmp_path: Path, seed: int, size: int) -> None:
    folder, rng = fresh(tmp_path, seed, size), Random(seed)
    for log in (folder / "clients").iterdir():
        ops = [json.loads(line) for line in log.read_text().splitlines()]
        come = [op | {"shared": rng.random() < 0.6} if op["f"] == "acquire" else op for op in ops]
        log.write_text("".join(json.dumps(op) + "\n" for op in come))
    assert by_the_product(folder) == by_the_plain_judge(folder)


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_the_judges_agree_on_a_run_that_was_not_healed_in_time(tmp_path: Path, seed: int) -> None:
    folder = fresh(tmp_path, seed, 4)
    timeline = json.loads((folder / "timeline.json").read_text())
    (folder / "timeline.json").write_text(json.dumps(timeline | {"healed_ns": None}))
    judged = by_the_product(folder)
    assert judged == by_the_plain_judge(folder)
    assert judged["verdict"] != "valid"


@settings(UNHURRIED, max_examples=25)
@given(seed=seeds, size=st.integers(2, 6))
def test_the_judges_agree_that_a_torn_line_is_damage(tmp_path: Path, seed: int, size: int) -> None:
    folder = fresh(tmp_path, seed, size)
    if tear(folder, seed):
        assert by_the_product(folder) == by_the_plain_judge(folder) == DAMAGED


@settings(UNHURRIED, max_examples=25)
@given(seed=seeds, size=sizes)
def test_the_judges_agree_if_the_last_line_is_cut_off(tmp_path: Path, seed: int, size: int) -> None:
    """A client that is killed while it writes leaves such a line."""
    folder = fresh(tmp_path, seed, size)
    for log in (folder / "clients").iterdir():
        log.write_bytes(log.read_bytes()[:-5])
    assert by_the_product(folder) == by_the_plain_judge(folder)


@pytest.mark.parametrize("module", sorted((HERE / "plain_judge").glob("*.py")), ids=lambda module: module.stem)
def test_the_plain_judge_shares_no_code_with_the_product(module: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    known = {*sys.stdlib_module_names, "pyarrow"}  # which reads the tables of the links
    strangers = {
        name
        for name in imported
        if name.partition(".")[0] not in known and not name.startswith("tests.peers.plain_judge")
    }
    assert not strangers
