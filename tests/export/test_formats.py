"""A run in the formats of other tools holds what was recorded, no more and no less."""

from __future__ import annotations

import json
from collections import defaultdict
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.__main__ import main
from fencepost.errors import UsageError
from harness.config import RunConfig
from harness.export.formats import Choice, Format, Table, Window, keys_of, only_key, writer_of
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from tests.export.wires import connection, request, wire
from tests.judge.histories import History

FORMATS = get_args(Format)


def sample(**config: Any) -> History:
    """An overlap after a lease that was outlived, a refusal, a lost answer, a kill, a fault, and two keys on a node."""
    history = History(clients=3, **config)
    history.section("c1", 10, 150, deadline=110).section("c2", 120, 140, asked=100)
    history.op("c3", "acquire", "fail", 1, 20, 30, error='"held"\n\x1b[31m')
    history.op("c3", "acquire", "info", 1, 40, 60).section("c3", 200, None, number=2, asked=190)
    history.end("c3", "killed", 220).section("c3", 300, 310, life=2, number=3)
    history.write("c1", 1, at=100, token=2**62 + 1)
    history.fault("f1", 100, 200, cut_links=(("c1", "n1"),), nodes=("n2",))
    return history.watch("n1", at=0).seen("n1", "set", 9, "mine", ttl=100).seen("n1", "deleted", 151)


def exported(run: Recorded, name: Format, **choice: Any) -> bytes:
    return b"".join(writer_of(name)(run, Choice(**choice)))


def lines(run: Recorded, **choice: Any) -> list[str]:
    return exported(run, "jepsen", **choice).decode().splitlines()


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_without_any_operation_is_exported(name: Format) -> None:
    exported(History().recorded(), name, wire=wire([], [connection()]))


@pytest.mark.parametrize("table", get_args(Table))
@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_tables_are_read_back_as_they_were(name: Format, table: Table) -> None:
    run = sample().recorded()
    content = BytesIO(exported(run, name, table=table))
    found = pd.read_csv(content, dtype_backend="numpy_nullable") if name == "csv" else pd.read_parquet(content)
    if table == "faults":
        assert found["cut_links"].tolist() == ['[["c1","n1"]]', '[["c1","n1"]]']
        assert found["began_ns"].tolist() == [event.began_ns for event in run.faults]
        return
    expected: pd.DataFrame = getattr(run, table)
    assert list(found) == list(expected)
    for column in expected:
        missing = expected[column].isna().to_numpy()
        assert (found[column].isna().to_numpy() == missing).all(), column
        assert found[column][~missing].tolist() == expected[column][~missing].tolist(), column


@pytest.mark.parametrize("table", ["ops", "sections", "writes"])
def test_a_table_has_the_same_types_whatever_is_in_it(table: Table) -> None:
    small, large = (
        pq.read_schema(BytesIO(exported(run.recorded(), "parquet", table=table)))
        for run in (History().section("c1", 1, 2), History().section("c1", 1, 2, number=300, life=9).write("c1", 2**40))
    )
    assert small.field("section").type == large.field("section").type == pa.int64()
    assert [(one.name, one.type) for one in small] == [(one.name, one.type) for one in large]


