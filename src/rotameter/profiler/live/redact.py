"""Keep secrets out of records: what looks like one is replaced before anything is written.

Taken out are the user information, query and fragment of URLs, values that carry a known key's
shape (cloud keys, access tokens, JSON web tokens, PEM blocks), values named as a secret
(``password=…``, ``token: …``) and long random-looking strings next to such a name; and what only
its place tells (a web hook's path, ``curl -u``, "the password is …").
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

from rotameter.profiler.live.told_secrets import (
    GONE,
    in_command,
    in_path,
    is_sign_in,
    takes_password,
)

__all__ = [
    "clean_name",
    "clip",
    "first_line",
    "has_key_shape",
    "has_named_value",
    "redact",
    "redact_command",
]

NAME_LIMIT = 300
TEXT_LIMIT = 8_000

# Every repetition is bounded or starts at one place only: texts are hostile, and a pattern that
# goes over them again from each position would stop the traced thread for minutes.
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{1,60}-----.*?(?:-----END [A-Z0-9 ]{1,60}-----|\Z)", re.S)
_URL = re.compile(
    r"(?<![A-Za-z0-9+.\-])([A-Za-z][A-Za-z0-9+.\-]{0,30})://([^\s\"'<>\\|^`{}]+)", re.A
)
_SHAPES = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
      (?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{12,}         # cloud access keys
    | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,}
    | glpat-[A-Za-z0-9_\-]{16,}
    | (?:sk|pk|rk)[-_](?:[A-Za-z0-9]{1,20}[-_]){0,4}[A-Za-z0-9]{16,}
    | xox[abeoprs]-[A-Za-z0-9\-]{8,}
    | AIza[A-Za-z0-9_\-]{30,}
    | ya29\.[A-Za-z0-9_\-.]{16,}
    | hf_[A-Za-z0-9]{16,} | npm_[A-Za-z0-9]{16,} | pypi-[A-Za-z0-9_\-]{16,}
    | dop_v1_[a-f0-9]{16,} | SG\.[A-Za-z0-9_\-]{16,100}\.[A-Za-z0-9_\-]{16,}
    | eyJ[A-Za-z0-9_\-]{8,2000}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*)?   # web tokens
    )
    """,
    re.X,
)
# Short words count only where no letter stands before them (compass, design, basaltic).
_SHORT = r"(?<![A-Za-z])(?:pass|pwd|pw|auth|sig|sas|pin)"
_WORDS = (
    r"pass(?:word|wd|phrase|code)|secret|token|api[_\-]?key|access[_\-]?key|private[_\-]?key|"
    r"account[_\-]?key|authorization|authentication|bearer|credentials?|session[_\-]?(?:id|key)|"
    r"signature|cookie"
)
_AFTER = r"(?:[_\-.][A-Za-z0-9_\-.]{0,24}|[0-9]{1,4}|(?-i:[A-Z])[A-Za-z0-9]{0,24})?"
_REASONS = r"(?:Permission|Access)\ denied|No\ such\ file|(?:Is|Not)\ a\ directory"
"""What the system says of a file; behind a file's name it is no secret."""
_NAMED = re.compile(
    rf"""
    (?P<name>(?:{_WORDS}|{_SHORT}){_AFTER}["']?)(?P<sep>\s{{0,3}}(?:=>|:=|=|:)\s{{0,3}})
    (?!{_REASONS})
    (?P<value>"[^"\n]*"?|'[^'\n]*'?|(?:(?:bearer|basic|digest|token)\s{{1,3}})?[^\s,;&"'()\[\]{{}}<>]+)
    """,
    re.X | re.I,
)
_OPTION_VALUE = re.compile(rf"(-(?:{_WORDS}|{_SHORT}){_AFTER}\s{{1,3}})(?![\-\s])[^\s\"']+", re.I)
_BEARER = re.compile(r"\b(bearer|basic)\s{1,3}[A-Za-z0-9+/=_\-.~]{8,}", re.I | re.A)
_NEAR = re.compile(rf"(?:{_WORDS}|{_SHORT}|key)", re.I)
_LONG = re.compile(r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{24,}={0,2}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NEAR_CHARACTERS = 60
_SPACE = re.compile(r"\s")


def has_key_shape(text: str) -> bool:
    """Tell, sooner than :func:`redact`, whether a value of a known key's shape is in a text.

    Examples
    --------
    >>> has_key_shape("load-AKIAIOSFODNN7EXAMPLE"), has_key_shape("DataFrame-1")
    (True, False)
    """
    return _SHAPES.search(text) is not None


def has_named_value(text: str) -> bool:
    """Tell, sooner than :func:`redact`, whether a value that is named a secret is in a text.

    Examples
    --------
    >>> has_named_value("password: hunter2"), has_named_value("at-12:30")
    (True, False)
    """
    return _NAMED.search(text) is not None


def _url(match: re.Match[str]) -> str:
    scheme, rest = match.groups()
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    authority = authority.rpartition("@")[2]
    if scheme.lower() in ("http", "https"):
        path = in_path(authority, path)
    if "@" in path:
        # A password with a slash in it puts its end into the path.
        path = path.rpartition("@")[2]
    return f"{scheme}://{authority}{slash}{path}"


def _random_looking(text: str) -> bool:
    kinds = sum(bool(re.search(p, text)) for p in ("[a-z]", "[A-Z]", "[0-9]"))
    return kinds >= 2 and len(set(text)) >= 10


def _long(match: re.Match[str]) -> str:
    text = match.group()
    before = match.string[max(0, match.start() - _NEAR_CHARACTERS) : match.start()]
    return GONE if _random_looking(text) and _NEAR.search(before) else text


def _named(match: re.Match[str]) -> str:
    value = match["value"]
    # A URL under a secret's name keeps its place: it has been cleaned on its own.
    return f"{match['name']}{match['sep']}{GONE}" if value != GONE else match.group()


def redact(text: object) -> str:
    """Take out of a text what looks like a secret; never raises, and twice does what once does.

    Parameters
    ----------
    text : object
        Made a string first.

    Returns
    -------
    str
        Control characters become spaces; at most 8,000 characters are kept.

    Examples
    --------
    >>> redact("s3://ann:pw@bucket/a.parquet?X-Sig=abc failed, password=hunter2")
    's3://bucket/a.parquet failed, password=[redacted]'
    """
    try:
        result = text if isinstance(text, str) else str(text)
    except Exception:
        return GONE
    try:
        result = _head(result)
        result = _PEM.sub(GONE, result)
        result = _CONTROL.sub(" ", result)
        return _settled(result)
    except Exception:
        return GONE


def _head(text: str) -> str:
    """Cut a long text, and not inside an address: its password would lose the ``@`` behind it."""
    if len(text) <= TEXT_LIMIT:
        return text
    head = text[:TEXT_LIMIT]
    at = head.rfind("://")
    return head[:at] if at >= 0 and _SPACE.search(head, at) is None else head


def _settled(text: str) -> str:
    """Apply the rules until nothing changes (one may uncover what another takes out)."""
    for _ in range(5):
        before = text
        text = _URL.sub(_url, text)
        text = _SHAPES.sub(GONE, text)
        text = _BEARER.sub(rf"\1 {GONE}", text)
        text = _NAMED.sub(_named, text)
        text = _OPTION_VALUE.sub(rf"\1{GONE}", text)
        text = in_command(text)
        text = _LONG.sub(_long, text)
        if text == before:
            return text
    return GONE


def clip(name: object, limit: int = NAME_LIMIT) -> str:
    r"""Shorten a name to ``limit`` characters so that different names stay different.

    Control characters become spaces, the tail of a long name becomes a hash.

    Examples
    --------
    >>> clip("a" * 10_000) == clip("a" * 10_001), len(clip("a" * 10_000))
    (False, 300)
    >>> clip("two\nlines")
    'two lines'
    """
    try:
        text = name if isinstance(name, str) else str(name)
        clean = _CONTROL.sub(" ", text) if not text.isprintable() else text
        if len(clean) <= limit:
            return clean
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return f"{clean[: limit - 13]}#{digest}"
    except Exception:
        return GONE


@lru_cache(maxsize=4096)
def clean_name(name: str) -> str:
    """Redact and shorten a name that users gave; remembered, names come again and again.

    Examples
    --------
    >>> clean_name("load https://ann:pw@host/x")
    'load https://host/x'
    """
    text = redact(name)
    if len(name) > TEXT_LIMIT:
        # What redact() cut off must still tell two names apart.
        text += hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return clip(text)


def first_line(error: BaseException, *, keep: bool = False) -> str:
    r"""Give an error as ``Type: first line``, redacted; ``keep`` keeps all of its text as it is.

    Examples
    --------
    >>> first_line(ValueError("bad\nlong story"))
    'ValueError: bad'
    """
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:
        return kind
    if keep:
        return f"{kind}: {text}" if text else kind
    # A secret may span lines (a PEM block): look before the cut.
    head = _head(text)
    line = _PEM.sub(GONE, head).strip().split("\n", 1)[0]
    line = clip(redact(line))
    return f"{kind}: {line}" if line else kind


_OPTION = re.compile(rf"-{{1,2}}[\w\-.]{{0,40}}?(?:{_WORDS}|{_SHORT}){_AFTER}", re.I)


def redact_command(argv: Sequence[object]) -> list[str]:
    """Redact a command line, argument by argument.

    Examples
    --------
    >>> redact_command(["run.py", "--password", "hunter2", "--n=3"])
    ['run.py', '--password', '[redacted]', '--n=3']
    """
    result: list[str] = []
    hide, asks = False, False
    for item in argv:
        text = clip(redact(item))
        before = result[-1] if result else ""
        if hide and not text.startswith("-"):
            text = GONE
        elif is_sign_in(before, text):
            text = f"{text.partition(':')[0]}:{GONE}"
        elif asks and text.startswith("-p") and len(text) > 2:
            text = f"-p{GONE}"
        elif asks and before == "-p" and "sshpass" in "".join(result):
            text = GONE
        hide = bool(_OPTION.fullmatch(text))
        asks = asks or takes_password(text)
        result.append(text)
    return result
