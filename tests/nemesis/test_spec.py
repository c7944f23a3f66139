"""What `--nemesis` may say, and the one line that a mistake gets."""

from __future__ import annotations

from typing import get_args

import pytest

from fencepost.errors import UsageError
from fencepost.units import Duration, DurationRange, parse_duration_ms
from nemesis.crash import CrashOptions
from nemesis.latency import LatencyOptions
from nemesis.partition import PartitionOptions, ShapeName
from nemesis.partition_shapes import SHAPES
from nemesis.registry import nemeses
from nemesis.spec import parse_spec, with_option


def options(text: str):
    (chosen,) = parse_spec(text).chosen
    return chosen.options


def test_every_module_with_a_nemesis_is_found_and_tells_all_its_options() -> None:
    assert list(nemeses()) == sorted(nemeses())
    assert {"crash", "latency", "partition", "pause", "power", "shutdown"} <= set(nemeses())
    for nemesis in nemeses().values():
        for option in nemesis.options.__struct_fields__:
            assert f"{option.replace('_', '-')}=" in nemesis.help
        assert "\n" not in nemesis.help


def test_every_shape_can_be_asked_for_by_name() -> None:
    assert set(get_args(ShapeName)) == {"any", *SHAPES}
    for shape in SHAPES:
        assert options(f"partition:shape={shape}").shape == shape


def test_none_is_the_empty_spec() -> None:
    assert parse_spec(" none ").chosen == ()


def test_names_are_joined_by_plus_and_options_follow_a_colon() -> None:
    spec = parse_spec("partition:interval=4s,duration=2s,kind=hold+latency:delay=200ms")
    assert [chosen.nemesis.name for chosen in spec.chosen] == ["latency", "partition"]
    latency, partition = (chosen.options for chosen in spec.chosen)
    assert partition == PartitionOptions(Duration(4_000), Duration(2_000), kind="hold")
    assert latency == LatencyOptions(delay=DurationRange(Duration(200), Duration(200)))


def test_options_with_several_words_are_written_with_a_dash_and_durations_may_be_in_ttls() -> None:
    assert options("crash:restart-delay=1.5ttl") == CrashOptions(restart_delay=Duration(1.5, in_ttls=True))
    assert options("crash:restart-delay=0") == CrashOptions(restart_delay=Duration(0))
    assert options("pause").duration is None
    assert options("pause:duration=700ms").duration == Duration(700)
    assert options("latency:delay=5ms-1.3ttl").delay.ms(2_000) == (5, 2_600)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "known are clock"),
        ("partitoin", "did you mean partition?"),
        ("partition+", "nemesis '' is not known"),
        ("none+pause", "none stands alone"),
        ("pause+pause", "pause is given twice"),
        ("partition:", "no option"),
        ("partition:kidn=hold", "did you mean kind?"),
        ("partition:kind", "write kind=VALUE"),
        ("partition:kind=", "write kind=VALUE"),
        ("partition:kind=hold,kind=drop", "option kind is given twice"),
        ("partition:kind=hodl", "did you mean hold?"),
        ("partition:shape=circle", "known are any, one-node"),
        ("partition:interval=often", "'often' is not a duration"),
        ("partition:interval=-4s", "'-4s' is negative"),
        ("partition:interval=1ms", "not between 100 and"),
        ("partition:interval=99h", "not between 100 and"),
        ("pause:duration=5000ttl", "5000ttl is not between 0 and 1000ttl"),
        ("latency:delay=2s-1s", "write the smaller end first"),
    ],
)
def test_a_mistake_gets_one_line_that_says_what_is_known(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_spec(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_option_is_written_into_every_nemesis_that_has_it_and_does_not_say_it_itself() -> None:
    text = "crash:restart-delay=2s+partition+power:targets=one+shutdown"
    written = with_option(text, "restart-delay", "0")
    assert written == "crash:restart-delay=2s+partition+power:targets=one,restart-delay=0+shutdown:restart-delay=0"
    assert [chosen.nemesis.name for chosen in parse_spec(written).chosen] == ["crash", "partition", "power", "shutdown"]


@pytest.mark.parametrize("text", ["none", "partition", "partition+crash:restart-delay=0"])
def test_an_option_that_would_change_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--restart-delay changes nothing .* crash, hunt, power, shutdown"):
        with_option(text, "restart-delay", "1s")


def test_a_duration_of_the_command_line_has_no_ttl_unit() -> None:
    assert parse_duration_ms("1.5s") == 1_500
    with pytest.raises(UsageError, match="not a duration"):
        parse_duration_ms("2ttl")