def trace(run: Recorded, **choice: Any) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The slices by the names of their process and thread, each with the numbers of the arrows that `end` and `begin`
    there; fails for what Perfetto would drop."""
    events = json.loads(exported(run, "perfetto", **choice))["traceEvents"]
    names: dict[tuple[str, int, int], str] = {}
    tracks: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    open_ends: dict[tuple[int, int], list[float]] = defaultdict(list)
    for event in events:
        place = event["pid"], event["tid"]
        if event["ph"] == "M":
            names.setdefault((event["name"], *place), event["args"].get("name", ""))
            continue
        track = tracks[names["process_name", event["pid"], 0], names["thread_name", *place]]
        if event["ph"] in "sf":
            assert event["ts"] == track[-1]["ts"], "an arrow belongs to the slice above it"
            assert event["ph"] == "s" or event["bp"] == "e"
            track[-1]["begin" if event["ph"] == "s" else "end"] = event["id"]
            continue
        track.append(event)
        around = open_ends[place]
        while around and around[-1] <= event["ts"]:
            around.pop()
        end = round(event["ts"] + event.get("dur", 0), 3)
        assert event["ts"] >= 0
        assert not around or end <= around[-1], "slices of one track must be nested"
        around.append(end)
    return tracks


def test_a_trace_shows_clients_nodes_faults_and_overlaps() -> None:
    tracks = trace(sample().recorded())
    (section,) = [event for event in tracks["clients", "c1"] if event["name"] == "in k1 #1"]
    assert section["ts"] == 10_000
    assert section["dur"] == 140_000
    assert [event["ts"] for event in tracks["clients", "c1"] if event["name"] == "lease over"] == [110_000]
    assert [event["name"] for event in tracks["clients", "c3"]][:2] == ["acquire fail", "acquire info"]
    (overlap,) = tracks["overlaps", "client"]
    assert (overlap["name"], overlap["dur"]) == ("k1: c1 #1 and c2 #1", 20_000)
    (fault,) = tracks["faults", "partition"]
    assert fault["args"]["cut links"] == "c1–n1"
    assert [event["name"] for event in tracks["nodes", "n2"]] == ["it"]
    assert [event["name"] for event in tracks["nodes", "n1 k1"]] == ["mine"]


def test_arrows_lead_from_a_request_to_its_node_and_back() -> None:
    asked = [request("SET", "k1", "v", at=(10_000, 20_000, 30_000, 40_000), reply='"OK"')]
    asked.append(request("SET", "k1", "w", at=(15_000, 16_000, 17_000, 45_000), reply="null", connection=2))
    tracks = trace(History().recorded(), wire=wire(asked, [connection(), connection(2)]))
    ways = {each["name"]: each for name, slices in tracks.items() if name[0] == "links" for each in slices}
    acts = [each for name, slices in tracks.items() if name[0] == "nodes" for each in slices]
    assert sorted(tracks) == [("links", "c1 to n1"), ("nodes", "n1 requests"), ("run", "phases")]
    assert {(each["name"], each["ts"], each["dur"]) for each in acts} == {
        ("c1: SET k1", 10.0, 10.0),
        ("c1: SET k1", 6.0, 1.0),
    }
    first = next(each for each in acts if each["args"]["arguments"] == "k1 v")
    assert (ways['"OK"']["ts"], ways['"OK"']["dur"], ways['"OK"']["end"]) == (20, 10, first["begin"])
    begun = [each["begin"] for name in tracks for each in tracks[name] if "begin" in each]
    ended = [each["end"] for name in tracks for each in tracks[name] if "end" in each]
    assert len(begun) == len(set(begun)) == 4
    assert sorted(begun) == sorted(ended)


def test_no_arrow_leads_to_where_nothing_came() -> None:
    asked = [request("SET", "k1", at=(10,)), request("GET", "k1", at=(11, 12)), request("DEL", "k1", at=(13, 14, 15))]
    own = request("PING", at=(16, 17, 18, 19), by="harness")
    tracks = trace(History().recorded(), wire=wire([*asked, own], [connection()]))
    links = [(each["name"], "begin" in each, "end" in each, "dur" in each) for each in tracks["links", "c1 to n1"]]
    assert links == [
        ("SET k1", False, False, False),
        ("GET k1", True, False, True),
        ("DEL k1", True, False, True),
        ("", False, True, False),
    ]
    nodes = [(each["name"], "end" in each, "begin" in each) for each in tracks["nodes", "n1 requests"]]
    assert nodes == [("c1: GET k1", True, False), ("c1: DEL k1", True, True)]


def test_a_trace_shows_whose_clock_was_wrong() -> None:
    tracks = trace(History().fault("f1", 0, 100, wrong_clocks=("n3",)).recorded())
    assert [event["args"]["wrong clocks"] for event in tracks["nodes", "n3"]] == ["n3"]


def test_a_trace_obeys_no_foreign_text() -> None:
    assert b"\\u001b" not in exported(sample().recorded(), "perfetto")


def test_slices_that_only_intersect_are_on_tracks_of_their_own() -> None:
    history = History(clients=3).fault("f1", 0, 100).fault("f2", 50, 150).fault("f3", 120, 130)
    events = json.loads(exported(history.recorded(), "perfetto"))["traceEvents"]
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"].count("partition") == 2
    assert len(trace(history.recorded())["faults", "partition"]) == 3


def test_a_history_in_edn_has_every_acquire_and_release_in_order() -> None:
    run = sample().recorded()
    assert lines(run)[:4] == [
        '{:index 0, :time 9000000, :type :invoke, :process 0, :f :acquire, :value nil, :client "c1.1", :key "k1", '
        ":section 1}",
        '{:index 1, :time 10000000, :type :ok, :process 0, :f :acquire, :value nil, :client "c1.1", :key "k1", '
        ":section 1}",
        '{:index 2, :time 20000000, :type :invoke, :process 2, :f :acquire, :value nil, :client "c3.1", :key "k1", '
        ":section 1}",
        '{:index 3, :time 30000000, :type :fail, :process 2, :f :acquire, :value nil, :client "c3.1", :key "k1", '
        ":section 1}",
    ]
    assert '{:index 7, :time 101000000, :type :info, :process :nemesis, :f :start, :value "it"}' in lines(run)


def test_a_process_that_crashed_does_nothing_more() -> None:
    steps = [line.split(":process ")[1].split(",")[0] for line in lines(sample().recorded()) if '"c3.' in line]
    assert steps == ["2", "2", "2", "2", "6", "6", "6", "6", "3", "3", "3", "3"]


def test_a_lease_that_was_outlived_overlaps_as_a_section_and_not_as_a_certain_window() -> None:
    def order(window: Window) -> list[str]:
        words = [line for line in lines(sample().recorded(), window=window) if '"c1.' in line or '"c2.' in line]
        return [f"{line.split('client ')[1][1:3]} {line.split(':f :')[1][:7]}" for line in words if ":ok" in line]

    assert order("section") == ["c1 acquire", "c2 acquire", "c2 release", "c1 release"]
    assert order("certain") == ["c1 acquire", "c1 release", "c2 acquire", "c2 release"]


def test_a_section_includes_the_time_at_which_it_ends() -> None:
    history = History().section("c1", 10, 50).section("c2", 50, 60)
    words = [line for line in lines(history.recorded()) if "50000000" in line]
    assert [":acquire" in line for line in words] == [True, False, False]


def test_one_key_is_taken_out_of_several() -> None:
    run = History().section("c1", 10, 20).section("c1", 30, 40, number=2, key="k2").recorded()
    with pytest.raises(UsageError, match="name a key with --key: k1, k2"):
        exported(run, "jepsen")
    assert keys_of(only_key(run, "k2")) == ["k2"]
    assert len(lines(only_key(run, "k2"))) == 4
    with pytest.raises(UsageError, match="the key 'k3'; the run has k1, k2"):
        only_key(run, "k3")


@pytest.mark.parametrize("name", ["porcupine", "jepsen"])
def test_a_semaphore_and_a_read_write_lock_are_no_mutex(name: Format) -> None:
    semaphore = History(workload="semaphore", permits=2).section("c1", 10, 20).recorded()
    for run in (semaphore, History().section("c1", 10, 20, shared=True).recorded()):
        with pytest.raises(UsageError, match="lets several clients in at once"):
            exported(run, name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was never begun, in an otherwise empty working directory."""
    monkeypatch.chdir(tmp_path)
    return RunFolder.create(tmp_path / "results" / "runs", RunConfig(seed=1)).path


