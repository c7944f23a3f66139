"""Same seed, same schedule, byte for byte, on any machine: pinned here, so that a change of what is drawn is noticed.

A schedule on record, or a seed in a bug report, is worth nothing once the same seed draws something else. If one of
these fails, a draw was changed: find a way that leaves old seeds alone, or say in the release that they are void.
"""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nemesis.registry import mixes, nemeses
from nemesis.schedule import draw_schedule, parse_spec
from tests.nemesis.fakes import topology

EVERYTHING = "crash+hunt+latency+partition+pause+power+shutdown"

PINNED = {
    ("clock", 1): "79bf0431c4c47ba7",
    ("clock", 7): "33a05fe52e9c8a33",
    ("clock", 2**63 - 1): "960dcdf31314957f",
    ("corrupt", 1): "f64db7d76118ba23",
    ("corrupt", 7): "c35ad6eda7f1b9c3",
    ("corrupt", 2**63 - 1): "c41d9d88bc1db88c",
    ("crash", 1): "c6b12000fbc47b0d",
    ("crash", 7): "2fb0cf4af8d5428b",
    ("crash", 2**63 - 1): "ae8b67687f487f78",
    ("errors", 1): "0ca2a70e370feb90",
    ("errors", 7): "1269346ac538eca7",
    ("errors", 2**63 - 1): "c7eec9d9b515facb",
    ("forgetful", 1): "902d31f9b68e6f21",
    ("forgetful", 7): "c9cba2b10bfeab98",
    ("forgetful", 2**63 - 1): "89275a6ab4742f41",
    ("hunt", 1): "0e80191de6d76027",
    ("hunt", 7): "1b7b78931fe00378",
    ("hunt", 2**63 - 1): "2da64565cd5c99f9",
    ("latency", 1): "0f05dd4bf54dab49",
    ("latency", 7): "051552513deb2367",
    ("latency", 2**63 - 1): "53a61abbbd2bb379",
    ("late-write", 1): "fa783081917e26f3",
    ("late-write", 7): "65a58c9511f43c3a",
    ("late-write", 2**63 - 1): "b8366b805a67a4cb",
    ("leader", 1): "0956b5d6898328ff",
    ("leader", 7): "ce8544a690df44f9",
    ("leader", 2**63 - 1): "5980439c558579f5",
    ("lost-reply", 1): "0c36c5d4db35da67",
    ("lost-reply", 7): "f2aa93e082752acf",
    ("lost-reply", 2**63 - 1): "cf86c784914f78b7",
    ("members", 1): "16c02565832fa060",
    ("members", 7): "6a4efc14468e9028",
    ("members", 2**63 - 1): "637e3500048d3055",
    ("partition", 1): "bef64f6b663e2c26",
    ("partition", 7): "487e788f98630438",
    ("partition", 2**63 - 1): "40ee498d6743d641",
    ("pause", 1): "891f3ecc0eac0d15",
    ("pause", 7): "71a12f74d3218f9b",
    ("pause", 2**63 - 1): "5ad34872aa607853",
    ("power", 1): "7c6b1398a32672df",
    ("power", 7): "e9958dd6692b1895",
    ("power", 2**63 - 1): "b7673fe3cd2e505c",
    ("shutdown", 1): "36f95853445bf110",
    ("shutdown", 7): "ff839bff446c18f0",
    ("shutdown", 2**63 - 1): "941fc023c888329e",
    ("slice", 1): "5c23e6d7864ac805",
    ("slice", 7): "87c9498184fc30b6",
    ("slice", 2**63 - 1): "87ef2293c121d683",
    ("standard", 1): "b7de728b296cedee",
    ("standard", 7): "32aa887a2d66a8dd",
    ("standard", 2**63 - 1): "cd0455eaab4c4042",
    (EVERYTHING, 1): "c5ab0dc8560ebd26",
    (EVERYTHING, 7): "506776a8be0252e1",
    (EVERYTHING, 2**63 - 1): "373e3fe0c5d3ec25",
}


def drawn(spec: str, seed: int) -> bytes:
    return draw_schedule(parse_spec(spec), seed, topology(), 60_000).to_bytes()


@pytest.mark.parametrize(("spec", "seed"), PINNED)
def test_the_bytes_are_what_they_always_were(spec: str, seed: int) -> None:
    assert sha256(drawn(spec, seed)).hexdigest()[:16] == PINNED[spec, seed]


def test_every_nemesis_is_pinned() -> None:
    assert {spec for spec, _ in PINNED} >= {*nemeses(), *mixes()}


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"},
        {"PYTHONHASHSEED": "4711", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kolkata"},
        {"PYTHONHASHSEED": "0", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONOPTIMIZE": "2", "TZ": "America/St_Johns"},
    ],
)
def test_neither_hash_seed_nor_locale_nor_time_zone_nor_optimisation_changes_them(environment: dict[str, str]) -> None:
    code = (
        "import locale, sys, time\n"
        "try:\n    locale.setlocale(locale.LC_ALL, '')\nexcept locale.Error:\n    pass\n"
        "time.tzset()\n"
        "from tests.nemesis.test_same_bytes import EVERYTHING, drawn\n"
        "sys.stdout.buffer.write(drawn(EVERYTHING, 7))"
    )
    root = Path(__file__).parents[2]
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, cwd=root)
    assert other.stdout == drawn(EVERYTHING, 7)


class OnlyWhatIsPromised(Random):
    """Of this class only seeding and `random` are promised to stay as they are in every version of Python."""

    _PROMISED = frozenset({"random", "seed", "__class__"})

    def __getattribute__(self, name: str) -> Any:
        assert name in OnlyWhatIsPromised._PROMISED or name.startswith("_"), f"{name} may change between versions"
        return super().__getattribute__(name)


@pytest.mark.parametrize("spec", [*nemeses(), *mixes(), EVERYTHING])
def test_nothing_is_drawn_with_a_method_that_may_change(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn(spec, 7)
    monkeypatch.setattr("nemesis.schedule.Random", OnlyWhatIsPromised)
    assert drawn(spec, 7) == before
