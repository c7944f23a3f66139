"""The table of claims, as data.

A claim is added here when its experiments exist; nothing else needs an edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.claims.claim import Claim, Document, Role, Trial

DOCUMENTS: Final[Mapping[str, Document]] = {
    "proposal": Document(
        "Sanfilippo 2014",
        "S. Sanfilippo, “A proposal for more reliable locks using Redis” (2014)",
        "http://antirez.com/news/77",
    ),
    "overview": Document(
        "Collins", "G. Collins, “Distributed locks with Redis: SETNX, Redlock and their controversies”"
    ),
    "reply": Document("Sanfilippo 2016", "S. Sanfilippo, “Is Redlock safe?” (2016)", "http://antirez.com/news/101"),
    "questions": Document("Questions 2023", "“Redis distributed locks”, questions and answers on the debate (2023)"),
    "analysis": Document(
        "Kleppmann 2016",
        "M. Kleppmann, “How to do distributed locking” (2016), and articles that quote it",
        "https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html",
    ),
}


def _by(*supports: str, contradicts: Sequence[str] = (), controls: Sequence[str]) -> tuple[Trial, ...]:
    """The trials of a claim, by what they mean to it."""
    roles: dict[Role, Sequence[str]] = {"supports": supports, "contradicts": contradicts, "control": controls}
    return tuple(Trial(script, role) for role, scripts in roles.items() for script in scripts)


CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        name="baseline",
        sources=("proposal", "reply"),
        gist="While no node crashes, and holders finish within their validity, there are never two holders, whatever "
        "the network does.",
        says="always",
        trials=_by("partitions-and-delays", controls=["partitions-and-delays-with-a-quorum-of-two"]),
        prediction="confirmed",
    ),
    Claim(
        name="naive-del",
        sources=("proposal", "overview", "questions"),
        gist="Releasing with a plain DEL can delete the lock of another client.",
        says="can",
        trials=_by("release-by-plain-del", controls=["release-after-comparing"]),
        prediction="confirmed",
    ),
    Claim(
        name="get-then-del",
        sources=("overview", "questions"),
        gist="A client that asks for the value with GET and then sends DEL, instead of a script that does both, can "
        "delete the lock of another client.",
        says="can",
        trials=_by("release-by-get-and-del", controls=["release-by-script-held-up"]),
        prediction="confirmed",
        remark="The release begins in time; between its two commands the lease ends.",
    ),
    Claim(
        name="fixed-value",
        sources=("questions",),
        gist="A fixed value instead of a random one lets a release delete the lock of another client.",
        says="can",
        trials=_by("release-of-a-fixed-value", controls=["release-after-comparing"]),
        prediction="confirmed",
    ),
    Claim(
        name="time-as-value",
        sources=("proposal", "analysis"),
        gist="For most environments, the time in microseconds with the client's name is unique enough as a value.",
        says="always",
        trials=_by("release-of-time-and-name", "two-tasks-one-after-the-other", controls=["release-of-a-fixed-value"]),
        prediction="confirmed",
        remark="It is enough while a client never sets a value in the same microsecond twice; the next row says when "
        "it does.",
    ),
    Claim(
        name="time-as-value-repeated",
        sources=("proposal", "analysis"),
        gist="The time in microseconds with the client's name is not as safe as a random value: it can repeat.",
        says="can",
        trials=_by("two-tasks-at-the-same-time", controls=["two-tasks-one-after-the-other"]),
        prediction="confirmed",
        remark="It repeats if the client's clock steps back, or if two tasks with one name ask in the same "
        "microsecond. It does harm if both are at work at the same time. In the script the clock stands still, so that "
        "the tasks meet for certain; a step back meets the same microsecond only by chance.",
    ),
    Claim(
        name="setnx-no-expiry",
        sources=("overview", "questions", "analysis"),
        gist="SETNX without an expiry deadlocks when the holder dies.",
        says="can",
        trials=_by("death-without-an-expiry", controls=["death-with-an-expiry"]),
        prediction="confirmed",
        remark="“Never” is one and a half TTLs here; the key has no expiry, so waiting longer changes nothing.",
    ),
    Claim(
        name="setnx-then-expire",
        sources=("overview", "questions"),
        gist="SETNX and EXPIRE as two commands deadlock when the client dies between the two.",
        says="can",
        trials=_by("death-between-setnx-and-expire", controls=["death-after-set-nx-px"]),
        prediction="confirmed",
    ),
    Claim(
        name="failover",
        sources=("proposal", "questions", "analysis"),
        gist="A primary with an asynchronous replica loses the lock at a failover.",
        says="can",
        trials=_by(
            "failover-by-sentinel", "failover", controls=["failover-by-sentinel-of-a-copy", "failover-of-a-copy"]
        ),
        prediction="confirmed",
        remark="What promotes the replica: Redis Sentinel (three of them, of which two must agree), or a script.",
    ),
    Claim(
        name="failover-wait",
        sources=("analysis",),
        gist="WAIT makes that less likely, but does not prevent it.",
        says="can",
        trials=_by(
            "failover-by-sentinel-to-another-replica",
            "failover-to-the-other-replica",
            controls=["failover-by-sentinel-with-wait", "failover-with-wait"],
        ),
        prediction="confirmed",
        remark="The controls show what WAIT gains: where no replica acknowledges the key, the lock is refused. But a "
        "replica that did not acknowledge it may be promoted; with Sentinel, where the one that did is down, too.",
    ),
    Claim(
        name="crash-no-persistence",
        sources=("proposal", "questions", "analysis"),
        gist="A node that crashes and restarts empty lets a second client reach a majority while the first one still "
        "holds the lock.",
        says="can",
        trials=_by("crash-without-persistence", controls=["crash-with-aof-everysec"]),
        prediction="confirmed",
    ),
    Claim(
        name="single-node-restart",
        sources=("overview",),
        gist="If the lock is on a single instance that fails and loses its data, all locks that are held are lost.",
        says="can",
        trials=_by("crash-of-the-only-node-without-persistence", controls=["crash-of-the-only-node-with-aof"]),
        prediction="confirmed",
    ),
    Claim(
        name="clean-shutdown-aof",
        sources=("proposal",),
        gist="With an append-only file, a clean shutdown and restart keeps the lock.",
        says="always",
        trials=_by("clean-shutdown-with-aof", controls=["crash-without-persistence"]),
        prediction="confirmed",
    ),
    Claim(
        name="ttl-while-off",
        sources=("proposal",),
        gist="With an append-only file, the TTL of a lock runs on while the server is off.",
        says="always",
        trials=_by("off-for-longer-than-the-ttl", controls=["off-for-less-than-the-ttl"]),
        prediction="confirmed",
        remark="The key is gone once the server is back, if its time is over, and the next client gets in at once.",
    ),
    Claim(
        name="everysec-process-crash",
        sources=("proposal", "analysis"),
        gist="An append-only file that is fsynced once a second survives a crash of the server's process.",
        says="always",
        trials=_by("crash-with-aof-everysec", controls=["crash-without-persistence"]),
        prediction="confirmed",
        remark="The documents speak of crashes and of power outages alike. The kernel outlives the process and keeps "
        "what was written, fsynced or not, so only a power outage makes a difference. A slow disk is the exception: "
        "while a sync is under way, the server keeps new writes in its own memory for up to two seconds.",
    ),
    Claim(
        name="everysec-power-loss",
        sources=("proposal", "analysis"),
        gist="With an fsync once a second, a power outage can lose a key that was just granted.",
        says="can",
        trials=_by(
            "power-cut-with-aof-everysec", "power-cuts-with-aof-everysec", controls=["power-cut-with-aof-always"]
        ),
        prediction="confirmed",
    ),
    Claim(
        name="always-power-loss",
        sources=("proposal", "reply"),
        gist="With fsync=always the lock is safe in the face of any kind of restart.",
        says="always",
        trials=_by(
            "power-cut-with-aof-always",
            "power-cuts-with-aof-always",
            controls=["power-cut-with-aof-everysec", "power-cuts-with-aof-everysec"],
        ),
        prediction="confirmed",
    ),
    Claim(
        name="delayed-restart",
        sources=("proposal", "reply", "questions"),
        gist="Without any persistence, it is safe to keep a crashed node down for longer than the longest TTL.",
        says="always",
        trials=_by("restart-after-the-ttl", controls=["restart-within-the-ttl"]),
        prediction="confirmed",
        edge="restart-delay",
    ),
    Claim(
        name="delayed-restart-cost",
        sources=("analysis",),
        gist="After the crash of a majority, a delayed restart makes the lock unavailable for a TTL.",
        says="mostly",
        trials=_by("majority-back-after-the-ttl", controls=["majority-back-at-once"]),
        prediction="confirmed",
    ),
    Claim(
        name="all-five-held",
        sources=("proposal",),
        gist="Because clients ask all five nodes, a crash and an empty restart of one of them is unlikely to let a "
        "second client in.",
        says="mostly",
        trials=_by(
            "crashes-behind-whole-links",
            "crash-with-five-keys-held",
            "crash-with-four-keys-held",
            controls=["crash-without-persistence", "crashes-of-nodes-that-decide"],
        ),
        prediction="confirmed",
        remark="With four or five keys held, the loss of one leaves a majority. With three, which is what a partition "
        "leaves, a single crash is enough.",
    ),
    Claim(
        name="fsync-cost",
        sources=("proposal", "reply"),
        gist="fsync=always ruins the performance: with four clients that rarely meet, it costs more than half of the "
        "locks that a delayed restart, which needs no disk, can grant.",
        says="mostly",
        trials=_by(
            "locks-fsynced-always",
            controls=["locks-kept-in-memory", "locks-behind-slow-links", "locks-fsynced-once-a-second"],
        ),
        prediction="confirmed",
        remark="There are a thousand keys. It depends on the disk and on the load: the report on fsync has others, and "
        "with many clients it costs less than half there.",
    ),
    Claim(
        name="pause-in-section",
        sources=("reply", "questions", "analysis"),
        gist="A holder that is stopped beyond its validity works beside the next holder, whatever the lock.",
        says="always",
        trials=_by("pause-in-section", "pause-in-section-on-one-node", controls=["section-within-the-lease"]),
        prediction="confirmed",
        edge="hold",
    ),
    Claim(
        name="pause-in-acquire",
        sources=("reply",),
        gist="A pause between the request and the reply does no harm, because the client looks at the time.",
        says="always",
        trials=_by("pause-in-acquire", controls=["pause-in-acquire-unchecked"]),
        prediction="confirmed",
    ),
    Claim(
        name="slow-replies",
        sources=("reply",),
        gist="The same holds for replies that the network delays.",
        says="always",
        trials=_by("slow-replies", controls=["pause-in-acquire-unchecked"]),
        prediction="confirmed",
        remark="A client that gives every node a small time limit does not even wait for them.",
    ),
    Claim(
        name="clock-step",
        sources=("reply", "analysis"),
        gist="If the wall clock of one node jumps ahead, two clients can hold the lock at the same time.",
        says="can",
        trials=_by("clock-step", controls=["clock-step-elsewhere"]),
        prediction="confirmed",
    ),
    Claim(
        name="clock-offset",
        sources=("proposal", "reply", "analysis"),
        gist="Clocks need not agree: a node's clock that is wrong by a constant offset does no harm.",
        says="always",
        trials=_by("clocks-that-are-wrong", "clocks-that-are-wrong-and-a-death", controls=["clock-step"]),
        prediction="confirmed",
        remark="In the control the same clock is wrong by the same time, but steps while the node holds the key. "
        "Collins says that Redlock depends on synchronized clocks.",
    ),
    Claim(
        name="client-clock-step",
        sources=("reply",),
        gist="A client that measures with the wall clock over-estimates its validity when that clock steps back.",
        says="can",
        trials=_by("client-clock-step-by-the-wall", controls=["client-clock-step", "client-clock-right-by-the-wall"]),
        prediction="confirmed",
        remark="With the monotonic clock it is refused, and so it is without the step.",
    ),
    Claim(
        name="clock-drift",
        sources=("reply",),
        gist="With the allowance of 1 % and 2 ms that implementations use, it is enough that clocks count time with an "
        "error of at most 10 %.",
        says="always",
        trials=_by(
            contradicts=["drift-of-ten-percent"],
            controls=["drift-of-ten-percent-allowed-for", "drift-of-half-a-percent"],
        ),
        prediction="refuted",
        edge="drift",
        remark="What matters is not how large the drift between nodes and clients is, but that the allowance is "
        "larger: with one of 10 % the same drift does no harm. It then costs a tenth of every lease.",
    ),
    Claim(
        name="late-write",
        sources=("analysis",),
        gist="Checking the expiry just before the write does not help: the write may arrive late.",
        says="can",
        trials=_by(
            "late-write",
            "late-write-of-a-dead-client",
            "late-writes",
            controls=["late-write-with-a-token", "late-writes-with-tokens"],
        ),
        prediction="confirmed",
        remark="The write may even outlive its client.",
    ),
    Claim(
        name="fencing",
        sources=("overview", "questions", "analysis"),
        gist="A fencing token that grows, checked by the resource, makes the write of a client that outlived its lease "
        "harmless.",
        says="always",
        trials=_by("fencing-of-reads-and-writes", "late-write-with-a-token", controls=["no-fencing", "late-write"]),
        prediction="confirmed",
        remark="The token must come with reads as well as writes; the next row says why.",
    ),
    Claim(
        name="fencing-writes-only",
        sources=("overview", "questions", "analysis"),
        gist="It is enough if writes carry the fencing token, as the documents draw it.",
        says="always",
        trials=_by(
            "fencing-of-writes-after-a-write",
            contradicts=["fencing-of-writes-alone"],
            controls=["fencing-of-reads-and-writes"],
        ),
        prediction="refuted",
        remark="The documents draw the late write after the next holder's write, and there the token works. A late "
        "write that lands between the next holder's read and its write carries the largest token that the resource has "
        "seen. It is accepted and then overwritten. The token cannot help there, because the resource does not know of "
        "a holder that has only read. It helps if reads show the token, too, or if a write depends on what was read.",
    ),
    Claim(
        name="token-after-lock",
        sources=("reply",),
        gist="A token from a counter is as good if the client draws it at any time after it was granted the lock.",
        says="always",
        trials=_by(
            "token-after-lock-before-read", contradicts=["token-after-lock-and-read"], controls=["token-with-the-lock"]
        ),
        prediction=None,
        remark="It depends on the reads. A read between the grant and the token is not covered: after a pause there, "
        "the late client draws the larger token, and its write is accepted. A read that shows the token is covered, "
        "because the resource then knows who has read last. Even so, a late client that draws its token last pushes "
        "the rightful holder out, whose write is refused. A token that is granted with the lock has neither weakness: "
        "its order is the order of the grants.",
    ),
    Claim(
        name="token-by-majority",
        sources=("analysis",),
        gist="Counters on a majority of the nodes are no substitute: after a crash their tokens go back.",
        says="can",
        trials=_by("tokens-by-majority", "tokens-by-majority-without-a-crash", controls=["tokens-by-majority-on-disk"]),
        prediction="confirmed",
        remark="They go back even without a crash: the counts of the nodes differ, because refused attempts raise some "
        "of them.",
    ),
    Claim(
        name="unique-token-cas",
        sources=("reply",),
        gist="A unique token with check-and-set protects the data as well as a growing one.",
        says="always",
        trials=_by(
            "fencing-by-the-unique-value",
            "late-writes-with-unique-values",
            controls=["no-fencing-of-a-register", "late-writes-to-a-register"],
        ),
        prediction=None,
        remark="The resource must offer a check-and-set, and the client must leave its token there before it reads. "
        "Then a write is accepted only if no other client has begun to read since, so it overwrites nothing that its "
        "client has not seen, whatever the order of the tokens. The next row says what the order is good for.",
    ),
    Claim(
        name="unique-token-order",
        sources=("reply",),
        gist="Unique tokens keep a late client out as well as tokens that grow do, so order is not needed.",
        says="always",
        trials=_by(contradicts=["unique-value-of-a-late-client"], controls=["token-of-a-late-client"]),
        prediction=None,
        remark="No update is lost. But a client whose lease is over can push the rightful holder out: it leaves its "
        "token later, and the holder's write is refused. Tokens that grow refuse the late client instead.",
    ),
    Claim(
        name="extension",
        sources=("proposal", "questions"),
        gist="A lock that is extended on a majority within its validity stays exclusive.",
        says="always",
        trials=_by(
            "extended-in-time",
            "extensions-behind-partitions",
            controls=["never-extended", "extensions-by-any-node-behind-partitions"],
        ),
        prediction="confirmed",
    ),
    Claim(
        name="extension-forever",
        sources=("analysis",),
        gist="A holder that may extend its lock without a limit can keep all other clients out.",
        says="can",
        trials=_by("extended-in-time", controls=["never-extended"]),
        prediction="confirmed",
        remark="The holder was watched for three TTLs.",
    ),
    Claim(
        name="crashed-client",
        sources=("proposal", "overview"),
        gist="The lock of a dead client comes free when its TTL is over.",
        says="always",
        trials=_by("death-of-a-redlock-holder", "death-with-an-expiry", controls=["death-without-an-expiry"]),
        prediction="confirmed",
    ),
    Claim(
        name="minority-down",
        sources=("proposal", "overview"),
        gist="The lock can be acquired while a majority of the nodes is up.",
        says="always",
        trials=_by("two-of-five-down", "two-of-five-hung", controls=["three-of-five-down"]),
        prediction="confirmed",
    ),
    Claim(
        name="node-time-limit",
        sources=("proposal", "overview", "questions"),
        gist="A time limit for each node that is small compared with the TTL keeps a node that is down from delaying "
        "an acquire.",
        says="always",
        trials=_by("short-wait-for-a-silent-node", controls=["long-wait-for-a-silent-node"]),
        prediction="confirmed",
        remark="Two nodes of five are silent: one hangs, one is out of reach. With 50 ms for each of them the client "
        "waits for less than a second, with two seconds for four. A node whose server has only ended refuses the "
        "connection at once, so it costs nothing.",
    ),
    Claim(
        name="partition-penalty",
        sources=("proposal", "analysis"),
        gist="Clients that are cut off before they release make the lock unavailable for its TTL.",
        says="can",
        trials=_by("cut-off-before-the-release", controls=["cut-off-after-the-release"]),
        prediction="confirmed",
    ),
    Claim(
        name="repeated-partition",
        sources=("proposal", "analysis"),
        gist="Two clients that split the votes and are cut off before they release, again and again, keep the lock "
        "unavailable for as long as that goes on.",
        says="can",
        trials=_by("partitions-before-the-release", controls=["partitions-after-the-release"]),
        prediction="confirmed",
        remark="It was repeated three times, each time for a TTL. A third client that reached all nodes was refused, "
        "too; once the partitions had ended, the next attempt was granted.",
    ),
    Claim(
        name="split-vote",
        sources=("proposal", "analysis"),
        gist="A random delay before a retry keeps clients from splitting the votes again and again; a fixed one does "
        "not.",
        says="mostly",
        trials=_by("retries-after-a-fixed-delay", controls=["retries-at-random", "refused-keys-kept"]),
        prediction="confirmed",
        remark="Ten clients want one key and give it back at once.",
    ),
    Claim(
        name="retry-delay",
        sources=("proposal",),
        gist="The delay before a retry must be larger than the time that an acquire on a majority takes, or the votes "
        "are split again.",
        says="can",
        trials=_by("retries-sooner-than-an-acquire", controls=["retries-later-than-an-acquire"]),
        prediction="confirmed",
        remark="An attempt takes 200 ms, because each client is far from two of the four nodes that are up. With a "
        "random delay of up to 5 ms, neither client got the lock in five seconds; with one of up to two seconds, one "
        "did.",
    ),
    Claim(
        name="split-vote-parallel",
        sources=("proposal", "analysis"),
        gist="Asking all nodes at the same time narrows the window for split votes, so fewer retries are needed.",
        says="mostly",
        trials=_by("nodes-asked-in-turn", controls=["retries-at-random", "refused-keys-kept"]),
        prediction="confirmed",
        remark="Asked in turn, the first node decides: the client that gets it is alone at the others.",
    ),
    Claim(
        name="fairness",
        sources=("analysis",),
        gist="The lock is not fair: a client may wait while others get it again and again.",
        says="can",
        trials=_by("contention-for-one-key", controls=["contention-in-a-queue"]),
        prediction="confirmed",
    ),
    Claim(
        name="release-partial",
        sources=("proposal",),
        gist="A client that was refused must release the keys that it got, or the next one has to wait for their TTL.",
        says="can",
        trials=_by("partial-locks-kept", controls=["partial-locks-released"]),
        prediction="confirmed",
    ),
    Claim(
        name="release-everywhere",
        sources=("proposal", "questions"),
        gist="A release must go to all nodes, also to those that the client believes it did not lock, or the next "
        "client has to wait for the TTL of the keys there.",
        says="can",
        trials=_by("release-where-a-yes-came-from", controls=["release-on-all-nodes"]),
        prediction="confirmed",
        remark="Two replies come too late, so the client does not know that these nodes have set its key. Collins has "
        "a refused client release only where it acquired the lock, which leaves such keys.",
    ),
    Claim(
        name="semaphore",
        sources=("analysis",),
        gist="A counting semaphore in which a majority of the nodes is enough admits more holders than permits.",
        says="can",
        trials=_by("semaphore-by-majority", controls=["semaphore-of-locks"]),
        prediction="confirmed",
    ),
)
