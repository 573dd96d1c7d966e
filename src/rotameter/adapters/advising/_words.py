"""What all the files say beside a request: from what it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotameter.allocator.resources import CORES, GPUS, TIME
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
    text, used = one.resource.text, _used(one)
    if one.at_least is not None:
        guess = "" if one.guess is None else f"; a guess: {text(one.guess)}"
        return f"more than {text(one.at_least)} is needed, {one.keep} ({used}){guess}"
    if one.resource is CORES and one.request is not None:
        return f"{used}; an average: a run that at times kept more busy would last longer"
    if one.resource is GPUS and one.request is not None:
        return f"{used}; none used the GPUs that it held"
    if one.request is None or one.kill_interval is None:
        return f"keep, because {one.keep} ({used})"
    high_kill = f"at most {one.kill_interval[1]:.1%} (95 %)"
    if one.kill_ratio is None:
        runs = one.runs + one.lacking
        return f"{used}; killed: not known of {one.unsure:,} of {runs:,}, {high_kill}"
    return f"{used}; killed: {one.kill_ratio:.1%}, {high_kill}"


def _used(one: Advice) -> str:
    """Say how many runs there were, what they used, with which inputs, and how many ran out."""
    resource, used = one.resource, many(one.runs, "run")
    if one.runs and resource is GPUS:
        used += f", {resource.text(one.most)} GPUs kept busy at most on average"
        used += "" if one.asked is None else f" of {resource.text(one.asked)}"
    elif one.runs and resource is CORES:
        used += f", {resource.text(one.least)} to {resource.text(one.most)} cores kept busy"
        used += "" if one.asked is None else f" of {resource.text(one.asked)}"
    elif one.runs:
        low, high = resource.text(one.least), resource.text(one.most)
        used += f", took {low} to {high}" if resource is TIME else f", {low} to {high} used"
    if one.size_range is not None and one.size_range[0] < one.size_range[1]:
        low, high = (format_bytes(size) for size in one.size_range)
        used += f", inputs of {low} to {high}"
    if one.killed:
        up_to = "up to " if one.killed > 1 else ""
        had = f"with {up_to}{resource.text(one.killed_with)}" if one.killed_with else ""
        ran_out = f"ran out of {resource.ran_out}"
        used += f", {one.killed:,} {ran_out} {had or '(with how much is not known)'}"
    return used


def rungs(one: Advice) -> tuple[float, ...]:
    """Give the request and what to ask for after each kill."""
    return () if one.request is None else (one.request, *one.retries)
