"""What users need to test against rotameter: a conformance kit and fakes.

>>> from rotameter.testing import FakeClock
>>> clock = FakeClock()
>>> clock.advance(1.5)
>>> clock.monotonic_ns()
1500000000
"""

from rotameter.testing.allocators import check_allocator
from rotameter.testing.conformance import check_advisor, check_probe
from rotameter.testing.detectors import check_detector
from rotameter.testing.fakes import FakeClock
from rotameter.testing.forecasters import check_forecaster
from rotameter.testing.importers import check_importer, import_bytes
from rotameter.testing.policies import check_batch_policy

__all__ = [
    "FakeClock",
    "check_advisor",
    "check_allocator",
    "check_batch_policy",
    "check_detector",
    "check_forecaster",
    "check_importer",
    "check_probe",
    "import_bytes",
]
