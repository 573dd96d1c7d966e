"""What users need to test against rotameter: a conformance kit and fakes.

>>> from rotameter.testing import FakeClock
>>> clock = FakeClock()
>>> clock.advance(1.5)
>>> clock.monotonic_ns()
1500000000
"""

from rotameter.testing.conformance import check_advisor, check_probe
from rotameter.testing.fakes import FakeClock

__all__ = ["FakeClock", "check_advisor", "check_probe"]
