"""What devices did and why they did not: intervals in, one JSON-ready analysis out.

Pure arithmetic on arrays of times, for traces of any source that has kernels, copies, streams and
launches (PyTorch Kineto, Nsight Systems).
"""

from rotameter.profiler.devices.analysis import NO_ACTIVITY, analyse, smaller
from rotameter.profiler.devices.work import COMMUNICATION, COMPUTE, COPY, NEVER, Host, Work

__all__ = [
    "COMMUNICATION",
    "COMPUTE",
    "COPY",
    "NEVER",
    "NO_ACTIVITY",
    "Host",
    "Work",
    "analyse",
    "smaller",
]
