"""Critical sections, derived from the operations: one row for every time that a client was let in.

client, life, section, key
asked_ns         the first try to acquire that led to this section was invoked
start_ns         the acquire completed: from here on the client may use the resource
end_ns           the release was invoked, or the last moment at which the client can have used it
ended            "release", "killed" (by the nemesis) or "open" (the run, or the client, ended inside)
deadline_min_ns  the earliest moment at which the validity that the client was told can have ended
deadline_max_ns  the latest one; equal to deadline_min_ns where the lock reported its deadline
validity_ms, requested_ns (or missing), token (or missing), token_source (or missing), extensions
"""
