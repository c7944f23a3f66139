"""A campaign's folder to which cells and seeds are added."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fencepost.errors import UsageError
from harness.campaign.folder import CampaignFolder
from harness.campaign.grid import Cell, Grid, Part
from tests.campaign import made


def grid(*cells: str, seeds: int = 2, part: str = "a part", **options: str) -> Grid:
    some = tuple(Cell(cell, {"lock": "redlock", **options}, {"lock": cell}) for cell in cells)
    return Grid(name="g", title="g", question="?", parts=(Part(title=part, cells=some, seeds=seeds),))


def test_cells_seeds_and_parts_are_added_and_nothing_is_lost() -> None:
    both = grid("a", "b", seeds=2).grown(grid("c", "b", seeds=5))
    assert both is not None
    assert list(both.cells) == ["a", "b", "c"]
    assert [part.seeds for part in both.parts] == [5]
    assert both.grown(grid("a", seeds=1)) == both
    other = both.grown(grid("d", part="another part"))
    assert other is not None
    assert [part.title for part in other.parts] == ["a part", "another part"]


@pytest.mark.parametrize("other", [grid("a", ttl="2s"), msgspec.structs.replace(grid("a"), first_seed=7)])
def test_what_both_have_must_be_the_same(other: Grid) -> None:
    assert grid("a").grown(other) is None


def test_a_folder_grows_only_where_that_is_wanted_and_the_new_grid_stays(tmp_path: Path) -> None:
    def claim(of: Grid, *, may_grow: bool) -> Grid:
        asked = msgspec.structs.replace(made.campaign(of), command=f"play {' '.join(of.cells)}")
        folder = CampaignFolder.claim(tmp_path / "r", asked, may_grow=may_grow)
        folder.close()
        commands.append(folder.campaign.command)
        return folder.campaign.grid

    commands: list[str] = []

    claim(grid("a"), may_grow=True)
    with pytest.raises(UsageError, match="another campaign"):
        claim(grid("b"), may_grow=False)
    assert list(claim(grid("b"), may_grow=True).cells) == ["a", "b"]
    assert list(claim(grid("a"), may_grow=True).cells) == ["a", "b"]
    assert commands == ["play a", "play a\nplay b", "play a\nplay b"]
    with pytest.raises(UsageError, match="another campaign"):
        claim(grid("a", ttl="2s"), may_grow=True)


def test_a_folder_may_hold_what_belongs_beside_the_campaign_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "findings").mkdir()
    with pytest.raises(UsageError, match="no campaign's folder"):
        CampaignFolder.claim(tmp_path, made.campaign())
    CampaignFolder.claim(tmp_path, made.campaign(), beside=("findings",)).close()


def test_a_moment_is_kept_for_each_kind_of_finding_and_overlaps_are_those_of_the_comparison(tmp_path: Path) -> None:
    folder = CampaignFolder.claim(tmp_path / "r", made.campaign())
    cell = next(iter(folder.campaign.grid.cells))
    folder.keep_timeline(cell, {"text": "an overlap"})
    folder.keep_timeline(cell, {"text": "a late yes", "finding": "late-grant"})
    assert {kind: moment["text"] for (_, kind), moment in folder.all_timelines().items()} == {
        "": "an overlap",
        "late-grant": "a late yes",
    }
    assert folder.all_timelines()[cell, ""]["text"] == "an overlap"
    folder.close()
