"""A toy workload: every client that comes in signs a book. Its steps, its script and its story are all in this file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from fencepost.history import Op, Write
from workloads.options import ClientOptions
from workloads.resource import ACCEPTED, Resource, encoded
from workloads.workload import Inside, Workload

SIGN = """
redis.call('RPUSH', KEYS[2], ARGV[1])
return redis.call('INCR', KEYS[1])
"""
LENGTH = "return tonumber(redis.call('GET', KEYS[1]) or '0')"


class Guest(Inside):
    steps = ("sign",)

    def work(self, stay: Callable[[], bool]) -> None:
        self.sign()
        stay()

    def sign(self) -> Op:
        lock = self.lock
        key = lock.held("sign").key
        line = encoded(Write(key, 0, lock.client, lock.section, 0))
        return lock.step("sign", lambda: cast(int, self.resource.run(SIGN, [key, ACCEPTED], [line])), "value")


class GuestBook(Workload):
    inside = Guest
    checkers = ("pages",)
    guards_data = True
    scripts = (SIGN, LENGTH)

    def final(self, resource: Resource, keys: Iterable[str]) -> Mapping[str, int]:
        return {key: cast(int, resource.run(LENGTH, [key], [])) for key in keys}

    def story(self, options: ClientOptions) -> str:
        return "A client that acquired it signed the guest book and released the lock."


WORKLOAD = GuestBook()
