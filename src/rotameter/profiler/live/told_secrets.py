"""Secrets that only what stands around them tells: web hooks, options of commands, sentences."""

from __future__ import annotations

import re

__all__ = ["GONE", "in_command", "in_path", "is_sign_in", "takes_password"]

GONE = "[redacted]"

# As in redact.py, every repetition is bounded: texts are hostile.
_HOOK = re.compile(r"(?:^|[/.\-_])(?:web)?hooks?(?:[/.\-_:]|$)", re.I)
_HOOKED = re.compile(r"((?:^|/)[\w\-]{0,20}hooks?/).{1,2000}", re.I | re.S | re.A)
_KEYED = re.compile(
    r"((?:^|/)(?:keys?|tokens?|secrets?|passwords?)/)([A-Za-z0-9_\-]{12,200})(?![A-Za-z0-9_\-.])",
    re.I,
)
_BOT = re.compile(r"((?:^|/)bot\d{1,20}):[^/]{1,200}")
_USER = re.compile(
    r"(?<!\S)(-u\s{0,3}|--(?:proxy-)?user[\s=]{1,3})([^\s:\"'=]{1,100}):([^\s\"']{1,400})"
)
# An address without a scheme; a number behind the colon is none.
_BARE = re.compile(
    r"(?<![\w/:.@\-])([A-Za-z][\w.\-]{0,60}):(?!\d{1,20}@|\[)[^\s/@:\"'<>]{1,200}"
    r"@(?=[\w.\-]{1,200}(?::\d{1,5})?(?:[/?\s\"',;)]|$))",
    re.A,
)
_NUMBERS = re.compile(r"\d{1,10}:\d{1,10}")
_CLIENTS = r"mysql\w{0,20}|mariadb[\w\-]{0,20}|sshpass|7z[ar]?|zip|unzip|rar|unrar"
_CLIENT = re.compile(rf"(?:.{{0,200}}[/\\])?(?:{_CLIENTS})(?:\.exe)?", re.I)
_PASS = re.compile(
    rf"(\b(?:{_CLIENTS})\b[^\n]{{0,300}}?\s-p)(?![-\s\[])[^\s\"']{{1,200}}", re.I | re.A
)
_SSHPASS = re.compile(r"(\bsshpass\s{1,3}-p\s{1,3})[^\s\"'\[]{1,200}", re.I | re.A)
_PLAIN = (
    r"(?:a|an|the|in|too|not|no|none|null|now|only|still|being|longer|shorter|invalid|incorrect|"
    r"wrong|missing|required|needed|expired|empty|unset|undefined|unknown|revoked|rejected|"
    r"denied|malformed|set|used|stored|weak|short|long|blank|deprecated|valid|ok|correct|"
    r"disabled|enabled|locked|mandatory|optional|refused|given|given,|ignored|about|all|of)"
)
_SAID = re.compile(
    r"\b((?:pass(?:word|wd|phrase|code)|pwd|secret|token|api[_\- ]?key)\s{1,3}(?:is|was)\s{1,3})"
    rf"(?!{_PLAIN}\b)(?!\[)[^\s,;]{{1,200}}",
    re.I | re.A,
)
_ORACLE = re.compile(
    r"(?<![\w/.])([A-Za-z]\w{0,30})/(?!\[)([^\s/@\"']{1,60})"
    r"@(?=(?://)?[\w.\-]{0,60}(?:tns|ora|orcl|xe|pdb|db)[\w.\-:/]{0,60})",
    re.I | re.A,
)
_ORACLE_CALL = re.compile(
    r"(\b(?:sqlplus|sqlldr|impdp|expdp|oracledb|cx_Oracle)\b[^\n]{0,100}?\s)"
    r"([A-Za-z]\w{0,30})/(?!\[)[^\s/@\"']{1,60}",
    re.I | re.A,
)


def in_path(authority: str, path: str) -> str:
    """Take out of a web address's path what lets anyone use it: a hook's, a bot's, a key's.

    Examples
    --------
    >>> in_path("hooks.slack.com", "services/T024BE7LD/B01/aBcD1234eFgH")
    '[redacted]'
    >>> in_path("api.telegram.org", "bot110201543:AAHdqTcvCH1vGWJxf/getMe")
    'bot110201543:[redacted]/getMe'
    >>> in_path("example.org", "data/part-1.csv")
    'data/part-1.csv'
    """
    if path and _HOOK.search(authority):
        return GONE
    path = _HOOKED.sub(rf"\1{GONE}", _BOT.sub(rf"\1:{GONE}", path))
    return _KEYED.sub(_keyed, path)


def _keyed(match: re.Match[str]) -> str:
    place, value = match.groups()
    kinds = sum(bool(re.search(p, value)) for p in ("[a-z]", "[A-Z]", "[0-9]"))
    random = kinds == 3 or (kinds == 2 and len(value) >= 20 and value.isalnum())
    return f"{place}{GONE}" if random else match.group()


def _user(match: re.Match[str]) -> str:
    option, user, value = match.groups()
    plain = value == GONE or _NUMBERS.fullmatch(f"{user}:{value}")  # -u 1000:1000 is a container's.
    return match.group() if plain else f"{option}{user}:{GONE}"


def in_command(text: str) -> str:
    """Take out passwords that a command's own options carry, and those that a sentence tells.

    Examples
    --------
    >>> in_command("curl -u bob:hunter2 http://x"), in_command("mysql -h db -phunter2")
    ('curl -u bob:[redacted] http://x', 'mysql -h db -p[redacted]')
    >>> in_command("the password is hunter2"), in_command("the password is wrong")
    ('the password is [redacted]', 'the password is wrong')
    """
    # Looked for first: most texts are paths, and a pattern costs more than that.
    if "-u" in text or "user" in text:
        text = _USER.sub(_user, text)
    if "@" in text:
        text = _BARE.sub(rf"\1:{GONE}@", text)
        text = _ORACLE.sub(rf"\1/{GONE}@", text)
    if " " not in text and "\xa0" not in text and text.isprintable():
        return text
    if "-p" in text:
        text = _SSHPASS.sub(rf"\1{GONE}", text)
        text = _PASS.sub(rf"\1{GONE}", text)
    text = _ORACLE_CALL.sub(rf"\1\2/{GONE}", text)
    return _SAID.sub(rf"\1{GONE}", text)


def takes_password(program: str) -> bool:
    """Say whether a program takes a password right behind ``-p``.

    Examples
    --------
    >>> takes_password("/usr/bin/mysql"), takes_password("python")
    (True, False)
    """
    return _CLIENT.fullmatch(program) is not None


def is_sign_in(option: str, value: str) -> bool:
    """Say whether an argument and the next one are a user and a password.

    Examples
    --------
    >>> is_sign_in("-u", "bob:hunter2"), is_sign_in("-u", "1000:1000"), is_sign_in("-n", "a:b")
    (True, False, False)
    """
    return _user_of(option, value) is not None


def _user_of(option: str, value: str) -> re.Match[str] | None:
    match = _USER.fullmatch(f"{option} {value}")
    return match if match is not None and _user(match) != match.group() else None
