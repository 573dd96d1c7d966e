"""DaYu's measurements of HDF5: ``<pid>-vfd_data_stat.json`` and ``<pid>-vol_data_stat.json``.

DaYu (https://github.com/candiceT233/dayu-tracker, CLUSTER 2024) writes two files a process: the
VFD one says, per opening of a file, what was moved for each dataset (bytes, calls, pages, data or
metadata); the VOL one says what each dataset is and when it was used. Beside them lie
``task_order_list.json`` and ``*-task_to_file.json``. All of one folder is one run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rotameter.adapters.importers._dayu_emit import emit
from rotameter.adapters.importers._dayu_json import Damage, records, whole
from rotameter.adapters.importers._dayu_state import State
from rotameter.errors import BadInput, UsageError

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile
    from rotameter.values import Head

__all__ = ["Importer"]

_FILE = re.compile(r'"file-\d+"\s*:\s*\{\s*"')
_OWN = re.compile(
    r'"(?:file_read_cnt|file_intent|H5FD_MEM_\w+|dset_name|datasets|ds_accessed|VOL-Overhead'
    r'|VFD-Overhead)[("]'
)
_LISTS = re.compile(r'"(?:input|output)"\s*:\s*\[')
_ORDER = re.compile(r'\s*\{\s*"\d{1,6}"\s*:\s*"')
_PID = re.compile(r"(?:^|/)(\d+)[-_]v(?:fd|ol)[^/]*$")
_BESIDE = re.compile(r"[-_]vol[^/]*$|task_to_file[^/]*$|task_order_list[^/]*$")
_VFD = frozenset(("file_read_cnt", "file_write_cnt", "io_bytes", "data", "metadata"))
_OBJECTS = ("files", "datasets")


class Importer:
    """Reads DaYu's files; see the page of the format for the option ``objects``."""

    name = "dayu"
    engine = "dayu"
    options: frozenset[str] = frozenset({"objects"})

    def __init__(self) -> None:
        self._state = State()
        self._refused = 0
        self._objects = "files"

    def sniff(self, head: Head) -> float:
        """Look for records of files with DaYu's own keys, or for its lists by name and shape."""
        text = head.text
        if _FILE.search(text) and _OWN.search(text):
            return 0.95
        name = head.name.lower().removesuffix(".gz")
        if name.endswith("task_to_file.json") and '"io_cnt"' in text and _LISTS.search(text):
            return 0.9
        return 0.8 if name.endswith("task_order_list.json") and _ORDER.match(text) else 0.0

    def read(self, file: InputFile, build: Builder, **options: Any) -> None:
        """Read one file.

        Raises
        ------
        BadInput
            If no record is in it.
        UsageError
            If ``objects`` is neither ``files`` nor ``datasets``.
        """
        self._objects = str(options.get("objects", "files"))
        if self._objects not in _OBJECTS:
            raise UsageError(
                f"objects cannot be {self._objects[:40]!r}", hint=f"one of: {', '.join(_OBJECTS)}"
            )
        name = file.name.replace("\\", "/")
        folder = name.rpartition("/")[0]
        match = _PID.search(name)
        pid = match[1] if match else None
        taken = refused = 0
        self._state.begin()
        for line, found in records(file.read_text()):
            kept, bad = self._take(found, pid, folder, build)
            taken += kept
            for reason in bad:
                refused += 1
                build.records_in += 1
                build.reject(file.name, line, reason)
        self._refused += refused
        # The object level has no bytes, and neither have lists.
        if refused and _BESIDE.search(name) is None:
            self._state.lose(pid, folder)
        if not taken:
            raise BadInput(f"{file.name} holds no records of DaYu", hint="check the file")

    def finish(self, build: Builder) -> None:
        """Give tasks, flows, objects and facts of datasets."""
        emit(self._state, build, by_dataset=self._objects == "datasets")
        build.records_out = len(self._state.tasks)
        build.merged += build.records_in - self._refused - build.records_out

    def _take(
        self, found: Any, pid: str | None, folder: str, build: Builder
    ) -> tuple[int, list[str]]:
        """Take in one object of a file; give how many records were, and what is wrong with others.

        One object holds a file or more (``file-1``, …) and the state of the task (``Task``), or is
        one of the lists beside the measurements.
        """
        if not isinstance(found, dict):
            return 0, ["not a record" if not isinstance(found, Damage) else "not whole"]
        state, taken, bad = self._state, 0, list[str]()
        given = found.get("Task")
        info: dict[str, Any] = given if isinstance(given, dict) else {}
        number = whole(info.get("task_id"))
        own = pid if pid is not None else (str(number) if number is not None else None)
        for key, record in found.items():
            if key == "Task":
                continue
            if key.startswith("file-") and isinstance(record, dict):
                vfd = not _VFD.isdisjoint(record)
                ok = state.vfd(record, info, own, folder) if vfd else state.vol(record, own, folder)
            elif isinstance(record, dict) and ("input" in record or "output" in record):
                ok = state.lists(key, record, folder)
            elif isinstance(record, str) and key.isdecimal() and len(key) < 9:
                state.orders[folder, record.strip()] = int(key)
                ok = True
            else:
                ok = False
            if ok:
                taken += 1
                build.records_in += 1
            else:
                bad.append(f"{key[:40]}: nothing usable")
        return taken + (1 if given is not None and not found.keys() - {"Task"} else 0), bad
