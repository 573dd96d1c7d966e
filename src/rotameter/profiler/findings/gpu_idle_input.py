"""RM139 gpu_idle_input: the GPU waits for the next batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rotameter.profiler.findings._gpu_words import find_wait
from rotameter.profiler.view import view
from rotameter.units import format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace

__all__ = ["Advisor"]


class Advisor:
    """Find devices that stand idle while their host waits for the data loader."""

    name = "gpu_idle_input"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for gaps in which the host waited for input."""
        wait = find_wait(view(trace), lambda one: one.input_s)
        if wait is None:
            return []
        one = wait.one
        # As many loaders more as the wait is longer than the computing that could hide it.
        factor = 1 + math.ceil(one.input_s / max(one.compute_s, 1e-9))
        return [
            Finding(
                code="RM139",
                kind="gpu_idle_input",
                title=f"{wait.words} for {one.loads:,} batches from the data loader",
                groups=wait.groups,
                evidence=wait.evidence(
                    Evidence(
                        "waited for input",
                        round(one.input_s, 6),
                        "s",
                        "gaps in computing while the host was in its data loader",
                        one.loads,
                    ),
                    Evidence(
                        "wait a batch",
                        round(one.input_s / max(one.loads, 1), 6),
                        "s",
                        "mean",
                        one.loads,
                    ),
                ),
                **wait.fields(
                    "the device's time without these gaps, if batches were there when asked for"
                ),
                confidence="high" if one.loads >= 10 else "medium",
                advice=(
                    f"Load ahead: {factor} times as many loader workers or more, pinned memory, "
                    "and batches prepared while the GPU computes "
                    f"({format_seconds(one.input_s / max(one.loads, 1))} a batch are missing)."
                ),
                change=(
                    "DataLoader(…, num_workers=8, prefetch_factor=4, pin_memory=True, "
                    "persistent_workers=True)"
                ),
                apply={"workers": {"factor": float(factor)}},
            )
        ]
