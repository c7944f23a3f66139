"""Many logs become one table, and an error names the log and the line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fencepost.errors import UsageError
from fencepost.history import Op
from harness.store.append_log import AppendLog
from harness.store.tables import read_ops

MISSING = -(2**63)
Log = tuple[str, int, Path]


@pytest.fixture
def logs(tmp_path: Path) -> list[Log]:
    """Five logs. Each has names that the others do not have, and numbers that only some operations have."""
    made: list[Log] = []
    for number in range(5):
        path = tmp_path / f"c{number}.1.jsonl"
        with AppendLog(path) as log:
            log.extend(
                Op(
                    "acquire" if n % 3 else f"step-{number}",
                    "ok" if n % 2 else "fail",
                    f"k{n % (number + 1)}",
                    n,
                    n,
                    n + 1,
                    value=-n if n % 5 == 0 else None,
                    validity_ms=n / 3 if n % 2 else None,
                    deadline_ns=2**62 - n if number == 3 else None,
                    error=f"error {number}-{n}" if n % 7 == 0 else None,
                    stale=n % 11 == 0,
                )
                for n in range(300)
            )
        made.append((f"c{number}", number + 1, path))
    return made


def test_the_logs_follow_each_other_with_their_names_in_order_of_appearance(logs: list[Log]) -> None:
    together = read_ops(logs)
    alone = pd.concat([read_ops([log]).astype({"f": str, "key": str}) for log in logs], ignore_index=True)
    for name in ("f", "key", "section", "invoke_ns", "stale"):
        assert together[name].astype(alone[name].dtype).tolist() == alone[name].tolist()
    for name in ("f", "key", "client"):
        assert together[name].cat.categories.tolist() == list(dict.fromkeys(together[name].astype(str)))
    assert together["deadline_ns"].isna().sum() == 4 * 300
    assert together["error"].notna().sum() == 5 * len(range(0, 300, 7))
    assert together["value"].tolist()[5] == -5
    assert together["validity_ms"].tolist()[1] == 1 / 3


def test_a_damaged_log_is_named_whoever_reads_it(logs: list[Log]) -> None:
    lines = logs[4][2].read_bytes().splitlines(keepends=True)
    logs[4][2].write_bytes(b"".join([*lines[:10], b'{"f":"read"}\n', *lines[10:]]))
    with pytest.raises(UsageError, match=r"c4\.1\.jsonl line 11 is not a valid record") as told:
        read_ops(logs)
    assert "\n" not in str(told.value)
    logs[4][2].unlink()
    with pytest.raises(UsageError, match=r"c4\.1\.jsonl cannot be read"):
        read_ops(logs)


def test_the_number_that_stands_for_a_missing_one_is_no_number(logs: list[Log]) -> None:
    line = b'{"f":"read","outcome":"ok","key":"k","section":1,"invoke_ns":1,"complete_ns":2,"token":%d}\n'
    logs[0][2].write_bytes(line % (MISSING + 1))
    assert read_ops(logs[:1])["token"].tolist() == [MISSING + 1]
    logs[0][2].write_bytes(line % MISSING)
    with pytest.raises(UsageError, match="line 1 is not a valid record"):
        read_ops(logs[:1])


def test_a_null_is_a_missing_number(logs: list[Log]) -> None:
    line = b'{"f":"read","outcome":"ok","key":"k","section":1,"invoke_ns":1,"complete_ns":2,"value":%s}\n'
    logs[0][2].write_bytes(line % b"null" + line % b"7")
    assert read_ops(logs[:1])["value"].isna().tolist() == [True, False]
