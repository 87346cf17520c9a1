"""Secrets are found in every form they are written in, and ordinary text stays as it is."""

from __future__ import annotations

import base64
import html
import json
import os
import quopri
import re
import urllib.parse

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.secrets.redaction import Redactor, client_secrets, redactor_for, shown_url

VALUE = 'Zq7+/x"9-Lk&<2 v_é'
LETTERS = "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2zA4bC5"


class TestExactValues:
    @pytest.mark.parametrize(
        "form",
        [
            VALUE,
            urllib.parse.quote(VALUE),
            urllib.parse.quote(VALUE, safe=""),
            urllib.parse.quote_plus(VALUE),
            json.dumps(VALUE),
            json.dumps(VALUE, ensure_ascii=False),
            json.dumps(VALUE).replace("/", "\\/"),
            json.dumps(VALUE).replace("&", "\\u0026").replace("<", "\\u003c"),
            html.escape(VALUE),
            *(base64.b64encode(b"user:pass"[:count] + VALUE.encode() + b"x").decode() for count in range(4)),
            base64.urlsafe_b64encode(VALUE.encode()).decode(),
        ],
    )
    def test_in_every_form(self, form):
        shown = Redactor({"N": VALUE}, env={}, shapes=False).redact(f"before {form} after")
        assert shown.startswith("before ")
        assert shown.endswith(" after")
        assert "[secret:N removed]" in shown
        assert len(shown) < len("before [secret:N removed] after") + 12

    @pytest.mark.parametrize(
        ("name", "value", "is_secret"),
        [
            ("API_KEY", "abcd1234", True),
            ("API_KEY", "abcd123", False),
            ("DB_PASSWORD", "correcthorse", True),
            ("USE_TOKEN", "enabled", False),
            ("AUTHOR", "Jane Austen", False),
            ("SSH_AUTH_SOCK", "/tmp/agent.123456", False),
            ("GOOGLE_CREDENTIALS", "C:\\keys\\one.json", False),
            ("MAX_TOKENS", "1000000", False),
            ("HOME", "q9w8e7r6t5", False),
            ("DATABASE_URL", "postgres://app:q9w8e7r6t5@db/x", True),
            ("ANY", "https://h.example/?api_key=q9w8e7r6t5", True),
            ("TOKEN_URL", "https://login.example/oauth2/v1", False),
            ("DB_PASS", "correcthorse", True),
            ("MYSQL_PWD", "q9w8e7r6t5", True),
            ("GIT_AUTHOR_EMAIL", "jane@austen.example", False),
            ("AUTHORIZATION", "q9w8e7r6t5", True),
        ],
    )
    def test_secret_variables_of_the_environment_are_found(self, name, value, is_secret):
        shown = Redactor(env={name: value}, shapes=False).redact(f"it is {value}!")
        assert (f"[secret:{name} removed]" in shown) == is_secret
        assert ("q9w8e7r6t5" in shown) == (not is_secret and "q9w8e7r6t5" in value)

    @pytest.mark.parametrize("value", ["q9w8e7r6t5\n", '"q9w8e7r6t5"', "Bearer q9w8e7r6t5"])
    def test_text_around_a_value_is_kept(self, value):
        redactor = Redactor(env={"API_AUTH": value}, shapes=False)
        assert redactor.redact("it is q9w8e7r6t5!") == "it is [secret:API_AUTH removed]!"

    def test_values_of_json_keep_their_shape(self):
        redactor = Redactor(["s3cret-value"], env={})
        plain = {"a": [1, "x"], "b": None}
        assert redactor.redact_value(plain) is plain
        assert redactor.redact_value({"s3cret-value": ("s3cret-value", {"b": b"s3cret-value"})}) == {
            "[secret removed]": ("[secret removed]", {"b": "[secret removed]"})
        }

    @pytest.mark.parametrize(
        "hide",
        [
            lambda text: text,
            lambda text: {text: 1},
            lambda text: {1: text},
            lambda text: {"a": [{"b": (None, text)}, 2.5]},
            lambda text: [{1, 2}, text],
            lambda text: [type("Word", (str,), {})(text)],
            lambda text: ["plain " * 10_000, text],
        ],
    )
    def test_secret_is_found_anywhere_in_a_value(self, hide):
        redactor = Redactor(["s3cret-value"], env={})
        shown = redactor.redact_value(hide("it is s3cret-value!"))
        assert "s3cret" not in repr(shown)
        assert "it is [secret removed]!" in repr(shown)
        almost = hide("it is s3cret-valu!")
        assert repr(redactor.redact_value(almost)) == repr(almost).replace("{1, 2}", "[1, 2]")

    @pytest.mark.parametrize("secrets", ["text", [1], {"a": None}])
    def test_invalid_secrets_argument_is_refused(self, secrets):
        with pytest.raises(ConfigError, match="secrets"):
            Redactor(secrets)

    def test_redactor_arguments_of_an_agent(self):
        assert redactor_for(False, None, {}) is None
        with pytest.raises(ConfigError, match="redact must be"):
            redactor_for("yes", None, {})
        made = redactor_for(
            Redactor(["first-one-1"], env={}), None, {"extra_headers": {"X-Api-Key": "second-one-2"}}
        )
        assert made.redact("first-one-1 second-one-2") == "[secret removed] [secret:X-Api-Key removed]"

    def test_an_error_and_those_behind_it(self):
        inner, outer = ValueError("key s3cret-value"), OSError(2, "s3cret-value")
        outer.__cause__, inner.__cause__ = inner, outer
        Redactor(["s3cret-value"], env={}).clean_error(outer)
        assert "s3cret-value" not in f"{inner} {outer} {inner.args} {outer.args}"


