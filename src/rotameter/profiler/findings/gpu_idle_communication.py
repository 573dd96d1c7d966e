"""RM140 gpu_idle_communication: the GPU waits for messages that no computing hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotameter.profiler.findings._gpu_words import find_wait
from rotameter.profiler.view import view
from rotameter.units import format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._device_waits import DeviceWaits
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.trace import Trace

__all__ = ["Advisor"]


def _could_hide(one: DeviceWaits) -> float:
    """Give the exposed messages that computing is long enough to hide."""
    return min(one.communication_s, one.compute_s)


class Advisor:
    """Find devices that do not compute while messages are under way."""

    name = "gpu_idle_communication"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for gaps that end with the end of a message."""
        wait = find_wait(view(trace), _could_hide, least=True)
        if wait is None:
            return []
        one = wait.one
        total = one.message_s * one.messages
        return [
            Finding(
                code="RM140",
                kind="gpu_idle_communication",
                title=(
                    f"{wait.words} for {one.messages:,} messages of "
                    f"{format_seconds(one.message_s)} that no computing hides"
                ),
                groups=wait.groups,
                evidence=wait.evidence(
                    Evidence(
                        "waited for messages",
                        round(one.communication_s, 6),
                        "s",
                        "gaps in computing that ended with the end of a message",
                        one.messages,
                    ),
                    Evidence(
                        "messages under way", round(total, 6), "s", "union of them", one.messages
                    ),
                    Evidence(
                        "hidden",
                        round(1 - one.communication_s / total, 4) if total > 0 else None,
                        "ratio",
                        "part of the messages' time in which the device computed",
                        one.messages,
                    ),
                ),
                **wait.fields(
                    "the device's time if the messages went on while it computes"
                    + (
                        "; of several devices, the one that waited least: the others wait for it"
                        if len(wait.devices) > 1
                        else ""
                    )
                ),
                confidence="high" if one.messages >= 10 else "medium",
                advice=(
                    "Send while computing: gradients in buckets as they are ready, fewer and "
                    "larger messages, or several batches between messages (accumulation)."
                ),
                change=(
                    "DistributedDataParallel(model, bucket_cap_mb=100, "
                    "gradient_as_bucket_view=True, static_graph=True)"
                ),
                apply={"task_granularity": {"factor": 2.0}},
            )
        ]
