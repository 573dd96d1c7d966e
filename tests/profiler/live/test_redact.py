"""Secrets vanish; what is no secret stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.live.redact import clip, first_line, redact, redact_command

SECRET = "q7Zp2Lx9Vb4Nc8Md1Kf6"
PLANTED = [
    f"https://ann:{SECRET}@example.org/x",
    f"https://{SECRET}@example.org/x",
    f"s3://bucket/key?X-Amz-Signature={SECRET}&a=1",
    f"https://example.org/cb#access_token={SECRET}",
    f"postgresql+psycopg2://user:{SECRET}@db:5432/name",
    f"http://user:pa/ss{SECRET}@host/path",
    f"AKIA{SECRET.upper()}",
    f"ghp_{SECRET}",
    f"github_pat_{SECRET}",
    f"sk-{SECRET}",
    f"sk-proj-{SECRET}",
    f"hf_{SECRET}",
    f"xoxb-123-{SECRET}",
    f"eyJhbGciOiJI.{SECRET}.{SECRET}",
    f"password={SECRET}",
    f"PASSWORD = '{SECRET}'",
    f"pw={SECRET}",
    f"DB_PASSWORD={SECRET}",
    f"--token {SECRET}X token={SECRET}",
    f"token: {SECRET}",
    f'{{"api_key": "{SECRET}"}}',
    f"{{'apiKey': '{SECRET}'}}",
    f"Authorization: Bearer {SECRET}",
    f"bearer {SECRET}",
    f"aws_secret_access_key={SECRET}",
    f"secretAccessKey={SECRET}",
    f"the key is {SECRET}{SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    f"AccountKey={SECRET}==;EndpointSuffix=x",
    f"client_secret={SECRET}",
    f"password='two words {SECRET}'",
    f"https://hooks.slack.com/services/T024BE7LD/B01ABCDEF/{SECRET}",
    f"https://discord.com/api/webhooks/81372819/{SECRET} 404",
    f"https://api.telegram.org/bot110201543:{SECRET}/getMe",
    f"https://outlook.office.com/webhook/{SECRET}@{SECRET}/IncomingWebhook/{SECRET}/1",
    f"https://maker.ifttt.com/trigger/done/with/key/{SECRET}",
    f"curl -u bob:{SECRET} http://x",
    f"invalid address 'ann:{SECRET}@127.0.0.1:9?x=1'",
    f"ann:{SECRET}@db.example.org/x",
    f"curl --user=bob:{SECRET} http://x",
    f"mysql -h db -p{SECRET} shop",
    f"sshpass -p {SECRET} ssh host",
    f"the password is {SECRET}",
    f"Token was {SECRET}",
    f"scott/{SECRET}@tns",
    f"sqlplus -s scott/{SECRET}@//host:1521/x",
]


def _without(text):
    """Take the planted secret's pieces out of consideration: any half of it is a leak."""
    low = text.lower()
    return SECRET.lower() not in low and SECRET[:12].lower() not in low


@pytest.mark.parametrize("text", PLANTED)
@pytest.mark.parametrize("around", ["{}", "failed: {} (retry)", 'a "{}" b', "x\n{}\ny", "é{}🎉"])
def test_planted_secrets_vanish(text, around):
    assert _without(redact(around.format(text)))


def test_what_the_system_says_of_a_file_with_a_telling_name_stays():
    for text in ("cannot open secret.tsv: Permission denied", "token.txt: No such file"):
        assert redact(text) == text
    assert "hunter2" not in redact("secret.tsv: hunter2 denied")


@given(st.text(), st.sampled_from(PLANTED), st.text())
def test_planted_secrets_vanish_among_anything(before, text, after):
    assert _without(redact(f"{before} {text} {after}"))


@given(st.text() | st.sampled_from(PLANTED).map(lambda text: f"see {text} there"))
def test_twice_is_once(text):
    assert redact(redact(text)) == redact(text)


@given(st.text(alphabet="pas:/?#@=tokenAKIA0123456789'\"{}[] _-.\n\\|", max_size=80))
def test_twice_is_once_for_near_secrets(text):
    assert redact(redact(text)) == redact(text)


