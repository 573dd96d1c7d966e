"""RM138 gpu_idle_host: the GPU waits for the host to launch its kernels."""

from __future__ import annotations

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
    """Find devices that stand idle between kernels because the next one was launched late."""

    name = "gpu_idle_host"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for gaps that the host alone explains."""
        wait = find_wait(view(trace), lambda one: one.host_s)
        if wait is None:
            return []
        one = wait.one
        gap = one.host_s / max(one.gaps, 1)
        return [
            Finding(
                code="RM138",
                kind="gpu_idle_host",
                title=(
                    f"{wait.words} for the host to launch {one.kernels:,} kernels of "
                    f"{format_seconds(one.kernel_s)} each"
                ),
                groups=wait.groups,
                evidence=wait.evidence(
                    Evidence(
                        "waited for the host",
                        round(one.host_s, 6),
                        "s",
                        "gaps in computing, without those that messages, copies or input explain",
                        one.gaps,
                    ),
                    Evidence("mean gap", round(gap, 9), "s", "over these gaps", one.gaps),
                    Evidence("mean kernel", round(one.kernel_s, 9), "s", "measured", one.kernels),
                    Evidence(
                        "launched late",
                        round(one.late_ratio, 4),
                        "ratio",
                        "part of the idle time that ended with work launched after it began",
                    ),
                ),
                **wait.fields(
                    "the device's time with these gaps closed; launching still takes its time "
                    "where the host has less of it than the kernels"
                ),
                confidence="high" if one.late_ratio >= 0.9 and one.gaps >= 100 else "medium",
                advice=(
                    "Launch less often: compile the step, record it as a CUDA graph, use fused "
                    "operators or a larger batch; keep .item() and print out of the loop."
                    if gap < 1e-3
                    else "Find what the host does in these gaps (saving, logging, evaluating): do "
                    "it less often or in another thread."
                ),
                change="model = torch.compile(model, mode='reduce-overhead')  # CUDA graphs",
                apply={"task_granularity": {"factor": 4.0}},
            )
        ]
