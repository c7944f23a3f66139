"""The colours of the pages, light and dark: text and marks can be told from what is behind them (WCAG 2.2, AA)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parent.parent.parent / "harness/report/page.css").read_text("utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root {(.*?)}", CSS, re.S)
)
TEXTS = ("ink", "soft", "good", "bad", "open", "section", "client", "s0", "s1", "s2", "s3")
MARKS = ("lock", "client", "undecided", "beyond", "wait", "fault", "unplanned", "cut", "slow", "down", "s5")


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("names", "least"), [(TEXTS, 4.5), (MARKS, 3.0)], ids=["texts", "marks"])
def test_colours_stand_out_from_the_page_and_from_panels(
    colours: dict[str, str], names: tuple[str, ...], least: float
) -> None:
    behind = ("bg", "panel")
    weak = [(name, on) for name in names for on in behind if contrast(colours[name], colours[on]) < least]
    assert weak == []


def test_black_on_white_is_twenty_one_to_one() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
