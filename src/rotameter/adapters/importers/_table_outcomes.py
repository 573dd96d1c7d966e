"""States and exit codes as outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_names import plain

__all__ = ["decode_exit", "ended_at_limit", "outcome_of"]

_WORDS = {
    "ok": "ok success successful succeeded completed complete done finished passed pass exited "
    "ended cd",
    "failed": "failed fail failure error errored crashed crash exit f broken bad",
    "oom": "oom out_of_memory outofmemory oom_killed oomkilled memory_limit memlimit "
    "memory_exceeded out_of_me",
    "timeout": "timeout timed_out timedout time_limit time_out walltime deadline to runlimit",
    "preempted": "preempted preempt evicted eviction pr",
    "worker_lost": "node_fail node_failure worker_lost lost worker_died node_died nf boot_fail",
    "cancelled": "cancelled canceled cancel aborted abort removed deleted killed revoked skipped "
    "terminated stopped ca upstream_failed",
    "cached": "cached cache_hit",
    "rescheduled": "rescheduled requeued requeue rerun resubmitted restarted",
    "running": "running run executing active started in_progress r",
    "unknown": "pending queued waiting idle held suspended submitted new ready scheduled created "
    "unknown pd none paused blocked",
}
_STATES = {word: outcome for outcome, words in _WORDS.items() for word in words.split()}
_BOOLEANS = {"true": "ok", "false": "failed"}
# These say that it is over, not how: an exit code knows better.
_NEUTRAL = frozenset(["completed", "complete", "done", "finished", "exited", "ended"])
# These say that something ended it, not who did: 137 and the like are a failure.
_ENDED = frozenset(["killed", "terminated", "stopped", "aborted", "abort"])
_SIGNALS = 65
_KILLS = (9, 15)  # what PBS sends at the end of the time asked for, one after the other


def outcome_of(
    states: Sequence[str | None],
    exit_code: int | None,
    signal: int | None,
    own: Mapping[str, str],
    exits: Mapping[str, str],
) -> tuple[str, str | None, str | None]:
    """Give (outcome, its kind, a state that is not understood).

    Parameters
    ----------
    states : sequence of str or None
        What the state columns say; the first that is understood counts.
    exit_code, signal : int, optional
        How the process ended; decide where no state says more.
    own, exits : mapping
        What the mapping says on states (in small letters) and exit codes.

    Examples
    --------
    >>> outcome_of(["COMPLETED"], 0, None, {}, {}), outcome_of(["Done"], 3, None, {}, {})
    (('ok', 'reported', None), ('failed', 'reported', None))
    >>> outcome_of(["WEIRD"], 0, None, {}, {}), outcome_of([None], 1, None, {}, {"1": "oom"})
    (('unknown', None, 'WEIRD'), ('oom', 'reported', None))
    >>> outcome_of(["Killed"], 137, 9, {}, {}), outcome_of(["Killed"], None, None, {}, {})
    (('failed', 'reported', None), ('cancelled', 'reported', None))
    """
    by_exit = None
    if exit_code is not None or signal is not None:
        bad = bool(exit_code) or bool(signal)
        by_exit = exits.get(str(exit_code), "failed" if bad else "ok")
    strange = None
    for state in states:
        if state is None:
            continue
        word = plain(state)
        said = own.get(state.casefold()) or own.get(word)
        if said is None:
            said = _STATES.get(word) or _BOOLEANS.get(word)
            if said is None and word.startswith(("cancelled", "canceled")):
                said = "cancelled"
        if said is None:
            strange = strange or state
            continue
        if word in _NEUTRAL and said == "ok" and by_exit not in (None, "ok"):
            return by_exit or said, "reported", None
        if said == "failed" and by_exit not in (None, "ok", "failed"):
            return by_exit or said, "reported", None
        if word in _ENDED and said == "cancelled" and by_exit not in (None, "ok"):
            return by_exit or said, "reported", None
        return said, "reported", None
    # A code of 0 does not tell what a state means that nobody knows; another does.
    if by_exit is not None and (strange is None or by_exit != "ok"):
        return by_exit, "reported", strange
    return "unknown", None, strange


def decode_exit(value: int, coding: str | None) -> tuple[int | None, int | None]:
    """Split an exit status into exit code and signal.

    Examples
    --------
    >>> decode_exit(137, "shell"), decode_exit(271, "pbs"), decode_exit(32512, None)
    ((137, 9), (None, 15), (127, None))
    """
    if coding == "pbs" and 256 < value < 256 + _SIGNALS:
        return None, value - 256
    if coding == "wait" and value & 0x7F:
        return None, value & 0x7F
    if value > 255 and value % 256 == 0 and value < 1 << 16 and coding in (None, "wait"):
        return value // 256, None
    if 128 < value < 128 + _SIGNALS:
        return value, value - 128
    return value, None


def ended_at_limit(columns: dict[str, pa.Array]) -> None:
    """Take a job that a signal ended once its time was up for a timeout: that is inferred.

    Examples
    --------
    >>> columns = {"outcome": ["cancelled"] * 2, "outcome_kind": ["reported"] * 2}
    >>> columns |= {"signal": [15, 15], "wall_s": [605.0, 90.0], "requested_wall_s": [600.0] * 2}
    >>> columns = {name: pa.array(values) for name, values in columns.items()}
    >>> ended_at_limit(columns)
    >>> columns["outcome"].to_pylist(), columns["outcome_kind"].to_pylist()
    (['timeout', 'cancelled'], ['inferred', 'reported'])
    """
    if not {"outcome", "outcome_kind", "signal", "wall_s", "requested_wall_s"} <= columns.keys():
        return
    killed = pc.is_in(columns["signal"], value_set=pa.array(_KILLS, pa.int64()))
    plainly = pc.is_in(columns["outcome"], value_set=pa.array(["cancelled", "failed"]))
    up = pc.greater_equal(columns["wall_s"], columns["requested_wall_s"])
    found = pc.fill_null(pc.and_(pc.and_(killed, plainly), up), False)
    columns["outcome"] = pc.if_else(found, "timeout", columns["outcome"])
    columns["outcome_kind"] = pc.if_else(found, "inferred", columns["outcome_kind"])