@given(st.one_of(st.text(), st.binary(), st.integers(), st.none(), st.floats()))
def test_never_raises(value):
    assert isinstance(redact(value), str)
    assert isinstance(clip(value), str)


def test_objects_that_cannot_be_shown():
    class Bad(Exception):
        def __str__(self):
            raise RuntimeError

    assert redact(Bad()) == "[redacted]"
    assert clip(Bad()) == "[redacted]"
    assert first_line(Bad()) == "Bad"


@pytest.mark.parametrize(
    "text",
    [
        "/data/2026/part-00017.parquet",
        "could not convert string to float: 'abc'",
        "shapes (3,4) and (5,) not aligned",
        "https://example.org/data/part-1.csv",
        "keys: a, b, c",
        "KeyError: 'column'",
        "time=12 size=3",
        "passed=3 failed=1",
        "rechunk-merge-0f9c3d2a1b",
        "tokenize failed",
        "file:///data/x.csv",
        "docker run -u 1000:1000 image",
        "the password is wrong",
        "token is expired",
        "nf-core/rnaseq@3.14",
        "library/ubuntu@sha256:0f9c",
        "ubuntu:22.04@sha256:0f9c",
        "step:3@node1",
        "images/logo@2x.png",
        "https://example.org/keynotes/a.pdf",
        "s3://bucket/tokens/shard-000123",
        "https://example.org/tokens/part-0001.bin",
        "mkdir -p data/raw",
        "python run.py -p 8787",
    ],
)
def test_plain_text_stays(text):
    assert redact(text) == text


def test_clip_keeps_names_apart_and_bounded():
    names = {clip("🎉" * 10_000 + str(n)) for n in range(50)}
    assert len(names) == 50 and {len(name) for name in names} == {300}
    assert clip("a\x00b\rc\u2028d\ud800") == "a b c d "
    assert clip("<script>'\"") == "<script>'\""


def test_first_line():
    assert first_line(KeyError("a")) == "KeyError: 'a'"
    assert first_line(ValueError()) == "ValueError"
    assert first_line(ValueError("a\nb"), keep=True) == "ValueError: a\nb"
    pem = f"bad key -----BEGIN KEY-----\n{SECRET}\n-----END KEY-----"
    assert _without(first_line(ValueError(pem)))
    assert len(first_line(ValueError("x" * 10**6))) < 400


def test_an_address_that_the_cut_of_a_long_text_halves():
    text = "x " * 3_900 + "https://ann:" + SECRET * 30 + "@host/x"
    assert len(text) > 8_000 and _without(redact(text))
    assert redact(redact(text)) == redact(text)
    line = "y" * 7_000 + " https://ann:" + SECRET * 100 + "@host/x"
    assert _without(first_line(ValueError(line)))


def test_commands():
    command = ["python", "run.py", "--api-key", SECRET, f"--password={SECRET}", "-v", "--token"]
    assert all(_without(item) for item in redact_command(command))
    assert redact_command(command)[-2:] == ["-v", "--token"]
    assert redact_command([f"https://a:{SECRET}@h/x?k=1"]) == ["https://h/x"]


@pytest.mark.parametrize(
    "command",
    [
        ["curl", "-u", f"bob:{SECRET}", "http://x"],
        ["mysqldump", "-h", "db", f"-p{SECRET}", "shop"],
        ["/usr/bin/sshpass", "-p", SECRET, "ssh", "host"],
        ["7z", "x", f"-p{SECRET}", "a.7z"],
    ],
)
def test_commands_whose_options_carry_a_password(command):
    shown = redact_command(command)
    assert all(_without(item) for item in shown) and shown[0] == command[0]


def test_options_that_only_look_like_a_password_stay():
    for command in (["docker", "run", "-u", "1000:1000"], ["python", "x.py", "-p", "8787"]):
        assert redact_command(command) == command


def test_long_texts_take_no_long_time():
    texts = ["a" * 200_000, "password" * 20_000, "token_" * 30_000, "https://" * 20_000]
    texts += ["mysql " * 30_000, "token is " * 20_000, "sqlplus a/" * 20_000, "a/b@" * 40_000]
    texts += ["https://x/" + "hook/" * 30_000, "-u a:" * 30_000, "https://x/" + "bot1:" * 30_000]
    for text in texts:
        assert isinstance(redact(text), str)
