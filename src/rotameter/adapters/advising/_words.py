"""What all the files say beside a request: from what it comes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rotameter.allocator.reasons import resting
from rotameter.allocator.resources import CORES, GPUS, TIME
from rotameter.units import format_bytes, many

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["HEAD", "plain", "reason", "rungs", "share"]

_INPUTS = 3
"""So many inputs are named that the runs of a group are of."""

HEAD = "Written by `rotameter size`: requests from what earlier runs used."


def plain(name: str) -> str:
    r"""Give a name on one line: what cannot be printed becomes a blank.

    Examples
    --------
    >>> plain("a\nb")
    'a b'
    """
    return "".join(c if c.isprintable() else " " for c in name)


def share(ratio: float) -> str:
    """Write a share with as many digits as show that it is above 0.

    Examples
    --------
    >>> share(0.027), share(0.00051), share(0.00004), share(0.0)
    ('2.7%', '0.05%', '0.004%', '0.0%')
    """
    digits = 1 if ratio <= 0 else max(1, -math.floor(math.log10(100 * ratio)))
    return f"{ratio:.{min(digits, 9)}%}"


def reason(one: Advice) -> str:
    """Say from how many runs a request comes, and the chance of a kill; or why it is kept.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> reason(Advice("g", 3, 1e9, 2e9, None, None, (), None, None, None, "fewer than 5 runs"))
    'keep, because fewer than 5 runs (3 runs, 1 GB to 2 GB used)'
    """
    text, used = one.resource.text, _used(one)
    rests = resting(one.rests_on)
    rests = f"; {rests}" if rests else ""
    if one.at_least is not None:
        guess = "" if one.guess is None else f"; a guess: {text(one.guess)}"
        return f"more than {text(one.at_least)} is needed, {one.keep} ({used}){guess}{rests}"
    if one.resource is CORES and one.request is not None:
        return f"{used}; an average: a run that at times kept more busy would last longer"
    if one.resource is GPUS and one.request is not None:
        return f"{used}; none used the GPUs that it held"
    if one.request is None or one.kill_interval is None:
        return f"keep, because {one.keep} ({used})"
    high_kill = f"at most {share(one.kill_interval[1])} (95 %)"
    if one.kill_ratio is None:
        runs = one.runs + one.lacking
        return f"{used}; killed: not known of {one.unsure:,} of {runs:,}, {high_kill}{rests}"
    return f"{used}; killed: {share(one.kill_ratio)}, {high_kill}{rests}"


def _used(one: Advice) -> str:
    """Say how many runs there were, what they used, with which inputs, and how many ran out."""
    resource, used = one.resource, many(one.runs, "run") + _of_inputs(one)
    if one.runs and resource is GPUS:
        asked = "" if one.asked is None else f" of {resource.text(one.asked)}"
        if one.most is not None:
            used += f", at most {_many_of(resource.text(one.most), 'GPU')}{asked} busy on average"
    elif one.runs and resource is CORES:
        used += f", {_many_of(_range(one), 'core')} kept busy"
        used += "" if one.asked is None else f" of {resource.text(one.asked)}"
    elif one.runs:
        used += f", took {_range(one)}" if resource is TIME else f", {_range(one)} used"
    if one.size_range is not None and one.size_range[0] < one.size_range[1]:
        low, high = (format_bytes(size) for size in one.size_range)
        used += f", inputs of {low}" + (f" to {high}" if low != high else "")
    if one.killed:
        up_to = "up to " if one.killed > 1 else ""
        had = f"with {up_to}{resource.text(one.killed_with)}" if one.killed_with else ""
        ran_out = f"ran out of {resource.ran_out}"
        used += f", {one.killed:,} {ran_out} {had or '(with how much is not known)'}"
    return used


def _of_inputs(one: Advice) -> str:
    """Say how many of the runs are of which input, where several are taken together."""
    if not one.inputs:
        return ""
    told = [f"{count:,} of {plain(name)}" for name, count in one.inputs[:_INPUTS]]
    more = sum(count for _, count in one.inputs[_INPUTS:])
    return f" ({', '.join([*told, f'{more:,} of others'] if more else told)})"


def _many_of(amount: str, word: str) -> str:
    """Write an amount that is text, and its noun.

    Examples
    --------
    >>> _many_of("1", "core"), _many_of("0.5 to 1", "core")
    ('1 core', '0.5 to 1 cores')
    """
    return f"{amount} {word}" if amount == "1" else f"{amount} {word}s"


def _range(one: Advice) -> str:
    low, high = one.resource.text(one.least), one.resource.text(one.most)
    return low if low == high else f"{low} to {high}"


def rungs(one: Advice) -> tuple[float, ...]:
    """Give the request and what to ask for after each kill."""
    return () if one.request is None else (one.request, *one.retries)
