"""What an explanation names as the cause, as data, so that no code has to read it out of the sentences."""

from __future__ import annotations

from typing import Final, Literal

Cause = Literal[
    "too few nodes",
    "deleted",
    "deleted by itself",
    "late release",
    "shared value",
    "overwritten",
    "prolonged",
    "expired",
    "short TTL",
    "nested release",
    "forgotten",
    "not set",
    "no expiry",
    "overlong",
    "not prolonged",
    "absent node",
    "stuck keys",
    "given to ended call",
    "left mutex",
    "nothing set",
    "rejected",
    "split votes",
    "wrong clock",
    "set again",
    "renewed unheld",
    "stayed",
    "denied",
    "not undone",
    "never given back",
    "below zero",
    "given back twice",
    "ranked by clients",
    "deadline",
    "not woken",
    "not notified",
    "not let in",
    "subscription lost",
    "connections taken",
    "dead entry",
    "cancelled entry",
    "entry removed",
    "entry taken",
    "ended session",
    "failover",
    "unknown",
]
IN_WORDS: Final[dict[Cause, str]] = {
    "too few nodes": "too few nodes had granted it",
    "deleted": "the key was deleted by a client that did not own it",
    "deleted by itself": "the lock deleted the key of its own holder",
    "late release": "a release was sent only when it had returned, and deleted the next holder's key",
    "shared value": "several owners used the same value",
    "overwritten": "the key was overwritten",
    "prolonged": "the key of another client was prolonged",
    "expired": "the keys had expired",
    "short TTL": "the key was given a shorter TTL than the lease",
    "nested release": "a nested acquire and its release removed the key",
    "forgotten": "nodes forgot the key when they went down",
    "not set": "too few nodes ever had the key",
    "no expiry": "the key had no expiry",
    "overlong": "the lock gave the key a longer TTL than its client had asked for",
    "not prolonged": "too few nodes prolonged the key",
    "absent node": "a single node was down, hung, answering errors or out of reach",
    "stuck keys": "orphaned keys were stuck",
    "given to ended call": "the lock was given to a call that had already ended without it",
    "left mutex": "a call left a mutex of the lock, which never expires",
    "nothing set": "the lock set nothing on nodes that were free",
    "rejected": "the nodes answered the lock's requests with an error",
    "split votes": "the votes were split",
    "wrong clock": "the clock of a node was wrong",
    "set again": "the key was set after the release",
    "renewed unheld": "the lock went on renewing a key that no call held",
    "stayed": "the release deleted nothing",
    "denied": "a release said that the lock was not held, although the node held its key",
    "not undone": "a refused acquire had set the key, and the lock never undid it",
    "never given back": "a client took a permit and nothing gave it back",
    "below zero": "a release lowered the count of permits below zero",
    "given back twice": "a permit was given back that nothing had taken",
    "ranked by clients": "clients were ranked by times that they named themselves",
    "deadline": "the validity had ended",
    "not woken": "a client slept while the lock was free",
    "not notified": "the lock was free and nothing notified the client that waited",
    "not let in": "a client asked for a free lock and did not get it",
    "subscription lost": "a client lost its subscription and never subscribed again",
    "connections taken": "the client's own waiters held all of its connections",
    "dead entry": "the lock waited for a client that was gone",
    "cancelled entry": "the lock waited for a call that its user had cancelled",
    "entry removed": "another client took a waiter's entry out, and it never came back",
    "entry taken": "another call took out the entry of a client that was inside",
    "ended session": "the session that held it had ended",
    "failover": "a failover lost the lock",
    "unknown": "the record does not show it",
}
KEEP_CLIENTS_OUT: Final[tuple[Cause, ...]] = (
    *(
        "prolonged",
        "set again",
        "renewed unheld",
        "stayed",
        "denied",
        "not undone",
        "never given back",
        "no expiry",
        "overlong",
    ),
    *("not woken", "not notified", "not let in", "subscription lost", "dead entry", "cancelled entry"),
    "entry removed",
    *("rejected", "connections taken"),
)
"""What a lock did, or did not do, so that clients waited for it although no client had it."""
COMES_OF: Final[dict[Cause, tuple[Cause, ...]]] = {
    "deleted": ("shared value", "set again"),
    "deleted by itself": ("shared value", "set again"),
    "overwritten": ("shared value", "set again"),
    "prolonged": ("shared value",),
    "short TTL": ("expired",),
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


def of_loss(how: str) -> Cause:
    """How a node lost a key, as a cause."""
    return _OF_LOSSES.get(how, "unknown")


def how_vague(cause: Cause | None) -> int:
    """2: the record does not show the cause. 1: what happened is known, but not what led to it. 0: the cause is known,
    or the finding itself is all that there is to say."""
    return 2 if cause == "unknown" else 1 if cause == "split votes" else 0
