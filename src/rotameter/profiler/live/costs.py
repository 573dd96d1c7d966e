"""What measuring usually costs where timing it would cost as much again.

Measured with ``python -m benchmarks tracer_file_call_us tracer_file_open_us`` and the like.
"""

from __future__ import annotations

__all__ = ["CALL_S", "OPEN_S", "TIMED_S"]

TIMED_S = 5e-6
"""An attempt of which only wall and CPU time are taken."""

CALL_S = 0.4e-6
"""A call on a file that is counted."""

OPEN_S = 20e-6
"""A file that is opened to be counted, with the row that tells of it."""
