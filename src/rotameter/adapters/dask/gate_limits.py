"""Numbers of the admission gate, and what they stand for."""

from __future__ import annotations

__all__ = ["AGAIN_S", "GRACE_S", "HOLD", "MEMORY", "PATIENCE_S", "USABLE"]

HOLD = "rotameter-hold"
"""A worker address that no worker has."""

USABLE = 0.9
"""Part of a worker's limit that tasks may use; the nanny ends it at 0.95."""

GRACE_S = 5.0
"""How long a task that fits on no worker waits for a larger one."""

AGAIN_S = 1.0
"""How often it looks at what waits where nothing happens."""

PATIENCE_S = 5.0
"""A task that found no room for so long has a worker kept free for it."""

MEMORY = "memory_bytes"
