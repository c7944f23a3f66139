"""A real violation, produced and explained as a user does it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness import runs
from tests.harness.second_tries import script

NODES = ("n1", "n2", "n3", "n4", "n5")


def test_a_crash_without_persistence_is_explained_by_the_node_that_forgot(tmp_path: Path) -> None:
    place, (code, out, err) = script(tmp_path, "crash-without-persistence", "--cluster", "process")
    assert code == 0, out + err
    folder = runs.only_run(place)
    assert "n3 had granted the lock to c1, was killed" in " ".join(out.split())
    assert f"explain   fencepost explain {folder.relative_to(place)}" in out

    code, out, err = runs.fencepost(place, "explain", "latest")
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "n3 had granted the lock to c1, was killed" in said
    assert "without the key (with persistence none, a restarted node has forgotten its locks)" in said
    assert "c1's lease was still valid. So c1 had 3 of 5 nodes (n4 and n5 did not" in said
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines() if line.strip()[:2] in NODES}
    assert rows.keys() == set(NODES)
    assert rows["n1"].startswith("yes")
    assert rows["n1"].endswith("request lost (partition)")
    assert "killed" in rows["n3"]
    assert "key lost" in rows["n3"]
    assert rows["n5"].startswith("request lost (partition) yes")
    assert "had granted the lock to c1, was killed" in " ".join((folder / "report.html").read_text().split())

    _, out, err = runs.fencepost(place, "analyze", "latest", "--json", "-")
    assert "VIOLATION" in err, "what people read"
    diagram = json.loads(out)["diagram"].splitlines()
    assert diagram[0].split()[-5:] == list(NODES)
    assert [line for line in diagram if "SET k1" in line]

    _, out, err = runs.fencepost(place, "analyze", "latest", "--quiet")
    verdict, where = out.splitlines()
    assert (verdict.split()[0], where.split()[0], err) == ("VIOLATION", "folder", "")


def test_a_library_is_explained_by_its_requests(tmp_path: Path) -> None:
    place, (code, out, err) = script(
        tmp_path, "crash-without-persistence", "--lock", "redlock-ng", "--cluster", "process"
    )
    assert code == 0, out + err
    code, out, err = runs.fencepost(place, "explain")
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "n3 had granted the lock to c1, was killed" in said
    assert "So c1 had 3 of 5 nodes (n4 and n5 did not reply: partition), and c2 had 3 of 5 nodes (n1 and n2 did" in said
    assert said.count("request lost (partition)") == 4