def test_the_newest_run_is_written_to_a_file_or_to_standard_output(
    folder: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["export", "--to", "csv", "--output", "ops.csv"]) == 0
    assert capfdbinary.readouterr() == (b"", b"")
    assert main(["export", folder.name, "--to", "csv"]) == 0
    out, err = capfdbinary.readouterr()
    assert (out, err) == ((tmp_path / "ops.csv").read_bytes(), b"")
    assert list(pd.read_csv(StringIO(out.decode())))[:3] == ["client", "life", "f"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "which format? give --to"),
        (["--to", "xml"], "'xml' is not one of perfetto"),
        (["--to", "perfetto", "--table", "ops"], "--table is for parquet and csv; --to is perfetto"),
        (["--to", "csv", "--window", "certain"], "--window is for porcupine and jepsen; --to is csv"),
        (["--to", "pcapng"], "--to pcapng writes what went over the links, which is not on record for this run"),
        (["--to", "csv", "--key", "k9"], "no client asked for the key 'k9'"),
        (["--to", "csv", "--output", "nowhere/ops.csv"], "there is no folder nowhere"),
        (["--to", "csv", "--output", "results"], "--output results is a folder"),
        (["--to", "csv", "--output", "/dev/null"], "/dev/null is not a regular file"),
        (["nothing", "--to", "csv"], "there is no run folder nothing"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    folder: Path, words: list[str], complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *words]) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert complaint in err
    assert err.count("\n") == 1


def test_a_file_stays_as_it_was_if_the_export_fails(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    assert main(["export", "--to", "csv", "--key", "k1", "--output", "old"]) == 254
    assert (tmp_path / "old").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "results"]


def test_times_beyond_what_a_float_holds_are_exact() -> None:
    run = sample().recorded()
    found = pd.read_parquet(BytesIO(exported(run, "parquet", table="writes")))
    assert found["token"].tolist() == [2**62 + 1]
    assert np.issubdtype(run.ops["invoke_ns"].dtype, np.int64)
