"""The page on allocators: its example does what it says, and it names every allocator."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from rotameter.allocator.baselines import ALLOCATORS

PAGE = Path(__file__).parents[2] / "docs/explanation/allocators.md"


def test_the_example_does_what_the_page_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 2
    flags = doctest.NORMALIZE_WHITESPACE
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(example, out=told.append)
    assert not told, "".join(told)


def test_every_allocator_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    plain = [name for name in ALLOCATORS if "+" not in name]
    missing = [name for name in plain if f"`{name.removesuffix('-deterministic')}`" not in text]
    assert not missing
