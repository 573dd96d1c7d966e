"""The error tree: each error says what happened, where, and what to do next.

::

    RotameterError                  exit_code 1
    ├── UsageError                  exit_code 2   the call's words are off
    ├── TraceError                  exit_code 1
    │   ├── TraceNotFound                         no such path
    │   ├── NotATrace               exit_code 4   the path is something else
    │   ├── EmptyTrace              exit_code 4   nothing usable in it
    │   ├── SchemaMismatch          exit_code 4   written by a newer rotameter
    │   └── WouldOverwrite                        the output exists
    ├── PluginError
    │   ├── UnknownPlugin           exit_code 2
    │   └── BadPlugin
    ├── InputError
    │   ├── BadInput        exit_code 4   a file of another tool cannot be read
    │   └── UnknownFormat   exit_code 4   no importer knows it
    ├── AttachError                               a cluster could not be traced
    ├── PolicyError                               an allocator's or policy's settings are off
    ├── FidelityError                             a replay is too far from the record to build on
    └── MissingDependency           exit_code 5   carries the pip line

A tracer, plug-in or policy never raises one of these into the user's workflow: it counts,
warns once (`TracerWarning`) and falls back.
"""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "AttachError",
    "BadInput",
    "BadPlugin",
    "EmptyTrace",
    "FidelityError",
    "InputError",
    "MissingDependency",
    "NotATrace",
    "PluginError",
    "PolicyError",
    "RotameterError",
    "SchemaMismatch",
    "TraceError",
    "TraceNotFound",
    "TraceWarning",
    "TracerWarning",
    "UnknownFormat",
    "UnknownPlugin",
    "UsageError",
    "WouldOverwrite",
]


class RotameterError(Exception):
    """Base of all expected errors.

    Parameters
    ----------
    message : str
        What happened and where, in one line.
    hint : str, optional
        What to do next, in one line.

    Examples
    --------
    >>> error = TraceNotFound("no such trace: run.rmt", hint="check the path")
    >>> str(error), error.hint, error.exit_code
    ('no such trace: run.rmt', 'check the path', 1)
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(RotameterError):
    """The call's arguments do not fit."""

    exit_code = 2


def no_folder(folder: Path) -> UsageError:
    """Give the error of a file that is to be written where there is no folder.

    Examples
    --------
    >>> error = no_folder(Path("/no/such/place"))
    >>> str(error), error.hint
    ('no such folder: /no/such/place', 'create it first')
    >>> error = no_folder(Path("/dev/null/reports"))
    >>> str(error), error.hint
    ('/dev/null is not a folder', 'choose another place')
    """
    for part in (folder, *folder.parents):
        if part.is_dir():
            break
        if part.exists() or part.is_symlink():
            return UsageError(f"{part} is not a folder", hint="choose another place")
    return UsageError(f"no such folder: {folder}", hint="create it first")


class TraceError(RotameterError):
    """Something is wrong with a trace."""


class TraceNotFound(TraceError):
    """No such path."""


class NotATrace(TraceError):
    """The path exists and holds no trace."""

    exit_code = 4


class EmptyTrace(TraceError):
    """A trace that holds nothing usable."""

    exit_code = 4


class SchemaMismatch(TraceError):
    """The trace was written with a schema this version cannot read."""

    exit_code = 4


class WouldOverwrite(TraceError):
    """The output exists and ``--force`` was not given."""


class PluginError(RotameterError):
    """Something is wrong with a plug-in."""


class UnknownPlugin(PluginError):
    """No plug-in of that name; the message lists the known ones."""

    exit_code = 2


class BadPlugin(PluginError):
    """A plug-in could not be loaded or is not of its kind."""


class InputError(RotameterError):
    """Something is wrong with a file of another tool."""


class BadInput(InputError):
    """A file cannot be opened, is damaged, too large, or holds nothing usable."""

    exit_code = 4


class UnknownFormat(InputError):
    """No importer knows the file."""

    exit_code = 4


class PolicyError(RotameterError):
    """An allocator or policy was given what it cannot work with, or gave what cannot be used."""


class FidelityError(RotameterError):
    """The replay of a recorded run is too far from the record: no what-if is built on it."""


class AttachError(RotameterError):
    """A cluster could not be traced."""


class MissingDependency(RotameterError):
    """An optional dependency is needed; the hint carries the pip line."""

    exit_code = 5


class TraceWarning(UserWarning):
    """A trace was read with a loss that was recovered from."""


class TracerWarning(UserWarning):
    """The tracer fell back; the traced run is unaffected."""