class TestShapes:
    @pytest.mark.parametrize(
        "secret",
        [
            "sk-" + LETTERS[:30],
            "sk-ant-" + LETTERS[:30],
            "ghp_" + LETTERS[:36],
            "gho_" + LETTERS[:36],
            "github_pat_" + LETTERS[:40],
            "glpat-" + LETTERS[:20],
            "xoxb-" + LETTERS[:20],
            "AKIA" + "IOSFODNN7EXAMPLE",
            "AIza" + LETTERS[:35],
            "hf_" + LETTERS[:34],
            "npm_" + LETTERS[:36],
            "pypi-" + LETTERS + LETTERS,
            "SG." + LETTERS[:22] + "." + LETTERS,
            "rk_live_" + LETTERS[:24],
            "eyJ" + LETTERS + ".eyJ" + LETTERS + "." + LETTERS,
            "-----BEGIN RSA PRIVATE KEY-----\n"
            + LETTERS
            + "\n"
            + LETTERS
            + "==\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\\n" + LETTERS,
        ],
    )
    def test_keys_with_a_shape(self, secret):
        assert Redactor(env={}).redact(f'a "{secret}" b') == 'a "[secret removed]" b'

    @pytest.mark.parametrize(
        ("text", "secret"),
        [
            ("Authorization: Bearer abc.def-123", "abc.def-123"),
            ("{'authorization': 'Basic dXNlcjpwYXNz1'}", "dXNlcjpwYXNz1"),
            ("curl -H 'bearer aB3dE5fG7hI9jK1lM2'", "aB3dE5fG7hI9jK1lM2"),
            ('"api_key": "aB3dE5fG7hI9jK1l"', "aB3dE5fG7hI9jK1l"),
            ("DB_PASSWORD_MAIN=aB3dE5fG7hI9jK1l\n", "aB3dE5fG7hI9jK1l"),
            ("client-secret := aB3dE5fG7hI9jK1l", "aB3dE5fG7hI9jK1l"),
            ("https://user:hunter2@git.example/x", "hunter2"),
            ("https://user:$ecret9{@git.example/x", "$ecret9{"),
            ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
            ('"key:\\nsk-aB3dE5fG7hI9jK1lM2nO"', "sk-aB3dE5fG7hI9jK1lM2nO"),
            ("?q=key%3Dsk-aB3dE5fG7hI9jK1lM2nO", "sk-aB3dE5fG7hI9jK1lM2nO"),
            ('{"q": "key\\u003dsk-aB3dE5fG7hI9jK1lM2nO"}', "sk-aB3dE5fG7hI9jK1lM2nO"),
            ("\x1b[32msk-aB3dE5fG7hI9jK1lM2nO\x1b[0m", "sk-aB3dE5fG7hI9jK1lM2nO"),
            (
                "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            ),
            ("password: correct-horse-battery-9", "correct-horse-battery-9"),
            ("token: 550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"),
        ],
    )
    def test_keys_in_their_place(self, text, secret):
        assert Redactor(env={}).redact(text) == text.replace(secret, "[secret removed]")

    @pytest.mark.parametrize(
        "text",
        [
            "task-force-of-the-many-and-the-few-in-one",
            "password = get_password_from_the_vault()",
            "token: ${TOKEN_FROM_THE_ENVIRONMENT_1}",
            "max_tokens: 1234567890123456789",
            '"next_page_token": "aB3dE5fG7hI9jK1l"',
            "see https://h.example:8080/a@b and mail a@b.example",
            "-----BEGIN PUBLIC KEY----- abc",
            "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "the secret of good tea; bearer of good news",
            'tokenizer = GPT2Tokenizer.from_pretrained("gpt2")',
            '"tokenizer_class": "Qwen2TokenizerFast"',
            "tokens = encode_v2_in_batches(texts)[0]",
            "password = hashlib.sha256_password_hash(x)",
            "api_key=settings.openai_v1.api_key",
            "headers: {authorization: request.headers.authorization}",
            "Authorization: authHeader",
            "expected_authorization = expected_authorization",
            "keep_secret_for_24_hours: keep_secret_for_24_hours,",
            "such as https://user:pass@host:port/path",
            "curl -H 'Authorization: Bearer YOUR_API_KEY'",
            "secretName: web-frontend-tls-v2",
            'f"postgresql://{user}:{password}@{host}/x"',
            "postgres://app:${DB_PASSWORD}@db/x and mysql://root:<password>@db and redis://:$PASS@h",
            "http://localhost:8080?mail=me@example.com",
            ".sk-toggleable__label-arrow:before",
        ],
    )
    def test_ordinary_text_stays(self, text):
        assert Redactor(env={}).redact(text) == text

    @given(st.text())
    def test_nothing_raises(self, text):
        redactor = Redactor([VALUE, "token=password"], env={})
        assert isinstance(redactor.redact(text), str)


SECRETS = ["abcdefgh", "abcdefghij", "ghijklmnop", "aaaaaaaab", "\u00e9clairs!"]
PIECES = st.lists(
    st.sampled_from([*SECRETS, *"abcdefgh", "abcd", "gh", "ijkl", "mnop", "\u00e9clairs", "!", " "])
)


class TestStreams:
    @given(PIECES, st.lists(st.integers(1, 12), min_size=1))
    def test_pieces_are_redacted_like_the_whole(self, pieces, sizes):
        text, redactor = "".join(pieces), Redactor(SECRETS, env={}, shapes=False)
        stream, shown, at, turn = redactor.stream(), "", 0, 0
        while at < len(text):
            size = sizes[turn % len(sizes)]
            shown += stream.feed(text[at : at + size])
            assert not any(secret in shown for secret in SECRETS)
            at, turn = at + size, turn + 1
        shown += stream.flush()
        assert shown == redactor.redact_known(text)
        assert not any(secret in shown for secret in SECRETS)

    def test_text_without_a_possible_secret_is_not_held(self):
        stream = Redactor(["s3cret-value"], env={}).stream()
        assert [stream.feed(each) for each in ("Hello ", "the s3c", "ond", " s3cret", "-value.")] == [
            "Hello ",
            "the ",
            "s3cond",
            " ",
            "[secret removed].",
        ]


def test_a_finished_line_is_shown_whole_though_its_end_may_begin_a_secret():
    stream = Redactor(["dark-s3cret-value"], env={}).stream()
    assert [stream.feed("step 1 of the build\n"), stream.line_end()] == ["step 1 of the buil", "d\n"]
    assert [stream.feed("the d"), stream.line_end()] == ["the ", ""]


@pytest.mark.parametrize("broken_after", range(1, 8))
@pytest.mark.parametrize("cut", [0, 2, 5, 9, 14])
def test_a_secret_broken_at_the_end_of_a_line_is_removed_but_for_its_first_letters(broken_after, cut):
    secret = "s3cret-value"
    text = f"x {secret[:broken_after]}\n{secret[broken_after:]} end\n"
    redactor = Redactor([secret], env={}, shapes=False)
    assert redactor.redact(text) == "x [secret removed] end\n"
    stream, shown = redactor.stream(), ""
    end = 3 + broken_after
    for piece in (text[: min(cut, end)], text[cut:end], text[end:]):
        shown += stream.feed(piece) + stream.line_end()
    begun = f"{secret[:broken_after]}\n" if broken_after <= 3 else ""
    assert shown + stream.flush() == f"x {begun}[secret removed] end\n"


@pytest.mark.parametrize("depth", [3, 101, 400])
def test_a_secret_lies_nowhere_too_deep(depth):
    value = {"key": "s3cret-value"}
    for _ in range(depth):
        value = {"in": value}
    assert "s3cret-value" not in str(Redactor(["s3cret-value"], env={}).redact_value(value))


def test_an_error_shows_it_nowhere():
    error = OSError(2, "no s3cret-value", "/home/s3cret-value")
    error.__notes__ = ["while s3cret-value was read"]
    Redactor(["s3cret-value"], env={}).clean_error(error)
    assert "s3cret-value" not in f"{error} {error!r} {error.__notes__}"


def test_addresses_as_they_are_shown():
    assert shown_url("http://u:p@h:1/v1?api_key=x&a=b#c") == "http://h:1/v1?api_key=...&a=b#c"
    assert shown_url("no address") == "no address"


def test_a_long_text_is_searched_as_a_short_one_is():
    few, many = (
        Redactor({"A": "one-secret-value"}, {}),
        Redactor({f"K{n}": f"{n:04}-abcdefgh" for n in range(300)}, {}),
    )
    for redactor, secret in ((few, "one-secret-value"), (many, "0123-abcdefgh")):
        for filler in ("", "plain words " * 2_000):  # below and above where it is searched in another way
            text = f"{filler}<{secret}>{filler}"
            assert secret not in redactor.redact_known(text)
            assert redactor.redact_known(text).replace(filler, "") == redactor.redact_known(f"<{secret}>")
    assert Redactor({}, {}).redact_known("one-secret-value" * 2_000) == "one-secret-value" * 2_000


def test_a_key_that_comes_late_into_an_environment_that_was_replaced(monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))  # as tests of users do
    redactor = Redactor()
    os.environ["LATE_API_KEY"] = "x-very-secret-1"
    assert "x-very-secret-1" not in redactor.as_of_now().redact("It is x-very-secret-1.")


