"""The run folder: files that are replaced atomically, files that are appended to, and the state after a crash."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import fencepost
from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.history import PROXY, ClientEnd, FaultEvent, Gap, Op, Timeline, Write
from harness.checkers.judge import judge_folder, recorded_verdict
from harness.config import RunConfig
from harness.history.recorded import Recorded
from harness.options import replay_command
from harness.report.findings_listed import FoundInRuns, found_in, render_findings
from harness.report.listing import list_runs, render_listing
from harness.store.append_log import AppendLog, read_lines
from harness.store.binding import bound
from harness.store.columns import OPS_SCHEMA
from harness.store.manifest import write_manifest
from harness.store.run_folder import SCHEMA_VERSION, RunFolder
from harness.store.tables import load_recorded, write_history
from harness.verdict import VERDICT_SCHEMA, Finding, Verdict
from tests.harness import runs
from tests.judge.histories import History, ms

CONFIG = RunConfig(seed=7, clients=2, nodes=3, ttl_ms=100, nemesis="none")


def story() -> History:
    history = History().section("c1", 1, 10).section("c2", 20, None).end("c2", "killed", 25).end("c1", "finished", 30)
    history.fault("f1", 1, 2, cut_links=(("c1", "n1"),)).fault("f2", 24, None, nemesis="crash", killed_clients=("c2",))
    history.write("c1", 1, at=5).writes[0].index = 1
    return history


def written(results: Path, history: History | None = None) -> RunFolder:
    """A folder as a run writes it."""
    history = history or story()
    folder = RunFolder.create(results, history.config)
    for (client, life), ops in history.ops.items():
        with AppendLog(folder.client_log(client, life)) as log:
            for op in ops:
                log.append(op)
    with folder.nemesis_log() as faults, folder.client_ends_log() as ends, folder.resource_log() as writes:
        faults.extend(history.faults)
        ends.extend(history.ends)
        # Every client has ended somehow.
        ended = {(end.client, end.life) for end in history.ends}
        others = [life for life in history.ops if life not in ended]
        ends.extend(ClientEnd(client, life, "cut-off", ms(1200)) for client, life in others)
        silent = set(history.config.user_names) - {client for client, _ in (*ended, *others)}
        ends.extend(ClientEnd(client, 1, "cut-off", ms(1200), "starting") for client in sorted(silent))
        writes.extend(history.writes)
    folder.write_schedule({"faults": [{"id": "f1"}]})
    folder.write_environment({"redis": "7.0.15"})
    folder.write_timeline(history.timeline)
    folder.write_final({"k1": 1})
    write_manifest(folder)
    return folder


def is_written_in(path: Path, ops: pd.DataFrame) -> bool:
    table = pa.Table.from_pandas(ops, OPS_SCHEMA, preserve_index=False)
    return bool(pq.read_table(path, schema=OPS_SCHEMA).to_pydict() == table.to_pydict())


def same(one: Recorded, other: Recorded) -> bool:
    return all(getattr(one, t).astype(str).equals(getattr(other, t).astype(str)) for t in ("ops", "sections", "writes"))


@pytest.mark.parametrize(
    ("environment", "has_process"),
    [
        ({"lock": {"command": ["node", "lock.mjs"]}}, True),
        ({"lock": {"processes": 2}}, True),
        ({"lock": {"rounds": 3}}, False),
        ({}, True),
    ],
)
def test_a_lock_that_was_started_by_a_command_or_has_processes_may_stand_still_beside_its_client(
    tmp_path: Path, environment: dict[str, object], has_process: bool
) -> None:
    folder = RunFolder.create(tmp_path, CONFIG)
    folder.write_environment(environment)
    assert load_recorded(folder).lock_has_process is has_process


def test_what_users_load_may_be_calculated_with_and_changed(tmp_path: Path) -> None:
    run = fencepost.load(written(tmp_path).path)
    assert (run.sections["section"] * 10**15).tolist() == [n * 10**15 for n in run.sections["section"].tolist()]
    for table in (run.ops, run.sections, run.writes):
        for column in ("section", "token"):
            table.loc[0, column] = 2**40
            assert table.loc[0, column] == 2**40
    run.sections.loc[0, ["validity_ms", "granted_ms"]] = 1.5


def test_the_recorded_data_is_read_back(tmp_path: Path) -> None:
    run = load_recorded(written(tmp_path))
    expected = story().recorded()
    assert same(run, expected)
    assert (run.config, run.timeline, run.faults, run.ends) == (
        expected.config, expected.timeline, expected.faults, expected.ends,
    )  # fmt: skip
    assert (run.planned_faults, run.final_values) == (1, {"k1": 1})


def test_times_are_whole_nanoseconds_even_if_some_are_missing(tmp_path: Path) -> None:
    odd = 2**60 + 1
    history = History().op("c1", "acquire", "ok", 1, 0, 1, validity_ms=1.0, deadline_ns=odd, requested_ns=odd)
    history.op("c1", "read", "ok", 1, 2, 3, value=0)
    ops = load_recorded(written(tmp_path, history)).ops
    assert ops["deadline_ns"].iloc[0] == ops["requested_ns"].iloc[0] == odd
    assert ops["deadline_ns"].isna().tolist() == [False, True]
    assert str(ops["invoke_ns"].dtype) == "int64"


def test_a_folders_name_uses_only_characters_that_file_systems_and_container_engines_accept(
    tmp_path: Path,
) -> None:
    config = msgspec.structs.replace(CONFIG, lock="my.module:Cl/ass ä", nemesis="partition:kind=drop+pause")
    folder = RunFolder.create(tmp_path, config)
    assert folder.name.endswith("-fenced-counter-my.module-Cl-ass-partition-kind-drop-pause-7")
    assert RunFolder.create(tmp_path, msgspec.structs.replace(CONFIG, lock_command="x" * 5000)).path.is_dir()


def test_a_lock_with_a_name_is_called_by_it(tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, lock_command="node my/lock.mjs --retries 3", name="mine-3")
    folder = RunFolder.create(tmp_path, config)
    assert f"-mine-3-{CONFIG.nemesis}-" in folder.name
    assert folder.read_config() == config
    assert "--name mine-3" in replay_command(config, folder.path / "schedule.json")
    (row,) = render_listing(list_runs(tmp_path)).columns[1].cells
    assert row == f"mine-3, {CONFIG.nemesis}, fenced-counter"
    unique = msgspec.structs.replace(config, workload="register", fencing="unique")
    other = tmp_path / "other"
    RunFolder.create(other, unique)
    (row,) = render_listing(list_runs(other)).columns[1].cells
    assert row == f"mine-3, {CONFIG.nemesis}, register, fencing unique"


def test_runs_that_start_together_have_separate_folders_and_latest_is_one_of_them(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from tests.judge.test_store import CONFIG, RunFolder
for _ in range(50):
    print(RunFolder.create(Path({str(tmp_path)!r}), CONFIG).name)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        for _ in range(2)
    ]
    names = [name for process in processes for name in process.communicate()[0].split()]
    assert len(names) == len(set(names)) == 100
    assert (tmp_path / "latest").readlink().name in names
    assert {path.name for path in tmp_path.iterdir()} == {*names, "latest"}


def test_latest_and_bare_names_are_found_among_the_results(tmp_path: Path) -> None:
    first, second = RunFolder.create(tmp_path, CONFIG), RunFolder.create(tmp_path, CONFIG)
    assert RunFolder.open("latest", tmp_path).path == second.path
    assert RunFolder.open(first.name, tmp_path).path == RunFolder.open(first.path).path == first.path


def test_a_folder_that_is_not_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text('{"schema_version": 1, "name": "somebody else"}')
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / "config.json").write_bytes(b"\xff\xfe\x00")
    for name in ("nothing", "file", "foreign", "garbage", "."):
        with pytest.raises(UsageError) as caught:
            RunFolder.open(tmp_path / name)
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    judge_folder(folder)
    for name, newest in (("verdict.json", VERDICT_SCHEMA), ("config.json", SCHEMA_VERSION)):
        document = msgspec.json.decode((folder.path / name).read_bytes())
        (folder.path / name).write_bytes(msgspec.json.encode(document | {"schema_version": newest + 1}))
        with pytest.raises(UsageError, match=rf"schema {newest + 1}; this fencepost reads up to {newest}"):
            recorded_verdict(RunFolder.open(folder.path))


OLD_VERDICT = {
    "verdict": "violation",
    "require": "lease",
    "findings": [
        {"checker": "beliefs", "kind": "lease-without-majority", "blame": "lock", "text": "it believed in vain"}
    ],
    "unknown": [],
    "figures": {"beliefs": {"sections": 0}, "liveness": {"wait_ms": {}}, "opportunities": {}},
    "schema_version": 1,
}


def test_a_run_that_an_older_version_judged_is_judged_anew_and_listed_as_outdated(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder.path / "verdict.json").write_bytes(msgspec.json.encode(OLD_VERDICT))
    assert recorded_verdict(folder) is None
    assert fencepost.load(folder.path).verdict.verdict == "valid"
    assert [run.verdict for run in list_runs(tmp_path)] == ["outdated"]
    assert "fencepost analyze RUN" in " ".join(shown(tmp_path).split())
    judge_folder(folder)
    assert [run.verdict for run in list_runs(tmp_path)] == ["valid"]
    assert "fencepost analyze" not in shown(tmp_path)


def bind(folder: RunFolder, document: dict[str, object]) -> None:
    """Write it as the verdict that was made from this record."""
    document.pop("fits")
    (folder.path / "verdict.json").write_bytes(bound(msgspec.json.encode(document), folder.path))


def test_a_verdict_that_was_edited_does_not_fit_the_record(tmp_path: Path) -> None:
    folder = written(tmp_path)
    judge_folder(folder)
    path = folder.path / "verdict.json"
    path.write_text(path.read_text().replace('"verdict": "valid"', '"verdict": "violation"'))
    with pytest.raises(UsageError, match=r"verdict\.json does not fit the record: .* judges it anew"):
        recorded_verdict(folder)
    with pytest.raises(UsageError, match=r"verdict\.json does not fit the record"):
        fencepost.load(folder.path)
    assert [(run.verdict, run.cells) for run in list_runs(tmp_path)] == [("changed", ())]
    assert "verdict.json does not fit the record" in " ".join(shown(tmp_path).split())
    code, said, _ = runs.fencepost(tmp_path, "explain", str(folder.path))
    assert code == 0
    assert "verdict.json does not fit the record" in said
    judge_folder(folder)
    assert [run.verdict for run in list_runs(tmp_path)] == ["valid"]


def test_a_verdict_of_another_run_or_of_another_record_does_not_fit(tmp_path: Path) -> None:
    folder, other = written(tmp_path), written(tmp_path, quiet())
    for each in (folder, other):
        judge_folder(each)
    shutil.copy(other.path / "verdict.json", folder.path / "verdict.json")
    assert list_runs(tmp_path)[0].verdict == "changed"
    judge_folder(folder)
    assert list_runs(tmp_path)[0].verdict == "valid"
    (folder.path / "resource.jsonl").write_bytes(b"")
    write_manifest(folder)
    assert list_runs(tmp_path)[0].verdict == "changed"


def test_figures_of_a_checker_that_is_no_longer_there_are_left_out(tmp_path: Path) -> None:
    folder = written(tmp_path)
    _, verdict = judge_folder(folder)
    document = msgspec.json.decode((folder.path / "verdict.json").read_bytes())
    document["figures"]["gone"] = {"counted": 3}
    bind(folder, document)
    assert recorded_verdict(folder) == verdict


def test_figures_that_are_not_what_their_checker_writes_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    judge_folder(folder)
    document = msgspec.json.decode((folder.path / "verdict.json").read_bytes())
    document["figures"]["counter"]["lost"] = "many"
    bind(folder, document)
    with pytest.raises(UsageError, match=r"verdict\.json is not what fencepost writes there: .*lost.* writes it anew"):
        recorded_verdict(folder)


def shown(results: Path) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_listing(list_runs(results)))
    return console.export_text()


def test_a_run_whose_configuration_is_a_link_to_nowhere_is_listed_as_damaged(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder.path / "config.json").unlink()
    (folder.path / "config.json").symlink_to("nowhere")
    assert [(run.name, run.verdict) for run in list_runs(tmp_path)] == [(folder.name, "damaged")]
    assert shown(tmp_path).count("damaged: ") == 1


def test_the_listing_has_a_column_for_each_figure_that_checkers_offer(tmp_path: Path) -> None:
    judge_folder(written(tmp_path))
    written(tmp_path)
    text = shown(tmp_path)
    heads = text.splitlines()[1].split()
    promises = ["exclusion", "lease", "liveness", "data"]
    assert heads[-8:] == ["sections", "overlaps", "lost", *promises, "verdict"]
    assert text.splitlines()[3].split()[-8:] == ["2", "0/0/0", "0", "kept", "kept", "kept", "kept", "valid"]
    assert text.splitlines()[4].split()[-1] == "unjudged"
    assert "overlaps: blamed on the lock / on a client that outlived its lease / undecided; lost: updates" in " ".join(
        text.split()
    )


def test_a_partial_line_at_the_end_is_dropped_in_every_log(tmp_path: Path) -> None:
    folder = written(tmp_path)
    for log in [*folder.path.glob("*.jsonl"), *folder.clients.glob("*.jsonl")]:
        whole = log.read_bytes()
        log.write_bytes(whole + whole[: len(whole.splitlines()[0]) // 2])
    write_manifest(folder)
    assert same(load_recorded(folder), story().recorded())


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_crash_at_any_byte_costs_at_most_the_last_operation(tmp_path: Path, cut: int) -> None:
    folder = written(tmp_path)
    log = folder.client_log("c1", 1)
    log.write_bytes(log.read_bytes()[:-cut])
    kept = sum(1 for ops in read_lines(log, Op) for _ in ops)
    assert kept == len(story().ops["c1", 1]) - (cut > 1)


def test_a_complete_last_line_without_a_newline_is_kept(tmp_path: Path) -> None:
    folder = written(tmp_path)
    log = folder.client_log("c1", 1)
    log.write_bytes(log.read_bytes().rstrip(b"\n"))
    write_manifest(folder)
    assert same(load_recorded(folder), story().recorded())


def test_garbage_in_the_middle_is_named_by_file_and_line(tmp_path: Path) -> None:
    folder = written(tmp_path)
    log = folder.client_log("c1", 1)
    lines = log.read_bytes().splitlines(keepends=True)
    too_large = lines[0].replace(b'"section":1', b'"section":9223372036854775808')
    for garbage in (b"\xff\n", b'{"f":"fly"}\n', b'{"f":"read"\n', too_large):
        log.write_bytes(b"".join([lines[0], garbage, *lines[1:]]))
        write_manifest(folder)
        with pytest.raises(UsageError, match=r"c1\.1\.jsonl line 2 is not a valid record") as caught:
            load_recorded(folder)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "origin"),
    [
        (b'{"event":"injected","fault":"f1"}', "another version of fencepost wrote it"),
        (b"f1 was injected", "not from fencepost"),
    ],
)
def test_a_line_of_another_version_is_told_from_one_of_another_program(
    tmp_path: Path, line: bytes, origin: str
) -> None:
    folder = written(tmp_path)
    log = folder.path / "nemesis.jsonl"
    log.write_bytes(line + b"\n" + log.read_bytes())
    write_manifest(folder)
    with pytest.raises(UsageError, match=f"line 1 is not a valid record .*: the file is damaged, or {origin}$"):
        load_recorded(folder)


def test_a_record_that_is_refused_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    folder = written(tmp_path)
    log, history = folder.client_log("c1", 1), folder.path / "history.parquet"
    whole = log.read_bytes()
    for earlier in (None, b"of an earlier judgement"):
        log.write_bytes(whole.replace(b'"section":1', b'"section":2'))
        if earlier is not None:
            history.write_bytes(earlier)
        with pytest.raises(UsageError, match=r"c1\.1\.jsonl is not as the run left it: its content changed"):
            judge_folder(folder)
        assert (history.read_bytes() if history.exists() else None) == earlier
        assert list(folder.path.glob(".history*")) == []
    log.write_bytes(whole)
    run, _ = judge_folder(folder)
    assert is_written_in(history, run.ops)


def test_long_logs_are_read_in_pieces_that_cut_lines_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path)
    for size in (1, 7, 150, 1000):
        monkeypatch.setattr("harness.store.append_log._PIECE_BYTES", size)
        assert same(load_recorded(folder), story().recorded())


def test_names_are_distinguished_however_many_there_are(tmp_path: Path) -> None:
    history = History()
    for n in range(40_000):
        history.op(
            "c1", "acquire", "fail", 1, n / 100, (n + 1) / 100, error=f"error {n}" if n % 3 else None, key=f"k{n % 200}"
        )
    folder = written(tmp_path, history)
    ops = load_recorded(folder).ops
    assert ops["key"].tolist() == [f"k{n % 200}" for n in range(40_000)]
    assert ops["error"].astype(object).fillna("").tolist() == [f"error {n}" if n % 3 else "" for n in range(40_000)]
    write_history(folder, ops)
    assert is_written_in(folder.path / "history.parquet", ops)


def test_a_run_whose_harness_was_killed_in_the_middle_is_read_and_judged(tmp_path: Path) -> None:
    folder = written(tmp_path)
    for name in ("final.json", "client-ends.jsonl", "resource.jsonl", "manifest.json"):
        (folder.path / name).unlink()
    folder.write_timeline(Timeline(start_ns=ms(-1)))
    run, verdict = judge_folder(folder)
    assert (len(run.sections), run.final_values, run.ends) == (2, None, ())
    assert run.sections["ended"].tolist() == ["release", "open"]
    assert verdict.verdict == "unknown"


def test_a_run_that_was_killed_before_anything_happened_is_read_and_judged(tmp_path: Path) -> None:
    run, verdict = judge_folder(RunFolder.create(tmp_path, CONFIG))
    assert len(run.ops) == len(run.sections) == len(run.writes) == 0
    assert run.timeline.interrupted
    assert verdict.verdict == "unknown"


def test_judging_leaves_the_history_as_parquet_and_the_verdict(tmp_path: Path) -> None:
    folder = written(tmp_path)
    _, verdict = judge_folder(folder)
    assert recorded_verdict(folder) == verdict
    metadata = pq.ParquetFile(folder.path / "history.parquet").metadata
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_the_history_as_parquet_never_stands_in_for_the_clients_logs(tmp_path: Path) -> None:
    folder, other = written(tmp_path), written(tmp_path, quiet())
    for each in (folder, other):
        judge_folder(each)
    shutil.copy(other.path / "history.parquet", folder.path / "history.parquet")
    assert same(load_recorded(folder), story().recorded())
    shutil.rmtree(folder.clients)
    with pytest.raises(UsageError, match=r"clients/c1\.1\.jsonl is missing; manifest\.json lists it"):
        judge_folder(folder)
    write_manifest(folder)
    with pytest.raises(UsageError, match=r"/clients is missing: the record is damaged"):
        judge_folder(folder)
    folder.clients.mkdir()
    with pytest.raises(
        UsageError, match=r"client-ends\.jsonl is damaged: it names c2, life 1, but clients/c2\.1\.jsonl is not"
    ):
        judge_folder(folder)


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path)
    seen: list[str] = []

    def look(self: Path, target: Path) -> Path:
        seen.append(msgspec.json.decode((folder.path / "final.json").read_bytes())["k1"])
        os.rename(self, target)  # noqa: PTH104
        return target

    monkeypatch.setattr(Path, "replace", look)
    folder.write_final({"k1": 2})
    assert (seen, folder.read_final()) == ([1], {"k1": 2})
    assert not list(folder.path.glob(".*"))


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BrokenEnvironmentError, match=r"no space left to write .*final\.json; make room"):
        folder.write_final({"k1": 2})
    monkeypatch.undo()
    assert folder.read_final() == {"k1": 1}
    assert not list(folder.path.glob(".*"))


def test_a_log_on_a_full_disk_keeps_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    log = AppendLog(path)
    log.append(Write("k1", 0, "c1", 1, 1))
    real = os.write
    left = [10]

    def nearly_full(fd: int, data: bytes) -> int:
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[: left.pop()])

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(BrokenEnvironmentError, match="no space left"):
        log.append(Write("k1", 0, "c1", 2, 2))
    monkeypatch.undo()
    log.append(Write("k1", 0, "c1", 3, 3))
    log.close()
    assert [write.section for piece in read_lines(path, Write) for write in piece] == [1, 3]


def test_a_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = os.write
    with AppendLog(tmp_path / "log.jsonl") as log:
        monkeypatch.setattr(os, "write", lambda fd, data: sizes.append(data.count(b"\n")) or real(fd, data))
        log.append(FaultEvent("injected", "f1", "pause", "it", 1, 2, True, "seen"))
        log.extend([Write("k1", 0, "c1", n, n) for n in range(3)])
        log.extend([])
    assert sizes == [1, 3]


def test_runs_are_listed_oldest_first_with_their_verdicts(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nothing") == ()
    (tmp_path / "foreign").mkdir()
    judged, unjudged, damaged = written(tmp_path), written(tmp_path), written(tmp_path)
    word = judge_folder(judged)[1].verdict
    (damaged.path / "verdict.json").write_text("{")
    assert [(run.name, run.verdict) for run in list_runs(tmp_path)] == [
        (judged.name, word), (unjudged.name, "unjudged"), (damaged.name, "damaged"),
    ]  # fmt: skip


def found(verdict: str, *findings: Finding) -> Verdict:
    return Verdict(verdict, "lease", findings, (), {})  # type: ignore[arg-type]


def test_what_several_runs_found_is_told_with_how_often_and_how_soon(tmp_path: Path) -> None:
    late = Finding("late-grant", "lock", "late", count=2, examples=({"at_ms": 9_000.0}, {"at_ms": 3_000.0}))
    soon = Finding("late-grant", "lock", "late", count=5, examples=({"at_ms": 1_000.0},))
    timeless = Finding("lost-update", "client", "lost", examples=({"key": "k1"},))
    for verdict in (found("violation", timeless, late), found("unknown", soon), found("valid")):
        folder = written(tmp_path)
        folder.write_verdict(verdict)
    written(tmp_path)
    listed = list_runs(tmp_path)
    assert [run.verdict for run in listed] == ["violation", "unknown", "valid", "unjudged"]
    judged, rows = found_in(listed)
    assert judged == 3
    lock = RunFolder(listed[0].path).read_config().lock_name
    assert rows == (
        FoundInRuns("late-grant", "lock", 2, 7, (1_000.0, 3_000.0), (lock,)),
        FoundInRuns("lost-update", "client", 1, 1, (), (lock,)),
    )
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render_findings(listed))
    text = console.export_text()
    rows_shown = [line.split() for line in text.splitlines()]
    assert ["late-grant", "lock", "2", "of", "3", "7", "2.0", "s", "1.0", "s"] in rows_shown
    assert ["lost-update", "client", "1", "of", "3", "1", "–", "–"] in rows_shown
    assert "found in runs of" not in text, "they are of one lock"
    assert render_findings(listed[2:]) == "nothing was found in 1 run"


def test_findings_of_several_locks_name_them_in_whole_words(tmp_path: Path) -> None:
    locks = ("control-release-without-comparing", "control-no-unique-value")
    for lock in locks:
        folder = RunFolder.create(tmp_path, msgspec.structs.replace(CONFIG, lock=lock))
        folder.write_verdict(found("violation", Finding("late-grant", "lock", "late")))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render_findings(list_runs(tmp_path)))
    text = console.export_text()
    assert ["2", "of", "2", "2", "–", "–"] in [line.split()[2:8] for line in text.splitlines()]
    assert re.search(r"late-grant +lock +control-\S+, +\n? *control-\S+", text)
    assert all(lock in text for lock in locks)


def test_runs_before_a_time_are_not_listed(tmp_path: Path) -> None:
    written(tmp_path)
    (run,) = list_runs(tmp_path)
    begun = f"{run.when:%Y%m%dT%H%M%SZ}"
    later = f"{run.when + timedelta(seconds=1):%Y%m%dT%H%M%SZ}"
    assert "unjudged" in runs.fencepost(tmp_path, "list", "--results", str(tmp_path), "--since", begun)[1]
    said = runs.fencepost(tmp_path, "list", "--results", str(tmp_path), "--since", later)[1]
    assert f"since {later}" in " ".join(said.split())
    assert runs.fencepost(tmp_path, "list", "--since", "yesterday")[0] == 254


def test_one_line_gives_tables(tmp_path: Path) -> None:
    run = fencepost.load(written(tmp_path).path)
    assert (len(run.ops), len(run.sections), len(run.faults), len(run.writes)) == (4, 2, 3, 1)
    assert run.faults["cut_links"].iloc[0] == (("c1", "n1"),)
    assert run.config.seed == 1
    assert run.verdict.verdict == "valid"


def test_importing_the_errors_imports_nothing_heavy() -> None:
    heavy = "{'pandas', 'numpy', 'pyarrow', 'msgspec', 'redis', 'workloads', 'harness'}"
    script = f"import sys, fencepost.errors; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_protocols_can_be_imported() -> None:
    from fencepost import Lease, Lock, LockSettings, NodeAddress
    from workloads import base

    assert (Lease, Lock, LockSettings, NodeAddress) == (base.Lease, base.Lock, base.LockSettings, base.NodeAddress)
    with pytest.raises(AttributeError, match="nonsense"):
        fencepost.nonsense  # noqa: B018


def test_another_project_s_module_of_our_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text("")
    script = "import fencepost\ntry: fencepost.load('x')\nexcept fencepost.errors.UsageError as error: print(error)"
    done = subprocess.run(
        [sys.executable, "-c", "import fencepost.errors\n" + script],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.startswith(f"the module harness comes from {tmp_path / 'harness.py'}")


def quiet() -> History:
    return History().section("c1", 5, 10).end("c1", "finished", 500)


def broken_off(folder: RunFolder) -> RunFolder:
    for name in ("manifest.json", "final.json"):
        (folder.path / name).unlink()
    return folder


def with_gap(folder: RunFolder, client: str, began: float, ended: float) -> RunFolder:
    with AppendLog(folder.gaps_log(client, 1)) as log:
        log.append(Gap(ms(began), ms(ended)))
    return folder


def test_gaps_in_a_clients_heartbeat_are_read_as_pauses_that_nobody_planned(tmp_path: Path) -> None:
    run = load_recorded(broken_off(with_gap(written(tmp_path, quiet()), "c1", 100, 400)))
    stops = [event for event in run.faults if event.unplanned]
    assert [(event.event, event.paused_clients, event.done_ns) for event in stops] == [
        ("injected", ("c1",), ms(100)),
        ("healed", ("c1",), ms(400)),
    ]


def test_a_proxy_that_was_kept_waiting_is_known(tmp_path: Path) -> None:
    folder = written(tmp_path, quiet())
    with AppendLog(folder.gaps_log(PROXY)) as log:
        log.append(Gap(ms(100), ms(400), ms(400) - ms(100)))
    run = load_recorded(broken_off(folder))
    assert run.waits_of("c1") == [(ms(100), ms(400))]
    assert not run.faults


@pytest.mark.parametrize(("client", "began", "ended"), [("c7", 1, 2), ("c1", 2, 1)])
def test_gaps_of_a_life_that_was_not_or_that_end_before_they_begin_are_damage(
    tmp_path: Path, client: str, began: float, ended: float
) -> None:
    folder = broken_off(with_gap(written(tmp_path, quiet()), client, began, ended))
    with pytest.raises(UsageError, match=rf"gaps/{client}\.1\.jsonl is damaged"):
        load_recorded(folder)


def test_gaps_that_were_removed_after_the_run_are_damage(tmp_path: Path) -> None:
    folder = with_gap(written(tmp_path, quiet()), "c1", 100, 400)
    write_manifest(folder)
    folder.gaps_log("c1", 1).unlink()
    with pytest.raises(UsageError, match=r"gaps/c1\.1\.jsonl is missing"):
        load_recorded(folder)


def test_a_run_whose_clients_had_several_tasks_is_read_although_it_broke_off(tmp_path: Path) -> None:
    history = History(tasks=2).section("c1@1", 5, 10).section("c1@2", 20, 30)
    for task in ("c1@1", "c1@2"):
        history.end(task, "finished", 40)
    folder = broken_off(with_gap(written(tmp_path, history), "c1", 100, 400))
    run = load_recorded(folder)
    assert {event.paused_clients for event in run.faults} == {("c1", "c1@1", "c1@2")}


@pytest.mark.needs("root")
def test_a_run_of_another_user_s_is_unreadable_and_not_damaged(tmp_path: Path) -> None:
    """What a run leaves can be entered by its user alone."""
    folder, own = written(tmp_path), written(tmp_path)
    for each in (folder, own):
        judge_folder(each)
    own.path.chmod(0o755)
    for place in (tmp_path, *tmp_path.parents[:3]):
        place.chmod(place.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        listed, text = list_runs(tmp_path), " ".join(shown(tmp_path).split())
        with pytest.raises(UsageError, match=r"cannot be read \(Permission denied\); check whose it is"):
            RunFolder.open(folder.path)
    finally:
        os.seteuid(0)
    assert [run.verdict for run in listed] == ["unreadable", "valid"]
    assert "unreadable: " in text
    assert "damaged" not in text


@pytest.mark.needs("root")
@pytest.mark.parametrize("name", ["clients", "gaps"])
def test_logs_that_this_user_may_not_read_are_not_missing(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path)
    judge_folder(folder)
    folder.path.chmod(0o755)
    for place in (tmp_path, *tmp_path.parents[:3]):
        place.chmod(place.stat().st_mode | 0o055)
    (folder.path / name).chmod(0o700)
    os.seteuid(65534)
    try:
        assert [run.verdict for run in list_runs(tmp_path)] == ["unreadable"]
    finally:
        os.seteuid(0)
