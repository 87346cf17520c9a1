"""Secrets by their shape: each kind in each place is taken out, and ordinary code stays as it is."""

from __future__ import annotations

import base64
import random
import string
import sysconfig
from pathlib import Path

import pytest

import pure_agent_loop
from pure_agent_loop.support.secrets import secret_shapes
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.secrets.secret_keys import KEYS as PATTERN

ANY = random.Random(7)
ALNUM, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
UPPER, WORD, BASE64, DIGITS = string.ascii_uppercase + string.digits, ALNUM + "_-", ALNUM + "+/", "123456789"
REDACTOR = Redactor(env={})


def made(count, letters=ALNUM):
    text = "".join(ANY.choice(letters) for _ in range(count))
    return text if any(map(str.isdigit, text)) else made(count, letters)


KEYS = [
    ("sk-proj-", 60, WORD),
    ("sk-ant-api03-", 80, WORD),
    ("gsk_", 52, ALNUM),
    ("pul-", 40, HEX),
    ("sqp_", 40, HEX),
    ("bkua_", 40, HEX),
    ("sk_", 48, HEX),
    ("rzp_live_", 14, ALNUM),
    ("dp.pt.", 43, ALNUM),
    ("nfp_", 36, ALNUM),
    ("AKCp", 69, ALNUM),
    ("sk.eyJhbGciOiJIUzI1NiJ9.", 22, ALNUM),
    ("CCIPAT_AAAAAAAAAAAAAAAAAAAAAA_", 40, HEX),
    ("lsv2_pt_0123456789abcdef0123456789abcdef_", 10, HEX),
    ("pat-na1-01234567-0123-0123-0123-", 12, HEX),
    ("patAAAAAAAAAAAAAA.", 64, HEX),
    ("xai-", 80, ALNUM),
    ("pplx-", 48, ALNUM),
    ("ya29.", 60, WORD),
    ("1//0", 60, WORD),
    ("GOCSPX-", 28, WORD),
    ("AIza", 35, WORD),
    ("shpat_", 32, HEX),
    ("shpss_", 32, HEX),
    ("ghp_", 36, ALNUM),
    ("github_pat_", 80, ALNUM),
    ("glpat-", 20, ALNUM),
    ("glrt-", 20, ALNUM),
    ("npm_", 36, ALNUM),
    ("pypi-AgEIcHlwaS5vcmc", 70, WORD),
    ("sk_live_", 24, ALNUM),
    ("sk_test_", 24, ALNUM),
    ("whsec_", 32, ALNUM),
    ("SK", 32, HEX),
    ("hf_", 34, ALNUM),
    ("dapi", 32, HEX),
    ("secret_", 43, ALNUM),
    ("ntn_", 46, ALNUM),
    ("lin_api_", 40, ALNUM),
    ("dop_v1_", 64, HEX),
    ("xoxb-123456789012-1234567890123-", 24, ALNUM),
    ("xapp-1-A0123-123-", 64, HEX),
    ("AKIA", 16, UPPER),
    ("ASIA", 16, UPPER),
    ("r8_", 37, ALNUM),
    ("nvapi-", 64, WORD),
    ("hvs.", 90, WORD),
    ("glsa_", 32, ALNUM),
    ("dckr_pat_", 27, WORD),
    ("NRAK-", 27, UPPER),
    ("PMAK-", 24, HEX),
    ("ATATT3x", 180, WORD),
    ("figd_", 40, WORD),
    ("sbp_", 40, HEX),
    ("pscale_tkn_", 43, ALNUM),
    ("rubygems_", 48, HEX),
    ("sq0csp-", 43, WORD),
    ("key-", 32, HEX),
    ("csk-", 48, ALNUM),
    ("tvly-", 32, ALNUM),
    ("fw_", 30, ALNUM),
    ("tgp_v1_", 43, WORD),
    ("sntrys_eyJ", 100, ALNUM),
    ("re_aB3dE5fG_", 24, ALNUM),
]


