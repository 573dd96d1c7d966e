"""A GPU timeline without names: its figures stay, its kernels, processes and files get pseudonyms.

A key or a text stays when every word of it is of a closed list: names of figures and the sentences
that rotameter itself makes of them. A device keeps its model where that is one of the public ones.
Anything else is left out, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rotameter.adapters._anonymise_words import words

__all__ = ["DEVICE_LABEL", "Timeline"]

DEVICE_LABEL = re.compile(r"device (?:\d{1,6}|unknown)(?: stream (?:\d{1,20}|unknown))?")
"""What rotameter calls devices and their streams: numbers that name nobody."""

_WORDS = frozenset(
    words(
        "a activity after all and another are as async at before below between block blocks bound "
        "breakdown busiest busy by bytes call causes classes communication compute computed "
        "computes computing copies copy count data device devices different do does dtod dtoh "
        "events exactly exchanges exposed far fastest faster fewer for fully full gaps gpu grid "
        "has hidden host hosts how htod htoh idle in inside is it its kernel kernels kind known "
        "largest lasts launch launched launches launching left limit limited limiter longer "
        "longest many max mean measurable memory memset min mode mostly moves multiprocessors "
        "nearly needs no none not occupancy of on op operations or other others out over overlap "
        "overlapped pageable part path peer per pinned managed points ptop queue rank ranks ran "
        "recorded records registers right run s same saving say schema series share shared shares "
        "short sleep slower span spans start stepped steps step stream streams sync than that the "
        "then they threads time times to together top total trace transfers unknown utilisation "
        "wait waited waiting waits was were which while whole why window with within words work "
        "works"
    )
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?")
_MARKS = re.compile(r"[\s_+\-.,:;%()]+")
_MODELS = frozenset(
    words(
        "nvidia amd intel tesla geforce quadro titan rtx gtx ti super radeon instinct graphics pro "
        "data center gpu max flex arc pcie nvl hbm3 hbm2e hbm3e ada generation grace blackwell "
        "hopper ampere a2 a10 a10g a16 a30 a40 a100 a800 a4000 a5000 a6000 h20 h100 h200 h800 "
        "b100 b200 b300 gb10 gb200 gb300 gh200 l4 l20 l40 l40s p4 p40 p100 v100 v100s t4 k80 m60 "
        "mi50 mi60 mi100 mi210 mi250 mi250x mi300 mi300a mi300x mi325x mi350x mi355x"
    )
)
_PART = re.compile(r"\d{1,4}|\d{1,3}gb|sxm\d?|pg\d{3}", re.I)
_DEPTH = 12


class Timeline:
    """Makes timelines nameless.

    Parameters
    ----------
    worker, name, path, device : callable
        Give the pseudonym of a process, a kernel, a file and the model of a device.

    Attributes
    ----------
    left_out : int
        How many texts and keys were left out.
    """

    def __init__(
        self,
        worker: Callable[[str], str],
        name: Callable[[str], str],
        path: Callable[[str], str],
        device: Callable[[str], str],
    ) -> None:
        self.left_out = 0
        self._device = device
        self._renamed = {"worker": worker, "name": name, "file": path}

    def of(self, found: Any) -> dict[str, Any]:
        """Give a timeline without names.

        Examples
        --------
        >>> none = str.upper
        >>> made = Timeline(none, none, none, none)
        >>> made.of({"ranks": [{"worker": "ann", "busy_s": 1.5, "words": "for ann", "ann": 1}]})
        {'ranks': [{'worker': 'ANN', 'busy_s': 1.5, 'words': None}]}
        >>> made.left_out
        2
        """
        made = self._plain(found, "", 0)
        return made if isinstance(made, dict) else {}

    def _plain(self, value: Any, key: str, depth: int) -> Any:
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self._text(value, key)
        if depth < _DEPTH and isinstance(value, Mapping):
            return self._mapping(value, key, depth)
        if depth < _DEPTH and isinstance(value, (list, tuple)):
            return [self._plain(item, key, depth + 1) for item in value]
        self.left_out += 1
        return None

    def _mapping(self, value: Mapping[Any, Any], inside: str, depth: int) -> dict[str, Any]:
        made = {}
        for key, item in value.items():
            if not isinstance(key, str) or not (key in self._renamed or _says_nothing(key)):
                self.left_out += 1
            elif key == "name" and inside == "devices" and isinstance(item, str):
                made[key] = item if _is_public(item) else self._device(item)
            else:
                made[key] = self._plain(item, key, depth + 1)
        return made

    def _text(self, text: str, key: str) -> str | None:
        rename = self._renamed.get(key)
        if rename is not None:
            return rename(text)
        if _says_nothing(text):
            return text
        self.left_out += 1
        return None


def _says_nothing(text: str) -> bool:
    """Whether a text is made of words that name nobody, and numbers."""
    parts = _MARKS.split(_NUMBER.sub(" ", text))
    return all(part.lower() in _WORDS for part in parts if part)


def _is_public(model: str) -> bool:
    """Whether a device's model is made of the words of public ones."""
    parts = re.split(r"[\s\-/()]+", model)
    return all(part.lower() in _MODELS or _PART.fullmatch(part) for part in parts if part)
