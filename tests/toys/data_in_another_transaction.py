"""A control: the lock's transaction is committed before the client's data is written, in another transaction."""

from adapter import Transaction
from fencepost_adapter import Answer, ok, serve


class TwoTransactions(Transaction):
    def run(self, key: str, value: str, statement: str, values: "list[str]") -> Answer:
        if "INSERT" in statement:
            self._lock.ask("COMMIT")
        return super().run(key, value, statement, values)

    def release(self, key: str, value: str) -> Answer:
        return ok() if self._is_of(value) else super().release(key, value)


serve(TwoTransactions)
