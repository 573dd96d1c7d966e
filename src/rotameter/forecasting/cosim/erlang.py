"""Erlang's formula: what a queue of random arrivals and many servers waits on average."""

from __future__ import annotations

__all__ = ["mean_wait_s"]


def mean_wait_s(arrivals_per_s: float, service_s: float, workers: int) -> float:
    r"""Give the mean wait of the M/M/c queue (Erlang C).

    With the offered load :math:`a = \lambda s`, the probability of waiting is
    :math:`C = B / (1 - (a/c)(1 - B))` where Erlang's :math:`B` follows from
    :math:`1/B_k = 1 + (k/a)\,(1/B_{k-1})`, and the mean wait is :math:`C s / (c - a)`.

    Parameters
    ----------
    arrivals_per_s, service_s : float
    workers : int

    Returns
    -------
    float
        Infinite where more comes than can be served.

    Examples
    --------
    >>> mean_wait_s(0.5, 1.0, 1), mean_wait_s(2.0, 1.0, 2)
    (1.0, inf)
    """
    load = arrivals_per_s * service_s
    if load >= workers:
        return float("inf")
    if load == 0:
        return 0.0
    inverse = 1.0
    for k in range(1, workers + 1):
        inverse = 1.0 + inverse * k / load
    blocked = 1.0 / inverse
    waits = blocked / (1.0 - load / workers * (1.0 - blocked))
    return waits * service_s / (workers - load)