@pytest.mark.parametrize(("prefix", "count", "letters"), KEYS)
def test_keys_of_services(prefix, count, letters):
    key = prefix + made(count, letters)
    for before, after in (("the key is ", " and so on"), ('{"k": "', '"}'), ("x=", "\n"), ("key\\n", ".")):
        shown = REDACTOR.redact(f"{before}{key}{after}")
        assert key[len(prefix) : -4] not in shown
        assert "[secret removed]" in shown


GUID = "-".join(made(count, HEX) for count in (8, 4, 4, 4, 12))
BOT = f"{made(9, DIGITS)}:AA{made(33, WORD)}"
SLACK = f"T{made(8, UPPER)}/B{made(8, UPPER)}/{made(24)}"
DISCORD = f"{made(18, DIGITS)}/{made(68, WORD)}"
TEAMS = f"{made(32, HEX)}/{GUID}"
KEY, STORAGE, SAS = made(32), made(86, BASE64) + "==", f"{made(30)}%2B{made(10)}%3D"
JWT = f"eyJhbGciOiJIUzI1NiJ9.{base64.b64encode(b'sub:1234567890,x:1').decode().rstrip('=')}.{made(43)}"
DJANGO = "django-insecure-x@#v1$%k^2_(a!b9-q8w*e=r+t"
PLACES = [
    ("https://api.telegram.org/bot{}/getMe", BOT),
    ("{}", f"M{made(23)}.{made(6)}.{made(38)}"),
    ("{}", f"SG.{made(22)}.{made(43)}"),
    ("https://hooks.slack.com/services/{} ok", SLACK),
    ("https://discord.com/api/webhooks/{}", DISCORD),
    (f"https://x.webhook.office.com/webhookb2/{GUID}@{GUID}/IncomingWebhook/{{}}", TEAMS),
    ("t={};", JWT),
    ("Cookie: session={}; theme=dark", KEY),
    ("Set-Cookie: sid={}; Path=/; HttpOnly", KEY),
    ('{{"Cookie": "sid={}"}}', KEY),
    ("Server=tcp:db,1433;User ID=sa;Password={};Encrypt=True", "p@ss!W0rd"),
    ('conn = "Driver=x;Uid=sa;Pwd={};"', "p@ss!W0rd"),
    ("AccountName=x;AccountKey={};EndpointSuffix=core", STORAGE),
    ("https://x.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={}", SAS),
    ("secret is {}", f"{made(3)}8Q~{made(34)}"),
    ("aws_session_token = {}", f"FwoGZXIvYXdz{made(200, BASE64)}"),
    ("aws_secret_access_key={}", made(40, BASE64)),
    ("X-Api-Key: {}", KEY),
    ("tool --token {}", KEY),
    ("tool --api-key '{}'", KEY),
    ("https://h/x?access_token={}&a=b", KEY),
    ("Proxy-Authorization: Basic {}", made(24)),
    ("curl -u admin:{} https://h", "p@ss!W0rd"),
    ("git clone https://{}@github.com/x", KEY),
    ("SECRET_KEY = '{}'", DJANGO),
    ("&#34;api_key&#34;: &#34;{}&#34;", KEY),
    ("APP_KEY=base64:{}", made(43, BASE64) + "="),
    ("_auth={}", made(28)),
    ("client-key-data: {}", made(6000, BASE64)),  # to its end, however long
    ("password: {}", made(2000)),
    ("ASANA_PAT: 1/12000:{}", made(32, HEX)),
    ('<add key="ApiKey" value="{}" />', KEY),
    ('{{"name": "API_KEY", "value": "{}"}}', KEY),
    ("- name: DB_TOKEN\n  value: {}\n", KEY),
    ('<input type="hidden" name="csrf_token" value="{}">', KEY),
    ("ENV NPM_TOKEN {}", KEY),
    ("pass = {}", KEY),
    ('Authorization: Digest username="me", response="{}"', made(32, HEX)),
    ("密钥：{}", KEY),
    ('api_key <- "{}"', KEY),
    ("const API_KEY: string = `{}`", KEY),
    ("hmac_key = b'{}'", KEY),
    ('<string name="api_key">{}</string>', KEY),
    ("**API key:** `{}`", KEY),
    ("the secret key: {}", KEY),
    ("ENV SECRET_KEY {}", KEY),
    ("password%3D{}", made(14)),
    ("https://h/x?X-Goog-Signature={}", made(128, HEX)),
]
PASSWORD_PLACES = [
    "DB_PASSWORD={}\nNEXT=1",
    '{{"password": "{}", "a": 1}}',
    '"{{\\"password\\": \\"{}\\"}}"',
    "db:\n  password: {}\n  user: x",
    "mysql --password {} -u root",
    "tool --password={} run",
    "machine api.example.com\n  login me\n  password {}\n",
    "machine api.example.com login me password {}",
    "<password>{}</password>",
    '{{"name": "DB_PASSWORD", "value": "{}"}}',
    "密码：{}",
    "host=h dbname=x password={} user=y",
    'wpa: psk="{}"',
    'Password = @"{}"',
    "PASSWORD=\\\n{}",
    "password: >-\n  {}",
]
PASSWORDS = ["Tr0ub4dor&3", "p@ss!W0rd", "x9!y", "a1b2c3d4"]
OPTIONS = ["helm upgrade x --set auth.rootPassword={} y", "docker run -e DB_PASSWORD={} image"]
PLACES += [(place, "00Iw4Klzbvdy") for place in OPTIONS]


