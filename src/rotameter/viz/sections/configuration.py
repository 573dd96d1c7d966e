"""Storage configurations that were priced: the advised one, the next best, and constant ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rotameter.profiler.storing.advice import Advice, Choice

__all__ = ["configuration"]


def configuration(advice: Advice) -> dict[str, Any]:
    """Give the facts of the section; every choice once, the shortest first.

    Examples
    --------
    >>> from rotameter.profiler.storing.advice import Advice
    >>> none = Advice(None, (), None, (), None, None, None, 0, True, (), ("no bytes",))
    >>> configuration(none)["choices"], configuration(none)["notes"]
    ([], ['no bytes'])
    """
    best, baseline = advice.best, advice.baseline
    shown: dict[Any, Choice] = {}
    for choice in (*advice.ranked, *advice.constants, *([baseline] if baseline else [])):
        shown.setdefault((choice.stores, choice.nodes, choice.tasks_per_node), choice)
    rule = advice.rule
    return {
        "text": advice.to_text().split("\n")[0],
        "saving_s": advice.saving_s,
        "clear": advice.clear,
        "rule": None
        if rule is None
        else {
            "text": rule.to_text(),
            "configurations": rule.n,
            "regret_ratio": rule.regret_ratio,
            "worst_ratio": rule.worst_ratio,
        },
        "priced": advice.evaluated,
        "all_priced": advice.exhaustive,
        "choices": [
            {
                "stores": [{"stage": stage, "store": store} for stage, store in choice.stores],
                "nodes": choice.nodes,
                "tasks_per_node": choice.tasks_per_node,
                "makespan_s": choice.makespan_s,
                "staging_s": choice.staging_s,
                "interval80": list(choice.interval80) if choice.interval80 else None,
                "advised": choice == best,
                "home": choice == baseline,
                "flags": list(choice.flags),
            }
            for choice in sorted(shown.values(), key=lambda c: (c.makespan_s, c != best))
        ],
        "notes": list(advice.notes),
    }
