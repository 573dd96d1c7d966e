"""What all the files say beside a request: from what it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotameter.units import format_bytes, many

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["HEAD", "plain", "reason", "rungs"]

HEAD = "Written by `rotameter size`: requests from what earlier runs used."


def plain(name: str) -> str:
    r"""Give a name on one line: what cannot be printed becomes a blank.

    Examples
    --------
    >>> plain("a\nb")
    'a b'
    """
    return "".join(c if c.isprintable() else " " for c in name)


def reason(one: Advice) -> str:
    """Say from how many runs a request comes, and the chance of a kill; or why it is kept.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> reason(Advice("g", 3, 1e9, 2e9, None, None, (), None, None, None, "fewer than 5 runs"))
    'keep, because fewer than 5 runs (3 runs, 1 GB to 2 GB used)'
    """
    used = many(one.runs, "run")
    if one.runs:
        used += f", {format_bytes(one.least_bytes)} to {format_bytes(one.most_bytes)} used"
    if one.size_range is not None and one.size_range[0] < one.size_range[1]:
        low, high = (format_bytes(size) for size in one.size_range)
        used += f", inputs of {low} to {high}"
    if one.killed:
        up_to = "up to " if one.killed > 1 else ""
        had = f"with {up_to}{format_bytes(one.killed_bytes)}" if one.killed_bytes else ""
        used += f", {one.killed:,} ran out of memory {had or '(with how much is not known)'}"
    if one.at_least_bytes is not None:
        guess = "" if one.guess_bytes is None else f"; a guess: {format_bytes(one.guess_bytes)}"
        return f"more than {format_bytes(one.at_least_bytes)} is needed, {one.keep} ({used}){guess}"
    if one.request_bytes is None or one.kill_interval is None:
        return f"keep, because {one.keep} ({used})"
    high_kill = f"at most {one.kill_interval[1]:.1%} (95 %)"
    if one.kill_ratio is None:
        runs = one.runs + one.lacking
        return f"{used}; killed: not known of {one.unsure:,} of {runs:,}, {high_kill}"
    return f"{used}; killed: {one.kill_ratio:.1%}, {high_kill}"


def rungs(one: Advice) -> tuple[float, ...]:
    """Give the request and what to ask for after each kill."""
    return () if one.request_bytes is None else (one.request_bytes, *one.retry_bytes)
