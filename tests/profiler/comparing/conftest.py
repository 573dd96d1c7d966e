"""Small runs whose changes are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.profiler.comparing.runs import build

from rotameter.profiler.trace import Trace


@pytest.fixture
def run() -> Callable[..., Trace]:
    """Make a run; see :func:`tests.profiler.comparing.runs.build`."""
    return build
