"""Locks of PostgreSQL that a session or its transaction holds, over psycopg. `lock` in [settings] says which.

`advisory`: `pg_try_advisory_lock(hashtext(key))`, held until `pg_advisory_unlock`. `row`: `SELECT … FOR UPDATE NOWAIT`
in a transaction that stays open, held until it ends. Its version is counted on a second connection while the row is
locked: counted in the same transaction it would be taken back when that is lost, and granted twice. `transaction`:
`pg_try_advisory_xact_lock(hashtext(key))`, held until its transaction ends, in which the client's data is written, too.

The session ends with the first error. The value of a lease names the session in which it was granted, and a release in
any other one answers that the lock is no longer held.
"""

import itertools
import select
from importlib.metadata import version

import psycopg
from fencepost_adapter import Answer, Nodes, Settings, fail, ok, serve

ANSWER_WITHIN_S = 1.0
OPEN_WITHIN_S = 15.0
LOCK_NOT_AVAILABLE = b"55P03"
TABLES = """
    CREATE TABLE IF NOT EXISTS locks (key text PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS versions (key text PRIMARY KEY, version bigint NOT NULL)
"""


class SessionLostError(Exception):
    """No answer in time; the connection was closed."""


class RefusedError(Exception):
    """Another transaction has the row."""


class Session:
    """A connection that is closed with its first error, and opened again by the next request."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = itertools.count(1)
        self._connection = None
        self.name = ""
        self.answers_within_s = OPEN_WITHIN_S

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @property
    def is_in_transaction(self) -> bool:
        return self.is_open and self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def ask(self, sql: str, *values: str) -> "bytes | None":
        """The first value of the first row; None without rows."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=2)
                self.name = f"session-{next(self._numbers)}"
            return self._answer(sql, values)
        except RefusedError:
            raise
        except Exception:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            raise

    def _answer(self, sql: str, values: "tuple[str, ...]") -> "bytes | None":
        raw = self._connection.pgconn
        raw.send_query_params(sql.encode(), [value.encode() for value in values] or None)
        while raw.flush() == 1:
            self._await(raw, select.POLLIN | select.POLLOUT)
            raw.consume_input()
        answer, refused = None, False
        while True:
            while raw.is_busy():
                self._await(raw, select.POLLIN)
                raw.consume_input()
            if (result := raw.get_result()) is None:
                break
            if result.error_message:
                if result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) != LOCK_NOT_AVAILABLE:
                    raise psycopg.DatabaseError(result.error_message.decode(errors="replace"))
                refused = True
            elif result.ntuples:
                answer = result.get_value(0, 0)
        if refused:
            raise RefusedError
        return answer

    def _await(self, raw: object, events: int) -> None:
        poll = select.poll()
        poll.register(raw.socket, events)
        if not poll.poll(self.answers_within_s * 1000):
            raise SessionLostError(f"no answer within {self.answers_within_s:g} s")


class HeldBySession:
    """What both locks have in common."""

    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        if settings.get("tasks", 1) > 1:
            raise NotImplementedError("a session has one owner, so tasks of a client cannot share it (--tasks)")
        self._lock = Session(nodes[0]["url"])
        self._lock.ask("SELECT 1")
        self._lock.answers_within_s = ANSWER_WITHIN_S

    def extend(self, key: str, value: str, ttl_ms: int) -> Answer:
        del key, value, ttl_ms
        return fail("no time is promised that could be extended")

    def held(self, key: str, value: str) -> Answer:
        del key
        if not self._is_of(value):
            return fail("the session has ended")
        self._lock.ask("SELECT 1")
        return ok()

    def describe(self) -> Answer:
        return {"library": "psycopg " + version("psycopg"), "answer_within_s": ANSWER_WITHIN_S}

    def _is_of(self, value: str) -> bool:
        """Whether the session in which this lease was granted is still open, as far as the client knows."""
        return value == self._lock.name and self._lock.is_open


class Advisory(HeldBySession):
    def acquire(self, key: str, ttl_ms: int) -> Answer:
        del ttl_ms
        if self._lock.ask("SELECT pg_try_advisory_lock(hashtext($1))", key) != b"t":
            return fail("pg_try_advisory_lock returned false")
        return ok(value=self._lock.name, open_ended=True)

    def release(self, key: str, value: str) -> Answer:
        if not self._is_of(value):
            return fail("the session has ended")
        if self._lock.ask("SELECT pg_advisory_unlock(hashtext($1))", key) != b"t":
            return fail("pg_advisory_unlock returned false")
        return ok()


class HeldByTransaction(HeldBySession):
    def acquire(self, key: str, ttl_ms: int) -> Answer:
        del ttl_ms
        if self._lock.is_in_transaction:
            return fail("this client's transaction has the lock already, and can be committed once")
        return self._begin(key)

    def release(self, key: str, value: str) -> Answer:
        del key
        if not self._is_of(value):
            return fail("the session has ended")
        self._lock.ask("COMMIT")  # after an error in the transaction the session is closed, so this never rolls back
        return ok()


class Transaction(HeldByTransaction):
    def _begin(self, key: str) -> Answer:
        self._lock.ask("BEGIN")
        if self._lock.ask("SELECT pg_try_advisory_xact_lock(hashtext($1))", key) != b"t":
            self._lock.ask("ROLLBACK")
            return fail("pg_try_advisory_xact_lock returned false")
        return ok(value=self._lock.name, open_ended=True)

    def run(self, key: str, value: str, statement: str, values: "list[str]") -> Answer:
        del key
        if not self._is_of(value):
            return fail("the session has ended")
        result = self._lock.ask(statement, *values)
        return ok(result=None if result is None else result.decode())


class Row(HeldByTransaction):
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        super().__init__(nodes, settings)
        self._count = Session(nodes[0]["url"])
        self._known = set()
        self._count.ask("SELECT pg_advisory_lock(1)")  # or two clients make the same table
        for statement in TABLES.split(";"):
            self._count.ask(statement)
        self._count.ask("SELECT pg_advisory_unlock(1)")
        self._count.answers_within_s = ANSWER_WITHIN_S

    def _begin(self, key: str) -> Answer:
        if key not in self._known:
            self._count.ask("INSERT INTO locks VALUES ($1) ON CONFLICT DO NOTHING", key)
            self._count.ask("INSERT INTO versions VALUES ($1, 0) ON CONFLICT DO NOTHING", key)
            self._known.add(key)
        self._lock.ask("BEGIN")
        try:
            self._lock.ask("SELECT key FROM locks WHERE key = $1 FOR UPDATE NOWAIT", key)
        except RefusedError:
            self._lock.ask("ROLLBACK")
            return fail("another transaction has the row")
        try:
            token = self._count.ask("UPDATE versions SET version = version + 1 WHERE key = $1 RETURNING version", key)
        except Exception:
            self._lock.ask("ROLLBACK")
            raise
        return ok(value=self._lock.name, token=int(token), open_ended=True)


LOCKS = {"advisory": Advisory, "row": Row, "transaction": Transaction}

if __name__ == "__main__":
    serve(lambda nodes, settings: LOCKS[settings["manifest"]["lock"]](nodes, settings))
