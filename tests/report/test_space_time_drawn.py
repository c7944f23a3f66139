"""Space-time diagrams as text and as SVG, of odd records too."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import combinations

import pytest

from fencepost import ascii_forms
from harness.explain.space_time import Picture
from harness.report.space_time_axis import Axis
from harness.report.space_time_svg import svg_file, svg_picture
from harness.report.space_time_text import COLUMNS, LINES, text_picture
from tests.explain.pictures import Links, picture
from tests.explain.test_space_time import taken_away
from tests.golden import Golden
from tests.judge.histories import History

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>&\"'\x1b[31m\u2028"


def with_requests(*more: tuple[object, ...], **columns: object) -> Picture:
    """The picture of `taken_away` with further requests of c2 to n1."""
    history, links = taken_away()
    for words, reply, *at in more:
        links.asked("c2", "n1", words, reply, *at, **columns)  # type: ignore[arg-type]
    return picture(history, links)


def hostile() -> Picture:
    """Everything that a run's record may be asked to name."""
    history, links = History(clients=2).watch("n1"), Links()
    for client, at in (("c1", 10), ("c2", 30)):
        history.section(client, at, 60, asked=at - 2, key=HOSTILE).sets(client, HOSTILE + client)
        history.seen("n1", "set", at, HOSTILE + client, since=at - 2, key=HOSTILE, ttl=100)
        links.asked(client, "n1", "SET", {"error": HOSTILE}, at - 2, at - 1.9, at - 1.8, at - 1.7, keys=(HOSTILE,))
        links.rows[-1]["arguments"] = [HOSTILE, HOSTILE + client, *["x" * 10_000] * 3]
    return picture(history, links)


def one_ns() -> Picture:
    """All of it in a nanosecond."""
    history, links = History().watch("n1"), Links()
    tiny = 1e-6
    history.section("c1", 10, 10 + tiny, asked=10).section("c2", 10, 10 + tiny, asked=10)
    for client in ("c1", "c2"):
        links.asked(client, "n1", "SET k1 v", "OK", 10, 10, 10, 10)
    return picture(history, links)


def crowd() -> Picture:
    """Nine nodes, and each of five clients does something every millisecond."""
    history, links = History(clients=5, nodes=9).watch(*(f"n{n}" for n in range(1, 10))), Links()
    history.section("c1", 10, 900, asked=1).section("c2", 800, 900, asked=700)
    for at in range(1, 900):
        for client in range(1, 6):
            node = f"n{(at + client) % 9 + 1}"
            links.asked(f"c{client}", node, f"SET k1 v{at}.{client}", "OK", at, at + 0.1, at + 0.2, at + 0.3)
            history.seen(node, "set", at + 0.3, f"v{at}.{client}", since=at, ttl=100)
    return picture(history, links)


PICTURES = {
    "taken away": lambda: picture(*taken_away()),
    "lost requests": lambda: with_requests(("DEL k1", ..., 12), ("GET k1", ..., 13)),
    "no replies": lambda: with_requests(("DEL k1", ..., 12, 12.1), ("GET k1", "one", 13, 13.1, 13.2)),
    "late": lambda: with_requests(("DEL k1", 0, 9, 25, 25.1, 200)),
    "a reply to nothing": lambda: with_requests(("DEL k1", 0, None, None, 20, 20.1)),
    "no arrows": lambda: replace(picture(*taken_away()), arrows=()),
    "thousands": lambda: with_requests(*(("SET k1 two", None, *[11 + n / 1_000] * 4) for n in range(4_000))),
    "hostile": hostile,
    "one ns": one_ns,
    "a crowd": crowd,
}


@cache
def named(name: str) -> Picture:
    return PICTURES[name]()


@pytest.fixture(params=PICTURES)
def drawn(request: pytest.FixtureRequest) -> Picture:
    return named(request.param)


def elements(text: str, name: str) -> list[ET.Element]:
    return list(ET.fromstring(text).iter(f"{SVG}{name}"))


def classes(text: str, name: str) -> list[str]:
    return [element.get("class", "") for element in elements(text, name)]


def test_the_text_shows_who_did_what_where_from_top_to_bottom(golden: Golden) -> None:
    golden("\n".join(text_picture(picture(*taken_away()), 70)))


def test_a_lost_request_ends_in_a_cross_and_a_lost_reply_behind_it() -> None:
    lines = text_picture(with_requests(("DEL k1", ..., 12), ("GET k1", "one", 13, 13.1, 13.2)))
    (lost,) = (line for line in lines if "DEL k1 ─" in line)
    assert lost.rstrip().index("×") < lines[0].index("n1"), "it does not reach the lane of the node"
    (unheard,) = (line for line in lines if "GET k1" in line)
    assert "▶█one×" in unheard
    assert "× lost" in lines[-1]


def test_a_request_that_was_long_on_its_way_has_a_row_for_its_begin_and_one_for_its_end() -> None:
    lines = text_picture(with_requests(("DEL k1", 0, 9, 25, 25.1, 25.2)))
    assert any("+9.00" in line and "╌ DEL k1 to n1 ╌" in line and "▶" not in line for line in lines)
    assert any("+25.00" in line and "DEL k1 after 16 ms" in line and "▶" in line for line in lines)