@pytest.mark.parametrize(
    ("place", "secret"), [*PLACES, *((place, each) for place in PASSWORD_PLACES for each in PASSWORDS)]
)
def test_where_secrets_stand(place, secret):
    shown = REDACTOR.redact(place.format(secret))
    assert secret not in shown
    assert secret[4:-4] not in shown or len(secret) < 14
    assert "removed]" in shown


LINES = {
    "plain": "{line}",
    "grep -n": "{number}:{line}",
    "grep of files": "conf/server-key.pem:{number}:{line}",
    "grep -C": "key.pem-{number}-{line}",
    "cat -n": "{number:6}\t{line}",
    "diff": "+{line}",
    "quoted": "> {line}",
    "yaml": "    {line}",
    "code": '  "{line}\\n" +',
    "comment": "# {line}",
    "table": "{number:4} | {line}",
    "windows": "{line}\r",
}


@pytest.mark.parametrize("form", LINES.values(), ids=LINES)
@pytest.mark.parametrize("head", ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
@pytest.mark.parametrize("fields", [[], ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,ABCDEF0123", ""]])
def test_keys_over_several_lines(form, head, fields):
    body = [*(made(64, BASE64) for _ in range(4)), f"{made(20)}=="]
    key = [f"-----BEGIN {head}-----", *fields, *body, f"-----END {head}-----"]
    text = "\n".join(form.format(number=number, line=line) for number, line in enumerate(key, 1))
    for shown in (
        REDACTOR.redact(f"before\n{text}\nand after"),
        REDACTOR.redact(f"before\n{text.rpartition(body[-1])[0]}"),  # cut off
    ):
        assert not any(line[4:-4] in shown for line in body)
        assert shown.startswith("before\n")
    assert REDACTOR.redact(f"before\n{text}\nand after").endswith("and after")


def test_key_prefix_alone_is_not_a_key():
    for text in (
        'if line == "-----BEGIN PRIVATE KEY-----":\n    start(line, 42)\n',
        "-----BEGIN PRIVATE KEY-----\n",
    ):
        assert REDACTOR.redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "password = get_password()",
        "password=password1, user=user1",
        "self.password = form.password2",
        'password: Optional[str] = Field(alias="pass1")',
        "if password == other1: pass",
        "PASSWORD=${DB_PASSWORD_1}",
        "passwd: files systemd",
        "PWD=/home/user1/x",
        "--password PASSWORD --token TOKEN",
        "cookie: name=value",
        "The password must have 8 characters, a sign (!) and a digit.",
        "primary_key = user_profile_cache_v2, sort_key: created_at_desc_1",
        "public_key: ssh-ed25519",
        "private_key: x25519.X25519PrivateKey, MLKEM768X25519PrivateKey | None",
        'public_key("PKIX_RSA_PKCS1V15_2048_SHA256")',
        "if api_key == other_key_of_2024_and_2025: pass",
        "cat /etc/passwd | sha256sum; pwd | base64 -w0",
        "if password > 8 and token < 4: pass",
        "<password>${DB_PASSWORD}</password> <token>None</token>",
        '{"name": "password", "value": "{{ password }}"}',
        "the key is called user_session_v2 and the token is invalidated_by_logout_2",
        "| token | what it does | key | str |",
        "grep -rn password src/app1.py",
        "task1234567890abcdef and DeepSkyBlue = #00bfff",
        "密码：请输入8位密码",
        "tokenizer = AutoTokenizer.from_pretrained('qwen2-0.5b')",
        "git@github.com:me/repository-2.git and https://example.com/@me/page1",
        '{"state_key": "550e8400-e29b-41d4-a716-446655440000", "file_key": "aB3dE5fG7hI9jK1lM2nO"}',
        "arn:aws:secretsmanager:us-west-2:123456789012:secret:ReportDatabase-a1b2c3",
        "the access token is aB3dE5fG7hI9jK1lM2nO",  # prose
    ],
)
def test_ordinary_lines_stay(text):
    assert REDACTOR.redact(text) == text


def _changed(paths):
    lines = changed = 0
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        shown = REDACTOR.redact(text)
        lines += text.count("\n")
        changed += shown != text and sum(
            a != b for a, b in zip(text.split("\n"), shown.split("\n"), strict=False)
        )
    return lines, changed


def test_ordinary_code_stays():
    root = Path(pure_agent_loop.__file__).parent
    assert _changed(root.rglob("*.py"))[1] == 0
    standard = Path(sysconfig.get_paths()["stdlib"])
    lines, changed = _changed(
        path for path in sorted(standard.rglob("*.py")) if "site-packages" not in path.parts
    )
    assert lines > 100_000
    assert changed <= lines / 50_000  # its tests hold a few made-up passwords


def test_a_text_of_many_names_costs_little():
    text = "key=AAAA1234bbbbCCCC" * 2_500
    searched = []

    class Counting:
        def search(self, text, start, stop):
            searched.append(stop - start)
            return PATTERN.search(text, start, stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_shapes, "KEYS", Counting())
        REDACTOR.redact(text)
    assert sum(searched) < 3 * len(text)


VALUE = "q9\"w+8'e/7<r>6&t="


@pytest.mark.parametrize(
    "form",
    [
        r"q9\u0022w\u002B8\u0027e/7\u003Cr\u003E6\u0026t=",  # .NET
        r"q9\"w\u002b8'e/7<r>6&t=",
        r"q9\"w\u002b8'e/7\u003cr\u003e6\u0026t=",  # Go
        "q9&#34;w+8&#39;e/7&lt;r&gt;6&amp;t=",
        "q9&quot;w+8&#39;e/7&lt;r&gt;6&amp;t=",
        "q9&#34;w&#43;8&#39;e/7&lt;r&gt;6&amp;t=",
        "q9&quot;w+8&apos;e/7&lt;r&gt;6&amp;t=",
        "q9&#x22;w&#x2B;8&#x27;e&#x2F;7&#x3C;r&#x3E;6&#x26;t&#x3D;",
        "q9%22w%2B8%27e%2F7%3Cr%3E6%26t%3D",
        "q9%2522w%252B8%2527e%252F7%253Cr%253E6%2526t%253D",
        r"q9\x22w\x2b8\x27e\x2f7\x3cr\x3e6\x26t\x3d",
    ],
)
def test_known_values_in_escaped_forms(form):
    assert Redactor({"N": VALUE}, env={}, shapes=False).redact(f"<{form}>") == "<[secret:N removed]>"
    filler = "plain words\n" * 2_000  # long texts are searched in another way
    assert form not in Redactor({"N": VALUE}, env={}, shapes=False).redact(filler + form + filler)
