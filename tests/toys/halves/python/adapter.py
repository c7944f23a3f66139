"""A lock that asks nobody: the key says how it behaves."""

import sys
import threading
import time

from fencepost_adapter import BoundedCall, TimedCall, fail, info, ok, serve

NOT_TEXT = b"\xff\x00A"


class Toy:
    def __init__(self, settings):
        self.settings = settings
        self.meeting = threading.Barrier(2)

    def acquire(self, key, ttl_ms):
        if key == "until":
            return ok(value="v", deadline_ns=time.monotonic_ns() + ttl_ms * 1_000_000)
        if key == "for":
            with BoundedCall() as call:
                time.sleep(0.02)
            return ok(value="v", validity_ms=ttl_ms, **call.bounds())
        if key == "yes":
            with TimedCall() as call:
                time.sleep(0.02)
            return ok(value=NOT_TEXT, token=7, **call.bounds())
        if key == "held":
            return fail("somebody\n\telse has it")
        if key == "unknown":
            return info("no reply")
        if key == "panic":
            raise RuntimeError("out of luck")
        if key == "meet":
            self.meeting.wait()  # until two tasks are here at once
            return ok(value="v", deadline_ns=time.monotonic_ns())
        if key == "hang":
            time.sleep(3600)
        sys.stdout.write("printed by the library\nand once more\n")
        return ok(value="v", token=7, granted_ms=2000, requested_ns=1)

    def extend(self, key, value, ttl_ms):
        return fail("it cannot extend")

    def release(self, key, value):
        return ok() if value == NOT_TEXT else fail("another value")

    def describe(self):
        return {"library": "toy 1.0", "settings": self.settings}


class RenewingToy(Toy):
    def held(self, key, value):
        return ok() if value == "v" else fail("it is another one")


def open_toy(nodes, settings):
    if not nodes:
        raise ValueError("there are no nodes")
    sys.stdout.write(f"opening {nodes[0]['host']}:{nodes[0]['port']}\n")
    return (RenewingToy if nodes[0]["host"] == "renews" else Toy)(settings)


serve(open_toy)