def test_the_text_is_never_longer_or_wider_than_it_may_be(drawn: Picture) -> None:
    for columns, most in ((COLUMNS, LINES), (60, 20), (60, 5)):
        lines = text_picture(drawn, columns, most)
        assert 0 < len(lines) <= most
        assert max(map(len, lines)) <= columns
        assert all(line.isprintable() for line in lines)


def test_what_the_text_has_no_room_for_is_counted(golden: Golden) -> None:
    made = named("thousands")
    (line,) = (line for line in text_picture(made) if "not drawn" in line)
    golden(line)


def test_each_character_of_the_text_has_an_ascii_form_of_one_character() -> None:
    ascii_forms.register()
    lines = [line for name in ("taken away", "no replies", "late") for line in text_picture(named(name))]
    for line in lines:
        plain = line.encode("ascii", ascii_forms.ERRORS).decode()
        assert len(plain) == len(line), plain
        assert "\\" not in plain


def test_the_svg_is_whole_and_needs_nothing_else(drawn: Picture) -> None:
    text = svg_file(drawn)
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "style",
        "rect",
        "path",
        "g",
        "title",
        "text",
    }
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    assert "prefers-color-scheme: dark" in text
    assert "style" not in str(svg_picture(drawn)), "the page has its own"
    assert len(text) < 60_000


def test_nothing_is_drawn_outside_of_the_svg(drawn: Picture) -> None:
    root = ET.fromstring(svg_file(drawn))
    wide, high = (float(root.attrib[name]) for name in ("width", "height"))
    for element in root.iter():
        if "x" in element.attrib and element.get("class") != "behind":
            assert 0 <= float(element.attrib["x"]) <= wide
            assert 0 <= float(element.attrib["y"]) <= high
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", element.get("d", "")):
            assert 0 <= float(x) <= wide
            assert 0 <= float(y) <= high


def test_no_label_hides_another_one(drawn: Picture) -> None:
    boxes = [
        tuple(float(element.attrib[name]) for name in ("x", "y", "width", "height"))
        for element in elements(svg_file(drawn), "rect")
        if element.get("class") == "behind"
    ]
    assert boxes
    for (x, y, w, h), (x2, y2, w2, h2) in combinations(boxes, 2):
        margin = 2
        assert x + w - margin <= x2 + margin or x2 + w2 - margin <= x + margin or y + h <= y2 or y2 + h2 <= y


def test_a_pointer_on_an_arrow_shows_the_whole_request() -> None:
    titles = [element.text for element in elements(svg_file(picture(*taken_away())), "title")]
    assert (
        "c3 to n1: DEL k1 (release)\n"
        "sent +20.00 ms, passed on to n1 +20.01 ms, answered +20.02 ms, reply passed on to c3 +20.03 ms\n"
        "reply 1\ndeletes c1's key\nDEL k1"
    ) in titles
    assert "n1 holds c1's k1 from +8.01 ms to +20.01 ms\nvalue one\ndeleted by c3: DEL k1" in titles
    assert "c1, section 1\ninside from +10.00 ms to +60.00 ms\nlease valid until +110.00 ms" in titles


def test_the_svg_marks_the_requests_that_took_a_key_away_and_the_time_that_both_were_inside() -> None:
    text = svg_file(picture(*taken_away()))
    assert sum("culprit" in kind for kind in classes(text, "g")) == 3
    assert classes(text, "path").count("cut") == 3
    assert classes(text, "rect").count("both") == 1
    says = [element.text for element in elements(text, "text")]
    assert says.count("deletes c1's key") == 1, "once for all that was sent together"
    assert "both inside for 20 ms" in says


def test_crosses_stand_for_what_was_lost() -> None:
    assert "cross" not in classes(svg_file(picture(*taken_away())), "path")
    assert classes(svg_file(PICTURES["lost requests"]()), "path").count("cross") == 2
    assert classes(svg_file(PICTURES["no replies"]()), "path").count("cross") == 1, (
        "a request without a reply is no loss"
    )


def test_markup_in_names_is_text() -> None:
    for text in (svg_file(hostile()), str(svg_picture(hostile()))):
        assert "<img" not in text
        assert "</script" not in text
        assert "\x1b" not in text
        assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", svg_file(hostile()))


def ys(times: Iterable[int]) -> list[float]:
    axis = Axis(times, 0)
    return [axis.y(at_ns) for at_ns in sorted(times)]


def test_the_axis_keeps_the_order_of_moments_however_near_or_far_they_are() -> None:
    times = [0, 1, 2, 1_000, 10**6, 10**6 + 1, 10**9, 10**12, 2**62]
    found = ys(times)
    assert found == sorted(set(found))
    assert found[-1] < 500, "an eternity has room on a page"


def test_the_axis_marks_a_long_quiet_time_and_no_other() -> None:
    assert [found.length_ns for found in Axis([0, 19_000_000, 60_000_000], 0).breaks] == [41_000_000]


def test_other_times_lie_between_the_moments() -> None:
    axis = Axis([0, 1_000, 2_000], 10, room={1_000: 40})
    assert axis.y(-5) == axis.y(0) == 10
    assert axis.y(500) == pytest.approx((axis.y(0) + axis.y(1_000)) / 2)
    assert axis.y(1_000) - axis.y(0) == 40
    assert axis.y(9_000) == axis.bottom
