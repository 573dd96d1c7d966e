"""Waste: what was held, and where it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rotameter.profiler.ledger import ledger

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["PART_WORDS", "what_was_held"]

PART_WORDS = {
    "useful": "useful",
    "oom_attempts": "attempts killed for memory",
    "failed_attempts": "attempts that failed",
    "worker_lost_attempts": "attempts lost with their worker",
    "unfinished_attempts": "attempts cancelled or without an end",
    "recomputed": "computed again",
    "transfer": "waiting for transfers",
    "disk": "waiting for the disk",
    "paused": "worker paused for memory",
    "idle_before_work": "idle before the first task",
    "idle": "idle between tasks",
    "idle_after_work": "idle after the last task",
    "unused": "memory not used",
    "over_requested": "asked for and not used",
    "unmeasured": "use not measured",
}


def what_was_held(trace: Trace) -> dict[str, Any] | str:
    """Give each account of what was held, in parts that sum to it.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict or str
        ``accounts``: name, unit, held, ``parts`` (part, words, amount, ratio of held), how; the
        accounts that could not be made have held None and no parts. Or why there is none.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> worker = {"worker": "w", "started_ns": 0, "ended_ns": 4 * 10**9, "cores": 2.0}
    >>> task = {"task_id": "a", "group": "g", "worker": "w", "outcome": "ok", "started_ns": 0,
    ...         "ended_ns": 3 * 10**9}
    >>> book = what_was_held(Trace.from_tables({"workers": [worker], "tasks": [task]}))
    >>> account = book["accounts"][0]
    >>> account["held"], sum(part["amount"] for part in account["parts"])
    (8.0, 8.0)
    """
    book = ledger(trace)
    held = [account for account in book.accounts if account.held]
    if not held:
        return (
            "neither workers' lives with cores or memory nor requests with a duration were recorded"
        )
    accounts = []
    for account in book.accounts:
        whole = account.held
        amounts = {"useful": account.useful, **dict(account.wasted)} if whole else {}
        # Where nothing was measured, what is "useful" is not known; its amount is then 0.
        parts = [
            {
                "part": part,
                "words": PART_WORDS.get(part, part.replace("_", " ")),
                "amount": amount,
                "ratio": amount / whole if whole else None,
            }
            for part, amount in amounts.items()
            if amount
        ]
        accounts.append(
            {
                "name": account.name,
                "unit": account.unit,
                "held": whole,
                "measured": account.measured,
                "known": account.known,
                "of": account.of,
                "parts": parts,
                "how": account.how,
            }
        )
    return {"accounts": accounts, "notes": list(book.notes)}
