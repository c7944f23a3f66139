"""`--nodes-at`: runs on servers that are the user's own, which only faults of links and clients may touch."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.lent_servers import delete_keys, examine
from cluster.polling import becomes_true
from cluster.upstream import upstreams_in
from fencepost.errors import UsageError
from fencepost.files import matching
from harness.config import RunConfig
from harness.run.prepare import prepare_setup
from tests.harness import runs
from tests.harness.lent import HOST, PASSWORD, USER, Lent, behind_tls, certificates

pytestmark = pytest.mark.needs("sandbox")


@pytest.fixture
def lent(tmp_path: Path) -> Iterator[Lent]:
    with Lent(tmp_path, "mine") as server:
        yield server


def short_run(*arguments: str) -> list[str]:
    few = ["--clients", "3", "--duration", "2s", "--recovery", "1s", "--seed", "7", "--lock", "redlock"]
    return ["test", *few, *arguments]


@pytest.mark.needs("openssl")
def test_a_run_on_a_server_with_tls_and_acls_is_judged_and_leaves_nothing(tmp_path: Path, lent: Lent) -> None:
    authority, certificate, key = certificates(tmp_path)
    lent.owner.set("their own", "data")
    with behind_tls(lent, certificate, key) as port:
        url = f"rediss://{USER}:{PASSWORD}@localhost:{port}"
        at = ["--nodes-at", url, "--nodes-ca", str(authority), "--nodes-with-data"]
        # A cut of both ways leaves a single node to no client.
        slow = ["--nemesis", "latency:interval=500ms", "--least-reach", "0", "--least-sections", "1"]
        code, out, err = runs.fencepost(tmp_path, *short_run(*at, *slow))
    assert code == 0, out + err
    run = runs.only_run(tmp_path)
    assert PASSWORD not in out + err
    assert [path for path in run.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()] == []
    assert "keys on nodes" in out, "what was not seen"
    environment = json.loads((run / "environment.json").read_text())
    assert (environment["cluster"]["backend"], environment["cluster"]["wire"]) == ("elsewhere", True)
    assert environment["isolation"] == {"by": "namespaces"}
    import pandas as pd

    requests = pd.read_parquet(run / "requests.parquet")
    assert {"SET", "EVALSHA", "EVAL"} & set(requests[requests["node"] == "n1"]["command"].astype(str))
    marks = {name for name in lent.keys if name.startswith("fencepost:probe:")}
    assert lent.keys - marks == {"their own"}, "marks of probes expire by themselves"
    assert not runs.state_left(tmp_path)


def test_a_server_that_holds_other_data_is_refused(tmp_path: Path, lent: Lent) -> None:
    lent.owner.set("orders:1", "theirs")
    owner = f"redis://:{PASSWORD}@{HOST}:{lent.port}"
    code, out, err = runs.fencepost(tmp_path, *short_run("--nodes-at", owner))
    assert (code, err.count("\n")) == (254, 1), out + err
    assert "orders:1" in err
    assert "--nodes-with-data" in err
    assert PASSWORD not in err
    assert lent.keys == {"orders:1"}


def test_faults_of_servers_are_refused_and_a_mix_says_what_it_goes_without(tmp_path: Path, lent: Lent) -> None:
    for nemesis in ("crash", "pause", "power", "clock"):
        code, _, err = runs.fencepost(tmp_path, *short_run("--nodes-at", lent.url, "--nemesis", nemesis))
        assert (code, err.count("\n")) == (254, 1), err
        assert f"the nemesis {nemesis} may act on nodes themselves" in err
    mixed = ["--nemesis", "standard", "--duration", "3s", "--habits", "none", "--load", "plain"]
    code, out, err = runs.fencepost(tmp_path, *short_run("--nodes-at", lent.url, *mixed))
    line = next(line for line in out.splitlines() if line.startswith("without faults of nodes"))
    assert {"crash", "pause", "errors"} <= set(re.findall(r"\w+", line)), out + err
    schedule = json.loads((runs.only_run(tmp_path) / "schedule.json").read_text())
    assert schedule["faults"]
    assert [planned for planned in schedule["faults"] if planned["fault"].get("nodes")] == []


def test_a_server_that_is_restarted_ends_the_run(tmp_path: Path) -> None:
    with Lent(tmp_path, "mine") as server:
        process = runs.start(tmp_path, *short_run("--nodes-at", server.url, "--duration", "60s", "--nemesis", "none"))
        assert becomes_true(lambda: any("k1" in key for key in server.keys), within_s=60)
        server.__exit__()
        server.__enter__()
        code, out, err = runs.finish(process)
    assert code == 255, out + err
    assert "n1 was restarted" in err
    code, out, _ = runs.fencepost(tmp_path, "analyze", str(runs.only_run(tmp_path)))
    assert code == 2, out
    assert "nothing is blamed on the lock" in " ".join(out.split())


def test_nothing_is_left_of_a_killed_run(tmp_path: Path, lent: Lent) -> None:
    process = runs.start(tmp_path, *short_run("--nodes-at", lent.url, "--duration", "60s", "--nemesis", "none"))
    try:
        assert becomes_true(lambda: matching(tmp_path, "tmp/fencepost-*/*/addresses.json") != [], within_s=60)
        run = runs.only_run(tmp_path)
        assert any("fencepost-toxip" in line for line in runs.processes_of(run))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert runs.is_gone(tmp_path, run)


def test_only_keys_of_the_run_are_deleted(lent: Lent) -> None:
    theirs, others = {"orders:1", "k1", "fencepost"}, {"fencepost:other:k1"}
    for key in (*theirs, *others, "fencepost:mine:k1", "lock:{fencepost:mine:k2}:queue"):
        lent.owner.set(key, "1")
    (server,) = upstreams_in(lent.url)
    assert delete_keys(server, "fencepost:mine:") == 2
    assert lent.keys == theirs | others


def test_a_server_that_an_acl_closes_to_locks_is_refused(lent: Lent) -> None:
    (server,) = upstreams_in(lent.url)
    assert [known.product for known in examine([server], with_data=False)] == ["redis"]
    lent.owner.execute_command("ACL", "SETUSER", USER, "-eval")
    with pytest.raises(UsageError, match=r"EVAL is refused .* grant"):
        examine([server], with_data=False)
    lent.owner.execute_command("ACL", "SETUSER", USER, "-info")
    with pytest.raises(UsageError, match=r"INFO, .*, is refused .*grant \+info"):
        examine([server], with_data=False)


def test_a_replica_is_refused_with_the_name_of_its_primary(lent: Lent) -> None:
    lent.owner.replicaof("primary.example", 6379)
    (server,) = upstreams_in(f"redis://:{PASSWORD}@{HOST}:{lent.port}")
    with pytest.raises(UsageError, match=r"it is a replica; name its primary, primary\.example"):
        examine([server], with_data=False)


def test_a_script_is_not_played_on_servers_of_the_users_own() -> None:
    with pytest.raises(UsageError, match="the steps of a script act on nodes of the run's own"):
        prepare_setup(RunConfig(seed=7, nodes_at="redis://a:6379"))
