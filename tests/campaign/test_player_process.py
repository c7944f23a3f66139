"""What a worker does when the process that makes its runs shows something, stops answering, or dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic

import msgspec
import pytest

from harness.campaign.one_run import Made, Order
from harness.campaign.player_process import PlayerDiedError, PlayerProcess
from harness.run.messages import Shown, encode
from harness.run.snapshot import Snapshot
from tests.campaign.made import line
from tests.harness.runs import ROOT

ORDER = Order(cell="a", seed=1, words=(), results="results", revision="")
SNAPSHOT = Snapshot("load", 1.0, 2.0, 3, 4, (), 5)
MADE = Made(line("a", 1))


@contextmanager
def player(script: str) -> Iterator[PlayerProcess]:
    """One whose process runs this script for each order `order`."""
    loop = f"import sys, time\nfor order in sys.stdin:\n    {script}"
    process = PlayerProcess([sys.executable, "-c", loop])
    try:
        yield process
    finally:
        process.end()


def says(*messages: Shown | Made) -> str:
    return f"sys.stdout.buffer.write({b''.join(map(encode, messages))!r}); sys.stdout.flush()"


def test_what_it_shows_and_what_it_made_come_back_and_it_goes_on_for_the_next_run() -> None:
    shown: list[Snapshot] = []
    with player(says(Shown(SNAPSHOT), MADE)) as process:
        assert [process.play(ORDER, 60, shown.append) for _ in range(2)] == [MADE, MADE]
    assert shown == [SNAPSHOT, SNAPSHOT]


def test_it_is_told_which_run_to_make() -> None:
    is_right = f"order.encode() == {encode(ORDER)!r}"
    with player(f"assert {is_right}; {says(MADE)}") as process:
        assert process.play(ORDER, 60, print) == MADE


def test_a_run_that_hangs_is_ended_and_has_failed_and_the_next_one_gets_a_new_process() -> None:
    with player(f"'seed\":1,' in order and time.sleep(600); {says(MADE)}") as process:
        made = process.play(ORDER, 0.3, print)
        assert made.line is None
        assert made.failure is not None
        assert "was not over after 0 s" in made.failure.text
        assert process.play(msgspec.structs.replace(ORDER, seed=2), 60, print) == MADE


def test_a_process_that_dies_says_why_and_the_next_run_gets_a_new_one() -> None:
    with player(f"'seed\":1,' in order and sys.exit('no such lock'); {says(MADE)}") as process:
        with pytest.raises(PlayerDiedError, match="ended: no such lock"):
            process.play(ORDER, 60, print)
        assert process.play(msgspec.structs.replace(ORDER, seed=2), 60, print) == MADE


def test_a_run_that_is_called_off_does_not_count_and_its_process_may_take_it_down() -> None:
    take_down = f"sys.stdin.read(); {says(MADE)}; sys.exit()"
    with player(take_down) as process:
        began_s = monotonic()
        assert process.play(ORDER, 60, print, lambda: True) == Made()
        assert monotonic() - began_s < 30, "it ended when its orders did"


def test_half_a_line_is_waited_for() -> None:
    first, second = encode(MADE)[:5], encode(MADE)[5:]
    write = "sys.stdout.buffer.write({!r}); sys.stdout.flush()"
    with player(f"{write.format(first)}; time.sleep(0.5); {write.format(second)}") as process:
        assert process.play(ORDER, 60, print) == MADE


def test_a_run_that_its_player_cannot_begin_has_failed_with_the_players_words() -> None:
    """The real player, and an order that is no run's."""
    with closing(_Ending(PlayerProcess())) as ending:
        made = ending.process.play(msgspec.structs.replace(ORDER, words=("--clients", "none")), 120, print)
    assert made.line is None
    assert made.failure is not None
    assert "--clients" in made.failure.text


def test_a_player_whose_worker_was_killed_ends_without_a_word(tmp_path: Path) -> None:
    player = subprocess.Popen(
        [sys.executable, "-c", "from harness.campaign.player import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert player.stdin is not None
    assert player.stdout is not None
    player.stdout.close()
    _, said = player.communicate(encode(msgspec.structs.replace(ORDER, words=("--clients", "none"))), timeout=60)
    assert (player.returncode, said) == (0, b"")
    assert list(tmp_path.iterdir()) == []


class _Ending:
    def __init__(self, process: PlayerProcess) -> None:
        self.process = process

    def close(self) -> None:
        self.process.end()
