from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from fencepost.errors import BrokenEnvironmentError, UsageError
from fencepost.history import Op
from workloads.control import NEVER_NS, Control, State
from workloads.hold import Hold
from workloads.recorder import Recorder


def test_both_sides_of_a_control_block_see_each_others_numbers(tmp_path: Path) -> None:
    harness = Control.create(tmp_path / "control")
    client = Control(tmp_path / "control")
    assert (client.start_ns, client.stop_ns, harness.state) == (0, NEVER_NS, State.STARTING)
    harness.start_ns = 123
    client.enter(State.INSIDE, 456)
    client.count(7, 3)
    assert client.start_ns == 123
    assert (harness.state, harness.since_ns, harness.ops, harness.sections) == (State.INSIDE, 456, 7, 3)


def test_a_recorded_line_is_in_the_file_before_the_call_returns(tmp_path: Path) -> None:
    record = Recorder(tmp_path / "log")
    record(Op("read", "ok", "k1", 1, 10, 20, value=5))
    line = (tmp_path / "log").read_bytes()
    assert line.endswith(b"\n")
    assert msgspec.json.decode(line, type=Op) == Op("read", "ok", "k1", 1, 10, 20, value=5)


def test_a_full_disk_ends_the_client_with_one_clear_line() -> None:
    record = Recorder(Path("/dev/full"))
    with pytest.raises(BrokenEnvironmentError, match="No space left on device"):
        record(Op("read", "ok", "k1", 1, 10, 20))


@pytest.mark.parametrize("text", ["20ms", "fixed:20ms", "uniform:5ms-50ms", "exponential:20ms"])
def test_a_hold_is_written_as_it_is_read(text: str) -> None:
    assert Hold.parse(str(Hold.parse(text))) == Hold.parse(text)


@pytest.mark.parametrize(
    "text", ["", "-5ms", "uniform:50ms-5ms", "uniform:5ms", "gauss:5ms", "exponential:", "5 parsecs"]
)
def test_a_hold_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Hold.parse(text)


def test_holds_keep_to_their_distribution_and_repeat_with_the_seed() -> None:
    hold = Hold.parse("uniform:5ms-50ms")
    drawn = [hold.draw_ms(Random(1)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    rng = Random(2)
    assert all(5 <= hold.draw_ms(rng) <= 50 for _ in range(1000))
    exponential = Hold.parse("exponential:20ms")
    assert all(0 <= exponential.draw_ms(rng) <= 400 for _ in range(10_000))
