"""``rotameter plugins``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from rotameter import plugins as known
from rotameter.cli.plugins import plugins
from rotameter.errors import BadPlugin, UnknownPlugin


def call(*words: str) -> Result:
    result = CliRunner().invoke(plugins, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_words_and_json() -> None:
    text = call("importers").stdout
    assert text.startswith("importers\n") and "Reads SWF logs." in text
    assert call("importer").stdout == text
    document = json.loads(call("--json").stdout)
    assert document["schema"] == 1
    row = next(r for r in document["plugins"] if r["name"] == "swf")
    assert row["loads"] and row["module"] == "rotameter.adapters.importers.swf"
    assert {r["kind"] for r in document["plugins"]} >= {"importers", "exporters", "advisors"}
    with pytest.raises(UnknownPlugin, match="no plug-in kind"):
        call("gadgets")


def test_one_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    real = known.get

    def get(kind: str, name: str) -> object:
        if name == "swf":
            raise BadPlugin("planted trouble", hint="none")
        return real(kind, name)

    monkeypatch.setattr(known, "get", get)
    assert "does not load: planted trouble" in call("importers").stdout
    row = next(r for r in json.loads(call("importers", "--json").stdout)["plugins"]
               if r["name"] == "swf")  # fmt: skip
    assert row["loads"] is False and row["problem"] == "planted trouble"
