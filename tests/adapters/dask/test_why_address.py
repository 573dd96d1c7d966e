"""What is no address of a scheduler is refused before anything is tried."""

from __future__ import annotations

import pytest

from rotameter.adapters.dask.why import why_at
from rotameter.errors import UsageError


@pytest.mark.parametrize("text", ["/etc/passwd", "", "host", "run.rmt", "host:port", "a/b:8786"])
def test_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        why_at(text, 0.5)
