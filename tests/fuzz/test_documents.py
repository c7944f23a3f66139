from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.base import Topology
from nemesis.schedule import draw_schedule, parse_spec
from tests.campaign import made
from tests.fuzz.command import fresh, fuzz, outcome
from tests.fuzz.hostile import BYTES, INSTEAD, TEXTS, damaged_json

TEST = ["test", "--cluster", "process", "--lock", "redlock", "--clients", "3"]
SPEC = "partition+latency+pause+crash+hunt+shutdown"
MANIFEST = """language = "python"
library = "mine 1"
summary = "a lock of my own"
adapter = "adapter.py"
shows = ["value"]
[settings]
retries = 3
[configured]
retries = "3: the default"
"""


@pytest.fixture(scope="module")
def schedule() -> object:
    clients, nodes = tuple(f"c{n}" for n in range(1, 4)), tuple(f"n{n}" for n in range(1, 6))
    drawn = draw_schedule(parse_spec(SPEC), 7, Topology(clients, nodes, 1_000), 10_000)
    return json.loads(drawn.to_bytes())


@fuzz(25)
@given(data=st.data())
def test_any_schedule_is_played_or_refused_in_one_line(tmp_path: Path, schedule: object, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    (place / "s.json").write_bytes(data.draw(st.one_of(damaged_json(schedule), damaged_json(schedule), BYTES)))
    code, _, _ = outcome(*TEST, "--schedule", "s.json", folder=place)
    assert code in (0, 254)


@fuzz(20)
@given(data=st.data())
def test_any_grid_is_begun_or_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    grid = msgspec.to_builtins(made.grid())
    (place / "g.json").write_bytes(data.draw(st.one_of(damaged_json(grid), damaged_json(grid), BYTES)))
    code, _, _ = outcome("compare", "--grid", "g.json", "--report", "report", folder=place)
    assert code in (2, 254), "a campaign in which no run is made is not finished"


@fuzz(20)
@given(data=st.data())
def test_any_campaign_folder_is_resumed_or_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    grid = made.grid()
    (place / "g.json").write_bytes(msgspec.json.encode(grid))
    report = place / "report"
    (report / "timelines").mkdir(parents=True)
    files = {
        "campaign.json": msgspec.json.encode(made.campaign(grid)),
        "runs.jsonl": b"\n".join(map(msgspec.json.encode, made.lines(grid))) + b"\n",
        "timelines/001.json": b'{"cell":"none","folder":"run","text":"c2 was let in"}',
    }
    for name, content in files.items():
        (report / name).write_bytes(content)
    name = data.draw(st.sampled_from(sorted(files)))
    (line, *rest) = files[name].split(b"\n", 1)
    damaged = data.draw(st.one_of(damaged_json(json.loads(line)), damaged_json(json.loads(line)), BYTES))
    (report / name).write_bytes(b"\n".join([damaged, *rest]))
    code, _, _ = outcome("compare", "--grid", "g.json", "--report", "report", folder=place)
    assert code in (2, 254)


@pytest.mark.parametrize("instead", sorted(INSTEAD))
def test_what_is_no_file_is_no_schedule_grid_or_campaign(instead: str, tmp_path: Path) -> None:
    for number, words in enumerate(
        (
            [*TEST, "--schedule", "it.json"],
            ["compare", "--grid", "it.json"],
            ["script", "it.py"],
            ["compare", "--grid", "it.py"],
        )
    ):
        place = tmp_path / str(number)
        place.mkdir()
        INSTEAD[instead](place / words[-1])
        code, _, _ = outcome(*words, folder=place)
        assert code == 254
    place = tmp_path / "campaign"
    (place / "report").mkdir(parents=True)
    (place / "g.json").write_bytes(msgspec.json.encode(made.grid()))
    INSTEAD[instead](place / "report" / "campaign.json")
    code, _, _ = outcome("compare", "--grid", "g.json", "--report", "report", folder=place)
    assert code in (2, 254)


@fuzz(12)
@given(data=st.data())
def test_any_manifest_of_a_lock_is_listed_or_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    place = fresh(tmp_path)
    folder = place / "mine" / "workloads" / "locks" / "foreign" / "my_lock"
    folder.mkdir(parents=True)
    (folder / "adapter.py").touch()
    lines = MANIFEST.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    value = data.draw(
        st.one_of(TEXTS, st.sampled_from(["9" * 5_000, "[" * 2_000, "nan", "1e400", "{a={b={c=1}}}", '"\\u001b"']))
    )
    lines[at] = data.draw(st.sampled_from([value, f"{lines[at].split('=')[0]} = {value}", f'summary = "{value}"']))
    (folder / "lock.toml").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    import workloads.locks as locks

    with mock.patch.object(locks, "__path__", [*locks.__path__, str(place / "mine" / "workloads" / "locks")]):
        for words in (["setup", "--list"], ["test", "--lock", "my-lock", "--cluster", "process"], ["test", "--help"]):
            outcome(*words, folder=place)
    shutil.rmtree(place)
