"""The cause that an explanation names, as data, so that no code has to parse the sentences."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Cause = Literal[
    "too few nodes",
    "granted on errors",
    "granted unasked",
    "deleted",
    "deleted by itself",
    "late release",
    "another task's release",
    "shared value",
    "overwritten",
    "looked first",
    "watch ended",
    "read as own",
    "took nothing",
    "count alone",
    "different keys",
    "prolonged",
    "expired",
    "expired waiting",
    "short TTL",
    "nested release",
    "forgotten",
    "not set",
    "no expiry",
    "overlong",
    "not prolonged",
    "not renewed",
    "refused renewal",
    "renewed elsewhere",
    "absent node",
    "majority refused",
    "stuck keys",
    "given to ended call",
    "left mutex",
    "nothing set",
    "nothing asked",
    "rejected",
    "split votes",
    "wrong clock",
    "set again",
    "set by an extension",
    "renewed unheld",
    "stayed",
    "another key",
    "old value",
    "unsent release",
    "denied",
    "not undone",
    "never given back",
    "place kept",
    "below zero",
    "given back twice",
    "put in by an acquire",
    "ranked by clients",
    "deadline",
    "not woken",
    "not notified",
    "blocked too long",
    "not let in",
    "subscription lost",
    "connections taken",
    "dead entry",
    "cancelled entry",
    "entry of a refused call",
    "entry removed",
    "entry taken",
    "entry lost",
    "stopped asking",
    "ended session",
    "failover",
    "unknown",
]
IN_WORDS: Final[dict[Cause, str]] = {
    "too few nodes": "too few nodes had granted it",
    "granted on errors": "an acquire was granted although the nodes had answered errors",
    "granted unasked": "an acquire was granted without a request to the nodes",
    "deleted": "the key was deleted by a client that did not own it",
    "deleted by itself": "the lock deleted the key of its own holder",
    "late release": "a release was sent only when it had returned, and deleted the next holder's key",
    "another task's release": "a release deleted the key of another task of its process, which has the same value",
    "shared value": "several owners used the same value",
    "overwritten": "the key was overwritten",
    "looked first": "the lock looked whether it was free, and took it with a later request",
    "watch ended": "another request on the same connection had ended the WATCH under which an acquire took the key",
    "read as own": "the lock took the key of another holder for its own",
    "took nothing": "an acquire was granted by a request that took nothing on the nodes",
    "count alone": "a client was let in by a count alone, without the lock's key",
    "different keys": "both clients were let in, by different keys of the lock",
    "prolonged": "the key of another client was prolonged",
    "expired": "the keys had expired",
    "expired waiting": "what a client had set while it waited had expired when it was let in",
    "short TTL": "the key was given a shorter TTL than the lease",
    "nested release": "a nested acquire and its release removed the key",
    "forgotten": "nodes forgot the key when they went down",
    "not set": "too few nodes ever had the key",
    "no expiry": "the key had no expiry",
    "overlong": "the lock gave the key a longer TTL than its client had asked for",
    "not prolonged": "the keys were not prolonged in time",
    "not renewed": "the lock sent no renewal",
    "refused renewal": "a renewal was refused, and the lock did not tell its client",
    "renewed elsewhere": "a renewal was sent to a node that did not hold the key",
    "absent node": "a single node was down, hung, answering errors or out of reach",
    "majority refused": "a majority of the nodes granted it, and the lock refused it",
    "stuck keys": "orphaned keys were stuck",
    "given to ended call": "the lock was given to a call that had already ended without it",
    "left mutex": "a call left a mutex of the lock, which never expires",
    "nothing set": "the lock set nothing on nodes that were free",
    "nothing asked": "the lock asked nothing of nodes that were free",
    "rejected": "the nodes answered the lock's requests with an error",
    "split votes": "the votes were split",
    "wrong clock": "the clock of a node was wrong",
    "set again": "the key was set after the release",
    "set by an extension": "an extension set the key anew, which had been gone",
    "renewed unheld": "the lock went on renewing a key that no call held",
    "stayed": "the release deleted nothing",
    "another key": "the release named another key than the acquire had set",
    "old value": "the release named a value that a renewal had replaced",
    "unsent release": "a release asked no node to delete its key",
    "denied": "a release said that the lock was not held, although the node held its key",
    "not undone": "a refused acquire had set the key, and the lock never undid it",
    "never given back": "a client took a permit and nothing gave it back",
    "place kept": "the place of a client whose lease was over stayed taken",
    "below zero": "a release lowered the count of permits below zero",
    "given back twice": "a permit was given back that nothing had taken",
    "put in by an acquire": "an acquire put in a permit that nothing had taken",
    "ranked by clients": "clients were ranked by times that they named themselves",
    "deadline": "the validity had ended",
    "not woken": "a client slept while the lock was free",
    "not notified": "the lock was free and nothing notified the client that waited",
    "blocked too long": "clients were blocked past the end of every lease, and an expiry wakes none",
    "not let in": "a client asked for a free lock and did not get it",
    "subscription lost": "a client lost its subscription and never subscribed again",
    "connections taken": "the client's own waiters held all of its connections",
    "dead entry": "the lock waited for a client that was gone",
    "cancelled entry": "the lock waited for a call that its user had cancelled",
    "entry of a refused call": "the lock waited for a call that had given up",
    "entry removed": "another client took a waiter's entry out, and it never came back",
    "entry taken": "another call took out the entry of a client that was inside",
    "entry lost": "waiters' entries went with the key of their queue, and they never came back",
    "stopped asking": "a client stopped asking for the lock, which came free again and again",
    "ended session": "the session that held it had ended",
    "failover": "a failover lost the lock",
    "unknown": "the record does not show it",
}
UNRELEASED: Final[tuple[Cause, ...]] = ("another key", "old value", "unsent release", "denied")
"""Why a release left its key on a node."""
LEAVE_KEYS: Final[tuple[Cause, ...]] = (
    *("prolonged", "set again", "renewed unheld", "stayed", *UNRELEASED, "not undone", "no expiry", "overlong"),
)
"""What a lock did, or did not do, so that a key stayed that no client owned."""
KEEP_CLIENTS_OUT: Final[tuple[Cause, ...]] = (
    *(*LEAVE_KEYS, "never given back", "place kept"),
    *("not woken", "not notified", "blocked too long", "not let in", "subscription lost", "dead entry"),
    *("cancelled entry", "entry of a refused call", "entry removed", "entry lost", "stopped asking"),
    *("rejected", "connections taken", "majority refused"),
)
"""What a lock did, or did not do, so that clients waited for it although no client had it."""
COMES_OF: Final[dict[Cause, tuple[Cause, ...]]] = {
    "too few nodes": ("granted on errors", "granted unasked", "read as own"),
    "deleted": ("set again", "another key"),
    "deleted by itself": ("shared value", "set again"),
    "overwritten": ("shared value", "set again", "looked first", "watch ended"),
    "prolonged": ("shared value",),
    "short TTL": ("expired",),
    "expired": ("not renewed", "refused renewal", "renewed elsewhere", "short TTL"),
    "nested release": ("deleted", "deleted by itself", "overwritten"),
}
"""What a cause may come of itself: a client takes for its own what has its value, or what it set too late."""
_OF_LOSSES: Final[dict[str, Cause]] = {
    "deleted": "deleted",
    "deleted by itself": "deleted by itself",
    "overwritten": "overwritten",
    "expired": "expired",
    "short TTL": "short TTL",
    "nested release": "nested release",
    "expired early": "wrong clock",
    "lost by the node": "forgotten",
    "went down": "forgotten",
    "never set": "not set",
}


class Reason(NamedTuple):
    """What led to it, in words, and the cause that these name."""

    text: str
    cause: Cause


def of_loss(how: str) -> Cause:
    """How a node lost a key, as a cause."""
    return _OF_LOSSES.get(how, "unknown")


def how_vague(cause: Cause | None) -> int:
    """2: the record does not show the cause. 1: what happened is known, but not what led to it. 0: the cause is known,
    or the finding itself is all that there is to say."""
    return 2 if cause == "unknown" else 1 if cause == "split votes" else 0
