"""What is no address of a scheduler is refused before anything is tried."""

from __future__ import annotations

import pytest

from rotameter.adapters.dask.why import why_at
from rotameter.errors import RotameterError, UsageError


@pytest.mark.parametrize("text", ["/etc/passwd", "", "host", "run.rmt", "host:port", "a/b:8786"])
def test_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        why_at(text, 0.5)


def test_what_an_address_carries_is_not_printed_back() -> None:
    for address in ("tcp://ann:hunter2@127.0.0.1:9?token=hunter2", "ann:hunter2@host:x"):
        with pytest.raises(RotameterError) as caught:
            why_at(address, 0.5)
        assert "hunter2" not in f"{caught.value} {caught.value.hint}"
