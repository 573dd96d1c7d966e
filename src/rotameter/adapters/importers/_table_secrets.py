"""Texts of tables without what looks like a secret; different ids stay different."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.live.redact import clean_name, clip, redact

__all__ = ["clean_texts", "cleaned", "safe_name"]

_LIMIT = 8_000  # of `redact`: what lies behind it has not been looked at
# Whatever `redact` may change has one of these in it; most ids have none and are left at once.
_SUSPECT = (
    r"(?i)://|-----BEGIN|pass(word|wd|phrase|code)|secret|token|key|authorization|authentication|"
    r"bearer|basic|credential|session|signature|cookie|(^|[^a-z])(pass|pwd|pw|auth|sig|sas|pin)|"
    r"AKIA|ASIA|AGPA|AIDA|AROA|ANPA|gh[pousr]_|github_pat_|glpat-|"
    r"(^|[^a-z0-9])[spr]k[-_]|xox|AIza|ya29\.|hf_|npm_|pypi-|dop_v1_|SG\.|eyJ"
)
_CLEANERS: dict[str, Callable[[str], str]] = {"error": redact, "group": clean_name}
_MARKED = re.compile(r"#[0-9a-f]{12}\Z")


def safe_name(text: str) -> str:
    """Take secrets out of a name; a short hash behind keeps different names different.

    A name without a secret stays as it is, and so does one that was cleaned before.

    Examples
    --------
    >>> safe_name("align-1"), safe_name("run --pw=a") == safe_name("run --pw=b")
    ('align-1', False)
    >>> safe_name(safe_name("s3://ann:pw@b/x")) == safe_name("s3://ann:pw@b/x")
    True
    """
    if len(text) > _LIMIT:
        return clean_name(text)
    marked = _MARKED.search(text)
    base = text[: marked.start()] if marked else text
    clean = redact(base)
    if clean == clip(base, _LIMIT):  # but for control characters, which are no secret
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{clean}#{digest}"


def cleaned(column: pa.Array, clean: Callable[[str], str] = safe_name) -> pa.Array:
    """Clean a column of texts; a column without anything suspect comes back as it is."""
    if not pa.types.is_string(column.type):
        return column
    suspect = pc.or_(
        pc.match_substring_regex(column, _SUSPECT), pc.greater(pc.utf8_length(column), _LIMIT)
    )
    if not pc.any(suspect).as_py():
        return column
    made: dict[str, str] = {}
    out: list[str | None] = []
    for text, look in zip(column.to_pylist(), suspect.to_pylist(), strict=True):
        if not look:
            out.append(text)
            continue
        if text not in made:
            made[text] = clean(text)
        out.append(made[text])
    return pa.array(out, pa.string())


def clean_texts(columns: dict[str, pa.Array]) -> None:
    """Keep secrets out: names and texts of others go through the redactor, each once.

    Examples
    --------
    >>> columns = {"error": pa.array(["bad --password=x"]), "wall_s": pa.array([1.0])}
    >>> clean_texts(columns)
    >>> "=x" in columns["error"][0].as_py()
    False
    """
    for name, column in columns.items():
        if name in _CLEANERS and column.null_count < len(column):
            coded = column.dictionary_encode()
            texts = [_CLEANERS[name](text) for text in coded.dictionary.to_pylist()]
            columns[name] = pc.take(pa.array(texts, pa.string()), coded.indices)
        elif pa.types.is_string(column.type):
            columns[name] = cleaned(column)
