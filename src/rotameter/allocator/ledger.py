"""What allocations held, used and wasted: every byte-second is useful, surplus or failed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GB_HOUR", "Ledger"]

GB_HOUR = 1e9 * 3600.0


@dataclass(slots=True)
class Ledger:
    """Byte-seconds of memory, and attempts.

    Attributes
    ----------
    used, surplus, failed : float
        Of completed attempts what they needed and what they held beyond it; all of failed ones.
    tasks, failures, most_attempts : int

    Examples
    --------
    >>> kept = Ledger()
    >>> kept.fail(1e9, 10.0)
    >>> kept.complete(2e9, 1.5e9, 20.0, attempts=2)
    >>> kept.efficiency, kept.waste_gbh == 20e9 / GB_HOUR
    (0.6, True)
    """

    used: float = 0.0
    surplus: float = 0.0
    failed: float = 0.0
    tasks: int = 0
    failures: int = 0
    most_attempts: int = 0

    def fail(self, granted_bytes: float, seconds: float) -> None:
        """Count an attempt that exceeded what it was granted."""
        self.failed += granted_bytes * seconds
        self.failures += 1

    def complete(
        self, granted_bytes: float, need_bytes: float, seconds: float, *, attempts: int
    ) -> None:
        """Count an attempt that completed."""
        self.used += need_bytes * seconds
        self.surplus += (granted_bytes - need_bytes) * seconds
        self.tasks += 1
        self.most_attempts = max(self.most_attempts, attempts)

    @property
    def held(self) -> float:
        """All byte-seconds that attempts held."""
        return self.used + self.surplus + self.failed

    @property
    def efficiency(self) -> float | None:
        """Used over held (absolute workflow efficiency); None where nothing ran."""
        return self.used / self.held if self.held > 0 else None

    @property
    def waste_gbh(self) -> float:
        """GB-hours that were held and not used."""
        return (self.surplus + self.failed) / GB_HOUR

    @property
    def retries_per_task(self) -> float | None:
        """Failed attempts over tasks; None where nothing completed."""
        return self.failures / self.tasks if self.tasks else None
