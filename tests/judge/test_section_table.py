"""A history as one table of sections gives the same verdict as the recorded run."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.errors import UsageError
from harness.checkers import counter, exclusion, fencing
from harness.checkers.judge import judge_table
from harness.store.section_table import SECTIONS_SCHEMA, read_table, save, write_table
from tests.judge.histories import History, ms
from tests.judge.test_writes_by_hand import one_each, random_history, sections


def bad(**config: str) -> History:
    """An overlap, a lapse, a lost update, a stale write, a token that shrinks, an unacknowledged write."""
    history = History(clients=3, **config)
    history.section("c1", 0, 50, token=1, token_source="lock").section("c2", 20, 40, token=2, token_source="lock")
    history.section("c1", 200, 500, number=2, token=3, token_source="lock")
    history.section("c3", 320, 340, token=4, token_source="lock").section("c2", 600, 610, number=2, key="k2")
    history.section("c3", 700, 710, number=2, token=2, token_source="lock").section("c2", 800, 810, number=3)
    history.write("c2", 1, token=2).write("c1", 1, token=1).write("c3", 2, token=4)
    history.write("c1", 2, number=2, token=3).write("c2", 1, number=2, key="k2", told=False)
    return history.write("c3", 3, number=2, token=2)


@pytest.mark.parametrize("fencing_mode", ["none", "writes"])
def test_a_run_and_its_table_are_judged_alike(tmp_path: Path, fencing_mode: str) -> None:
    run = bad(fencing=fencing_mode).recorded()
    write_table(run, tmp_path / "sections.parquet")
    again = read_table(tmp_path / "sections.parquet", run.config)
    for checker in (counter, exclusion, fencing):
        before, after = checker.check(run), checker.check(again)
        assert before.findings
        assert [(f.kind, f.blame, f.count, f.text) for f in after.findings] == [
            (f.kind, f.blame, f.count, f.text) for f in before.findings
        ]
        assert after.figures == before.figures
    verdict = judge_table(tmp_path / "sections.parquet", run.config)
    assert (verdict.verdict, set(verdict.figures)) == ("violation", {"counter", "exclusion", "fencing"})


def test_rows_may_be_in_any_order(tmp_path: Path) -> None:
    run = bad().recorded()
    write_table(run, tmp_path / "sections.parquet")
    table = pq.read_table(tmp_path / "sections.parquet")
    save(table.take(pa.array(list(range(len(table)))[::-1])), tmp_path / "backwards.parquet")
    first, second = (
        judge_table(tmp_path / name, run.config).figures for name in ("sections.parquet", "backwards.parquet")
    )
    assert first == second


def test_rows_in_any_order_keep_the_order_of_starts_and_of_acceptance(tmp_path: Path) -> None:
    """Without tokens, the later start decides which write is stale; here the section that started first wrote last."""
    run = History().section("c1", 0, 500).section("c2", 120, 140).write("c2", 1).write("c1", 1).recorded()
    write_table(run, tmp_path / "sections.parquet")
    table = pq.read_table(tmp_path / "sections.parquet")
    for number, order in enumerate(([0, 1], [1, 0])):
        save(table.take(pa.array(order)), tmp_path / f"{number}.parquet")
        again = read_table(tmp_path / f"{number}.parquet", run.config)
        assert again.writes["client"].tolist() == ["c2", "c1"]
        assert again.sections["client"].tolist() == ["c1", "c2"]
        assert (again.timeline.start_ns, again.timeline.end_ns) == (ms(0), ms(500))
        assert fencing.check(again).figures.stale_writes_accepted == 1
        assert counter.check(again).figures.lost == 1


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(sections, one_each), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_run_and_its_table_in_any_order_are_judged_alike(
    tmp_path: Path, planned: list[tuple[Any, Any]], shown: bool, fenced: bool, rng: Random
) -> None:
    """A table has one token per section: the one that its write carried."""
    tokens = [section[-1] or 0 if shown else None for section, _ in planned]
    made = [(*section[:-1], token) for (section, _), token in zip(planned, tokens, strict=True)]
    written = [(*write[:-1], token) for (_, write), token in zip(planned, tokens, strict=True)]
    run = random_history(made, written, shown, fenced)
    write_table(run, tmp_path / "sections.parquet")
    table = pq.read_table(tmp_path / "sections.parquet")
    if run.sections["start_ns"].is_unique:  # else the order of the rows says who came first
        table = table.take(pa.array(rng.sample(range(len(table)), len(table)), pa.int64()))
    save(table, tmp_path / "shuffled.parquet")
    again = read_table(tmp_path / "shuffled.parquet", run.config)
    for checker in (counter, exclusion, fencing):
        before, after = checker.check(run), checker.check(again)
        assert [(f.kind, f.blame, f.count, f.text) for f in after.findings] == [
            (f.kind, f.blame, f.count, f.text) for f in before.findings
        ]
        assert after.figures == before.figures


def test_a_section_of_zero_length_is_a_section(tmp_path: Path) -> None:
    run = History().section("c1", 5, 5).section("c2", 5, 5).recorded()
    write_table(run, tmp_path / "sections.parquet")
    assert judge_table(tmp_path / "sections.parquet", run.config).figures["exclusion"].overlapping_pairs == 1


def test_rows_may_be_in_row_groups_that_number_names_differently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bad().recorded()
    write_table(run, tmp_path / "sections.parquet")
    whole = read_table(tmp_path / "sections.parquet", run.config)
    table = pq.read_table(tmp_path / "sections.parquet")
    with pq.ParquetWriter(tmp_path / "pieces.parquet", table.schema) as writer:
        for row in range(len(table)):
            writer.write_table(table.slice(row, 1))
    pq.write_table(table.cast(pa.schema([plain(field) for field in table.schema])), tmp_path / "plain.parquet")
    monkeypatch.setattr("harness.store.parquet._BATCH_ROWS", 2)
    monkeypatch.setattr("harness.store.parquet.WORTH_A_THREAD", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    for name in ("sections.parquet", "pieces.parquet", "plain.parquet"):
        again = read_table(tmp_path / name, run.config)
        assert again.sections.astype(str).equals(whole.sections.astype(str))
        assert [c.check(again) for c in (counter, exclusion, fencing)] == [
            c.check(whole) for c in (counter, exclusion, fencing)
        ]


def plain(field: pa.Field) -> pa.Field:
    """The same column with its names written out."""
    return pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field


def test_a_row_without_a_required_value_is_refused(tmp_path: Path) -> None:
    write_table(bad().recorded(), tmp_path / "sections.parquet")
    table = pq.read_table(tmp_path / "sections.parquet")
    where = table.schema.get_field_index("end_ns")
    ends = pa.array([None, *table.column("end_ns").to_pylist()[1:]], pa.int64())
    pq.write_table(table.set_column(where, "end_ns", ends), tmp_path / "holes.parquet")
    with pytest.raises(UsageError, match="is not a table of sections: it has rows without end_ns"):
        read_table(tmp_path / "holes.parquet", History().config)


def test_a_table_without_rows_is_judged(tmp_path: Path) -> None:
    save(SECTIONS_SCHEMA.empty_table(), tmp_path / "empty.parquet")
    assert judge_table(tmp_path / "empty.parquet", History().config).findings == ()


def test_a_file_that_is_not_a_table_of_sections_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(UsageError, match="cannot be read as a table of sections"):
        read_table(tmp_path / "text.parquet", History().config)
    pq.write_table(pa.table({"client": ["c1"]}), tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="it has no column life, section"):
        read_table(tmp_path / "other.parquet", History().config)
    with pytest.raises(UsageError, match="cannot be read"):
        read_table(tmp_path / "absent.parquet", History().config)


def test_a_section_that_ends_before_it_starts_is_refused(tmp_path: Path) -> None:
    write_table(bad().recorded(), tmp_path / "sections.parquet")
    table = pq.read_table(tmp_path / "sections.parquet")
    ends = table.column("end_ns").to_numpy().copy()
    ends[2] = 0
    where = table.schema.get_field_index("end_ns")
    save(table.set_column(where, SECTIONS_SCHEMA.field("end_ns"), pa.array(ends)), tmp_path / "wrong.parquet")
    with pytest.raises(UsageError, match="row 3: the section ends before it starts"):
        read_table(tmp_path / "wrong.parquet", History().config)


def test_a_name_is_stored_once_however_many_sections_it_has(tmp_path: Path) -> None:
    history = History(clients=1)
    for number in range(200):
        history.section("c1", 10 * number, 10 * number + 5, number=number, key="k" * 10_000)
    write_table(history.recorded(), tmp_path / "sections.parquet")
    assert (tmp_path / "sections.parquet").stat().st_size < 10 * 10_000


def test_a_section_with_two_writes_does_not_fit_into_a_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="wrote more than once"):
        write_table(History().section("c1", 0, 9).write("c1", 1).write("c1", 2).recorded(), tmp_path / "x.parquet")
