"""A semaphore: up to `--permits` clients may be inside a key at once, and do nothing there but stay.

The checker `capacity` counts them and says who is to blame if there were more. Two clients inside at once are no
finding as such, so `exclusion` does not judge. How many nodes a permit takes is up to the lock, so a majority in reach
does not say that a client could have got in, and `starvation` does not judge either.
"""

from __future__ import annotations

from fencepost.text import plural
from workloads.options import ClientOptions
from workloads.workload import Workload


class SemaphoreWorkload(Workload):
    checkers = ("capacity",)
    excluded_checkers = ("exclusion", "starvation")

    def story(self, options: ClientOptions) -> str:
        return (
            f"It was used as a semaphore with {plural(options.permits, 'permit')} for each key. A client that acquired "
            f"one stayed inside for {options.stay_in_words} and gave it back."
        )


WORKLOAD = SemaphoreWorkload()
