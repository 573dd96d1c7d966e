"""Replay a run: the one task-graph engine, and what changes of a run would save.

``Replayer(trace)`` prices changes for the findings; ``Model`` and ``simulate`` are the engine
itself, which sizing and co-simulation extend with policies, memory and arrivals.
"""

from rotameter.profiler.replaying.changes import (
    Bandwidth,
    Cap,
    Change,
    Drop,
    Merge,
    Order,
    Place,
    Release,
    Scale,
    Speed,
    Split,
    Stage,
    Threads,
    Unpin,
    Workers,
)
from rotameter.profiler.replaying.engine import Loop, Schedule, simulate
from rotameter.profiler.replaying.model import PARTS, Model, Policy, Worker, make_model
from rotameter.profiler.replaying.savings import Replay, Replayer, Saving

__all__ = [
    "PARTS",
    "Bandwidth",
    "Cap",
    "Change",
    "Drop",
    "Loop",
    "Merge",
    "Model",
    "Order",
    "Place",
    "Policy",
    "Release",
    "Replay",
    "Replayer",
    "Saving",
    "Scale",
    "Schedule",
    "Speed",
    "Split",
    "Stage",
    "Threads",
    "Unpin",
    "Worker",
    "Workers",
    "make_model",
    "simulate",
]
