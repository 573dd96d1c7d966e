"""What a group of tasks should ask for, as data."""

from __future__ import annotations

from dataclasses import dataclass

from rotameter.allocator.resources import MEMORY, Resource

__all__ = ["Advice"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What a group should ask for.

    Attributes
    ----------
    group : str
    runs : int
        Completed tasks whose use is known.
    least, most : float or None
        Range of what they used; this and all amounts are in the unit of the resource.
    asked : float or None
        What the user asked for (the middle one), if known.
    request : float or None
        What to ask for; None: keep what is.
    retries : tuple of float
        What to ask for after a kill, and after the next; the last holds all that was seen.
    kill_ratio, kill_interval
        Runs that needed more than the request, of all, those that ran out of it and whose need
        was never seen among them; None where of some it is not known. Its 95 % interval: what is
        not known counts as enough for the lower end, as not enough for the upper one.
    size_range : tuple of float or None
        Range of the sizes of their inputs, if known.
    keep : str
        Why nothing is advised; empty where something is.
    median, p95 : float or None
        Of what they used: values that were seen (nearest rank).
    kinds : tuple of str
        How their peaks were obtained.
    at_most : int
        Runs whose peak is an upper bound only: page cache counted, or as large as the limit.
    killed : int
    killed_with : float or None
        Attempts that ran out of it, and the most that one of them had, if known.
    enough_ratios : tuple of float
        Part of all runs that the request, and each of ``retries``, is known to be enough for.
    used_held, asked_held, advised_held : float or None
        What the runs used, held by what they asked for (None unless all did), and would hold by
        what is advised, killed attempts in full; without what came from a cache. GB·h of memory,
        core·h of cores; a limit of time holds nothing.
    reason : str
        From what the request comes, in words; or why it is kept.
    lacking, unsure : int
        Runs that ran out of it and whose need was never seen; runs of which it is not known
        whether the request is enough.
    at_least, guess : float or None
        Where nothing is advised and what is asked for was not enough: what is known not to be, and
        what to try, which is a guess.
    kill_range : tuple of float or None
        Least and most that the share of kills can be among these runs.
    rests_on : tuple of str
        Tasks whose use is known to be at least so much only, where one of them decides about the
        request, or about ``at_least``.
    inputs : tuple of (str, int)
        Runs of each input, the most first, where several are taken together.
    resource : Resource
    """

    group: str
    runs: int
    least: float | None
    most: float | None
    asked: float | None
    request: float | None
    retries: tuple[float, ...]
    kill_ratio: float | None
    kill_interval: tuple[float, float] | None
    size_range: tuple[float, float] | None
    keep: str = ""
    median: float | None = None
    p95: float | None = None
    kinds: tuple[str, ...] = ()
    at_most: int = 0
    killed: int = 0
    killed_with: float | None = None
    enough_ratios: tuple[float, ...] = ()
    used_held: float | None = None
    asked_held: float | None = None
    advised_held: float | None = None
    reason: str = ""
    lacking: int = 0
    unsure: int = 0
    at_least: float | None = None
    guess: float | None = None
    kill_range: tuple[float, float] | None = None
    rests_on: tuple[str, ...] = ()
    inputs: tuple[tuple[str, int], ...] = ()
    resource: Resource = MEMORY
