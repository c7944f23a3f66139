"""Locks that are broken on purpose: the reference lock, each with one line wrong.

They show what the judge can detect. Each is a subclass of the reference with one overridden member. It states which
line of the algorithm is wrong, what happens as a result, and as which finding it must be detected. Half of them are
mistakes of real libraries; their declaration names the issue. Select one by its class:
`fencepost test --lock workloads.mutants:HalfIsEnough`.
"""

from __future__ import annotations

from workloads.mutants.acquiring import *
from workloads.mutants.connecting import *
from workloads.mutants.counting import *
from workloads.mutants.declared import *
from workloads.mutants.extending import *
from workloads.mutants.freeing import *
from workloads.mutants.timing import *
from workloads.mutants.trying import *
from workloads.mutants.values import *
from workloads.mutants.waiting import *
