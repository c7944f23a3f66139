"""A read-write lock: many readers or one writer may be inside a key at once, and do nothing there but stay.

Readers may overlap, because the judge takes all readers of a key for one party. A writer overlaps no other client.
"""

from __future__ import annotations

from workloads.options import ClientOptions
from workloads.workload import Workload


class ReadersAndWriters(Workload):
    readers = 0.75

    def story(self, options: ClientOptions) -> str:
        return (
            f"It was used as a read-write lock: in {self.readers:.0%} of its sections a client came as a reader, which "
            f"other readers may join, and otherwise as a writer. A client that acquired it stayed inside for "
            f"{options.stay_in_words} and released the lock."
        )


WORKLOAD = ReadersAndWriters()
