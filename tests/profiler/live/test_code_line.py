"""A line of a user's code is kept without what stands in its strings."""

from __future__ import annotations

import time

import pytest

from rotameter.profiler.live.code_line import code_line

LINES = {
    'client.submit(works, "literal-55")': 'client.submit(works, "...")',
    "client.submit(works, b'literal-55', rb'literal-55')": "client.submit(works, b'...', rb'...')",
    'f(f"literal-55{x["literal-55"]}literal-55", y)': 'f(f"...", y)',
    "f(f'{{literal-55', x, '}literal-55')": "f(f'...', x, '...')",
    "f('it\\'s literal-55', x)": "f('...', x)",
    'f("literal-55': 'f("..."',
    'f("""literal-55': 'f("""..."""',
    'x if y else"literal-55"': 'x if y else"..."',
    "df.sum(axis='x', how=\"sum\").compute()": "df.sum(axis='x', how=\"sum\").compute()",
    "random((20000, 20000), chunks=1e6).sum()": "random((20000, 20000), chunks=1e6).sum()",
    "pay(4111111111111111, 0.12345678)": "pay(..., ...)",
    "total = x.compute()  # don't": "total = x.compute()  # don't",
}


@pytest.mark.parametrize("line", LINES)
def test_strings_are_left_out_and_the_shape_stays(line: str) -> None:
    made = code_line([line], 0)
    assert made == LINES[line]
    assert code_line([made], 0) == made


def test_a_string_that_began_before_the_line() -> None:
    lines = ["x = '''a", "literal-55", "'''.join(y.compute()) + 'literal-55'"]
    assert "literal" not in code_line(lines, 1)
    assert code_line(lines, 2) == "...'''.join(y.compute()) + '...'"


def test_an_address_is_cleaned_before_the_line_is_cut() -> None:
    line = "x = y  # " + "a" * 100 + " https://ann:" + "hunter2" * 20 + "@host/x"
    made = code_line([line], 0)
    assert "hunter2" not in made and len(made) <= 160


def test_hostile_lines_are_quick() -> None:
    began = time.perf_counter()
    for text in ('f"{' * 5_000, '"' * 50_001, "'\\" * 20_000, "1" * 100_000, "ab" * 50_000):
        code_line([text], 0)
    assert time.perf_counter() - began < 2