SPELLINGS = (
    html.escape,
    lambda text: json.dumps(text)[1:-1],
    lambda text: urllib.parse.quote(text, safe=""),
    lambda text: text.replace("'", "''"),
    lambda text: text.replace('"', '""'),
    lambda text: "".join(each if each.isalnum() else f"&#0{ord(each)};" for each in text),
    lambda text: "".join(each if each.isalnum() else f"\\u{ord(each):04X}" for each in text),
    lambda text: "".join(f"&#x{ord(each):04x};" for each in text),
    lambda text: text.replace("'", "&apos;").replace("&", "&amp;"),
)
ESCAPED = ("Kq2Lm'7Rt\"x9Zp", "ab%41cd\\n&amp;xyz12", "A+b/c==&x<>'\"99", "plainKey12345678")


@given(
    st.sampled_from(ESCAPED),
    st.lists(st.sampled_from(SPELLINGS), max_size=3),
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_spelled_in_any_way_and_again_in_another_also_in_pieces(value, ways, cuts):
    redactor, spelled = Redactor({"K": value}, env={}), value
    for way in ways:
        spelled = way(spelled)
    text = f"some 'text' \\ & %2 {spelled} tail\\n"
    shown = redactor.redact_known(text)
    assert shown == text.replace(spelled, "[secret:K removed]")
    assert redactor.redact_value({"a": [spelled]}) == {"a": ["[secret:K removed]"]}
    stream, pieces, at = redactor.stream(), [], 0
    while at < len(text):
        step = cuts[len(pieces) % len(cuts)]
        pieces.append(stream.feed(text[at : at + step]))
        at += step
    assert "".join([*pieces, stream.flush()]) == shown


def wrapped(columns, end):
    return lambda text: end.join(text[at : at + columns] for at in range(0, len(text), columns))


def printable(text):
    return quopri.encodestring(text.encode()).decode()


ENCODINGS = (
    lambda text: base64.b64encode(b"ab" + text.encode()).decode(),
    lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    lambda text: text.encode().hex(),
)
BREAKS = (
    lambda text: text,
    printable,
    *(wrapped(columns, "\n") for columns in (5, 60, 64, 76)),
    wrapped(7, "\r\n    "),
    wrapped(9, "\\\n"),
    wrapped(6, '"\n  "'),
    wrapped(4, "\x1b[01;31m\x1b[K"),
)
ESCAPES = (
    lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    lambda text: "".join(f"\\0{byte:o}" for byte in text.encode()),
    lambda text: "".join(f"&#{ord(letter)}" for letter in text),
    lambda text: "".join(f"&#x{ord(letter):x}" for letter in text),
    lambda text: text.replace("'", "'\"'\"'"),
    *SPELLINGS,
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(("Kq2Lm'7Rt\"x9Zp", "plainKey12345678", "sk-" + LETTERS, "a$b+c/d-9&8<7_é" * 2)),
    st.lists(st.sampled_from(ENCODINGS), max_size=2),
    st.lists(st.sampled_from(ESCAPES), max_size=1),
    st.sampled_from(BREAKS),
    st.lists(st.sampled_from(SPELLINGS), max_size=1),
    st.lists(st.integers(3, 40), min_size=1, max_size=20),
)
def test_encoded_escaped_and_broken_in_any_order(value, encodings, inner, breaks, outer, cuts):
    redactor, spelled = Redactor({"K": value}, env={}, shapes=False), value
    for way in (*encodings, *inner):
        spelled = way(spelled)
    # A backslash before a break belongs to the break, and a number may end there.
    assume(not re.search(r"[\\&]", spelled) or breaks is BREAKS[0])
    for way in (breaks, *outer):
        spelled = way(spelled)
    shown = redactor.redact_known(f"a <{spelled}> b")
    assert shown.startswith("a <")
    assert shown.endswith("> b")
    assert "[secret:K removed]" in shown
    if not encodings:
        assert shown == "a <[secret:K removed]> b"
    stream, pieces, at, text = redactor.stream(), [], 0, f"a <{spelled}> b"
    while at < len(text):
        step = cuts[len(pieces) % len(cuts)]
        pieces.append(stream.feed(text[at : at + step]))
        at += step
    assert "".join([*pieces, stream.flush()]) == shown
    assert "[secret:K removed]" in str(redactor.redact_value([{"x": text}]))


@pytest.mark.parametrize("text", ["Wait:\n", "a 'b'\n\n", "x = 5\r\n"])
def test_the_end_of_a_line_is_not_held_back(text):
    assert Redactor(["7h3-s3cret-value"], env={}).stream().feed(text) == text


def test_text_around_a_broken_secret_is_kept():
    redactor = Redactor(["7h3-s3cret-value"], env={}, shapes=False)
    assert redactor.redact("'7h3-s3cret\n-value'\n\n  next\n") == "'[secret removed]'\n\n  next\n"


def test_secrets_of_one_name_are_all_removed():
    given = {"api_key": "k-one-12345678", "default_headers": {"api_key": "k-two-12345678"}}
    given["default_query"], given["base_url"] = (
        {"api_key": "k-three-1234567"},
        "https://h/?key=k-4-123456&key=k-5-123456",
    )
    assert len(set(client_secrets(given).values())) == 5
    removed = Redactor(client_secrets(given), env={}).with_secrets({"api_key": "k-six-12345678"})
    assert "-1234" not in removed.redact("k-one-12345678 k-two-12345678 k-six-12345678 k-4-123456 k-5-123456")
