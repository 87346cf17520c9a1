"""Redact secrets from text before it is recorded, shown or sent.

There are two methods: known values (from the environment and the configuration) are found even if they are
encoded, escaped or wrapped over lines; other keys are found by the formats that well-known services use.
Known values are found by a table of their five-letter pieces, so that text without secrets costs next to
nothing.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import urllib.parse
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from types import MappingProxyType, NoneType
from typing import Any, TypeVar

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.secrets.decoded import Decoded, has_escapes
from pure_agent_loop.support.text import to_jsonable

# -- encoded forms of known secrets: whole, inside a longer text, and encoded twice ----------------------

_DEPTH = 2  # levels of encoding, such as base64 of base64; a third would give eight times as many forms
MIN_LENGTH = 8  # shorter values occur by chance in too many texts
REMOVED = "[secret removed]"
_PIECE = 5  # letters per piece; in a text, some piece of an n-letter secret begins at a multiple of n - 4
_HEAD = 4
_MAX_LINE_END = 3  # letters of a secret that may be shown if a line break follows them
_LONG = 10_000
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS$|_PWD$|CREDENTIAL|COOKIE|SIGNATURE"
    r"|AUTH(?!OR(?!I[SZ]))",  # do not match AUTHOR, as in GIT_AUTHOR_EMAIL
    re.I,
)
_PASSWORD_NAME = re.compile(r"SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS$|_PWD$", re.I)
_SCHEME = re.compile(r"^(?:Bearer|Basic|Token) +(?=\S+$)", re.I)
_BETWEEN = re.compile(r"[\s;,]+")  # separators of the fields in a header's value
_FIELD = re.compile(r"^[\w.-]+=\"?(.*[^=\"])\"?$")
# Words and small numbers are not redacted, because they occur in ordinary text.
_WORDS = re.compile(r"[a-z]{1,15}|[A-Z]{1,15}|[A-Z]?[a-z]+([ _-][A-Za-z][a-z]*)*|[0-9.]{1,11}")
_PATH = re.compile(r"[/~.]|[A-Za-z]:[\\/]")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://")
_SECRET_QUERY = re.compile(r"key|token|secret|passw|sig|auth|code|credential", re.I)
_MAY_ESCAPE = re.compile("[&\\\\%'\"=\r\n\x1b]").search
_SCALARS = frozenset({bool, int, float})
_PLAIN = frozenset({NoneType, bool, int, float, str, bytes, dict, list, tuple})  # no clients
# Names of attributes that hold clients, or agents and tools with clients; see `secrets_of`.
_HOLDING = (
    *("inner", "clients", "client", "llm", "agent", "handoffs", "definitions"),
    *("tools", "_tools", "toolsets", "compactor", "_kit"),
)
_NO_OTHERS = None, frozenset[tuple[str, str]]()
T = TypeVar("T")


def forms_of(value: str) -> set[str]:
    """Return a value, its form as `Decoded` reads it, and both encoded once and twice (base64, hexadecimal).

    Escapes and broken lines need no form, because `Decoded` undoes them in the searched text.
    """
    plain = Decoded(value).text
    level = {value, plain, json.dumps(value)[1:-1], urllib.parse.quote(value, safe="")}
    # The value's UTF-8 bytes, as decoded byte escapes show them.
    as_bytes = plain.encode("utf-8", "replace").decode("latin-1")
    # A URL query writes a blank as a plus sign.
    forms = {value, plain, as_bytes, plain.replace(" ", "+"), as_bytes.replace(" ", "+")}
    for _ in range(_DEPTH):
        level = {code for form in level for code in _encoded(form)}
        forms |= level
    return forms


def _encoded(form: str) -> Iterator[str]:
    data = form.encode("utf-8", "replace")
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):  # for each alignment, only the letters that do not depend on adjacent bytes
        whole = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        core = whole[(0, 2, 3)[shift] : (len(data) + shift) * 8 // 6]
        yield core
        yield core.replace("+", "-").replace("/", "_")


class Redactor:
    """Removes secrets from texts.

    Args:
        secrets: Values to remove, with or without names; values shorter than eight characters are ignored.
        env: Environment to search for secrets: values of variables whose names mark them as secret, and
            passwords in URLs; this process's environment if None.

    Raises:
        ConfigError: A secret is not a `str`.
    """

    def __init__(
        self,
        secrets: Mapping[str, str] | Iterable[str] = (),
        env: Mapping[str, str] | None = None,
        *,
        shapes: bool = True,
    ) -> None:
        self._env, self._shapes = os.environ if env is None else env, shapes
        self._given = _names_by_secret(secrets)
        self.of_clients: dict[str, str] = {}
        # Cache of one entry: a client, and the secrets of all other clients. The runs of an agent share it.
        self._of_others: list[tuple[object, frozenset[tuple[str, str]]]] = [_NO_OTHERS]
        self._raw = _behind(self._env)
        self._later: tuple[dict[Any, Any], Redactor | None] = _now_in(self._raw), None
        self._know({**_by_value(_now_in(self._env)), **self._given})

    def _know(self, secrets: Mapping[str, str]) -> None:
        self._found = {value: name for value, name in secrets.items() if len(value) >= MIN_LENGTH}
        forms = ((form, name) for value, name in self._found.items() for form in forms_of(value))
        self._forms = {form: name for form, name in forms if len(form) >= MIN_LENGTH}
        self.is_empty = not self._forms  # even if this is True, keys are found by shape
        self._by_piece: dict[str, set[str]] = {}
        self._by_head: dict[str, set[str]] = {}
        self._step = min(map(len, self._forms), default=MIN_LENGTH) - _PIECE + 1
        self._longest = max(map(len, self._forms), default=0)
        for form in self._forms:
            # The pieces of a text may begin at any of these offsets in the secret.
            for start in range(self._step):
                self._by_piece.setdefault(form[start : start + _PIECE], set()).add(form)
            for length in range(1, _HEAD + 1):
                self._by_head.setdefault(form[:length], set()).add(form)
        self._pieces = frozenset(self._by_piece)

    def __repr__(self) -> str:
        return f"Redactor({len(self._forms)} forms of known secrets)"

    def as_of_now(self) -> Redactor:
        """Return a redactor that includes new secrets in the environment; this one if there are none."""
        seen = _now_in(self._raw)
        if seen != self._later[0]:
            new, current = None, _by_value(_now_in(self._env))
            if current.keys() - self._found.keys():
                new = copy.copy(self)
                new._know({**current, **self._found})
            self._later = seen, new
        return self._later[1] or self

    def with_secrets(self, secrets: Mapping[str, str]) -> Redactor:
        """Return a redactor with more secrets."""
        new = copy.copy(self)
        new._learn(_names_by_secret(secrets))
        return new

    def for_run(self, clients: Mapping[str, str] = MappingProxyType({})) -> Redactor:
        """Return a redactor for one run and all that it starts, with secrets of clients; see `secrets_of`."""
        new = copy.copy(self.as_of_now())
        new.learn_clients(clients)
        return new

    def joined(self, other: Redactor | None) -> Redactor:
        """Add the secrets of another redactor, and return this one."""
        if other is not None and other is not self:
            self._learn(other._given)
            self.learn_clients(other.of_clients)
        return self

    def learn_clients(self, secrets: Mapping[str, str]) -> None:
        """Add the secrets of clients; see `secrets_of`."""
        if secrets.keys() - self.of_clients.keys():
            self.of_clients, self._of_others = {**secrets, **self.of_clients}, [_NO_OTHERS]
            self._learn(secrets)

    def _learn(self, secrets: Mapping[str, str]) -> None:
        """Add secrets, by value; other threads see either all of them or none."""
        if secrets.keys() - self._given.keys():
            new = copy.copy(self)
            new._given = {**secrets, **self._given}
            new._know({**self._found, **new._given})
            self.__dict__.update(new.__dict__)

    def without_others(self, value: T, client: object) -> T:
        """Return a JSON value for a client, without the secrets of other clients."""
        known, others = self._of_others[0]
        if known is not client:
            others = others_of(client, self.of_clients)
            self._of_others[0] = client, others
        return redactor_of(others).redact_value(value) if others else value

    def redact(self, text: str) -> str:
        """Redact known secrets in a text, and others by their shape. Never raises."""
        text = self.redact_known(text)
        if not self._shapes:
            return text
        from pure_agent_loop.support.secrets.secret_shapes import remove_shapes  # many patterns

        return remove_shapes(text, REMOVED)

    def redact_known(self, text: str) -> str:
        """Redact known secrets in a text."""
        spans = self._spans(text)
        return self._without(text, spans) if spans else text

    def redact_value(self, value: T) -> T:
        """Redact known secrets in every text of a JSON value, including keys.

        Other types become their JSON form. If nothing is removed, the same object is returned.
        """
        if not self._forms:
            return value
        texts: list[str] = []
        text = ""
        try:  # fast path, because texts rarely contain a secret
            is_clean = _gather(value, texts)
            text = "\x1f".join(texts)
        except TypeError:  # the value has a key that is not a string
            is_clean = False
        # The same test as `has_escapes`, inlined because it runs several times per step.
        if (
            "\\" in text
            or "&" in text
            or "%" in text
            or "=" in text
            or "\n" in text
            or "''" in text
            or '""' in text
            or "'\"" in text
            or "\"'" in text
            or "\r" in text
            or "\x1b" in text
        ):
            is_clean = is_clean and not any(self._decoded_places(text))
        return value if is_clean and not self._likely(text) else self._walk(value)

    def stream(self) -> StreamRedactor:
        """Return a redactor for one streamed text."""
        return StreamRedactor(self)

    def clean_error(self, error: BaseException) -> None:
        """Redact known secrets in an error and in its causes."""
        seen: set[int] = set()
        current: BaseException | None = error
        while current is not None and id(current) not in seen:
            seen.add(id(current))
            for name in ("args", "message", "said", "body", "strerror", "filename", "__notes__"):
                old = getattr(current, name, None)
                new: Any = self._walk(old) if isinstance(old, (str, tuple, list, dict)) else old
                if new is not old:
                    # A user's error class may reject the assignment.
                    with suppress(AttributeError, TypeError):
                        setattr(current, name, tuple(new) if name == "args" else new)
            current = current.__cause__ or current.__context__

    def _walk(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return self.redact_known(value)
        if value is None or isinstance(value, (bool, int, float)) or depth > 200:
            # Values nested deeper than 200 levels are removed unchecked.
            return REMOVED if depth > 200 else value
        if isinstance(value, Mapping):
            clean = ((self.redact_known(k) if isinstance(k, str) else k, v) for k, v in value.items())
            pairs = {key: self._walk(entry, depth + 1) for key, entry in clean}
            same = all(a is b and value[a] is c for (b, c), a in zip(pairs.items(), value, strict=False))
            return value if same and len(pairs) == len(value) else pairs
        if isinstance(value, (list, tuple)):
            items = [self._walk(entry, depth + 1) for entry in value]
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else tuple(items) if isinstance(value, tuple) else items
        return value if isinstance(value, BaseException) else self._walk(to_jsonable(value), depth + 1)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """Return spans of known secrets in order, overlaps merged: start, end, name."""
        if not self._forms or len(text) < MIN_LENGTH:
            return []
        places = sorted(_places(text, self._likely(text)))
        if has_escapes(text):
            places = sorted([*places, *self._decoded_places(text)])
        spans: list[tuple[int, int, str]] = []
        for start, end, form in places:
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]), spans[-1][2])
            else:
                spans.append((start, end, self._forms[form]))
        return spans

    def _decoded_places(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Return spans of known secrets in a text with escapes, in every decoding."""
        for decoded in Decoded.readings(text):
            for at, end, form in _places(decoded.text, self._likely(decoded.text)):
                yield decoded.written_from(at), decoded.written_to(end), form

    def _whole_until(self, text: str, keep: int) -> int:
        """Return the last offset at which a cut splits no escape and no escaped secret."""
        for decoded in Decoded.readings(text, goes_on=True):
            known = decoded.text[: decoded.open_from()]
            keep = min(keep, decoded.written_from(len(known) - self._begun(known)))
            letters = range(len(decoded.text) + 1)
            keep = decoded.written_from(bisect_right(letters, keep, key=decoded.written_from) - 1)
        return keep

    def _likely(self, text: str) -> Iterable[str]:
        """Return the forms that may occur in a text: all that do, and possibly others."""
        # Searching one form costs about as much as cutting the text into a thousand pieces.
        if len(text) > _LONG and len(self._forms) * self._step < 1_000:
            return [form for form in self._forms if form in text]
        pieces = [text[at : at + _PIECE] for at in range(0, len(text) - _PIECE + 1, self._step)]
        return {form for piece in self._pieces.intersection(pieces) for form in self._by_piece[piece]}

    def _without(self, text: str, spans: list[tuple[int, int, str]]) -> str:
        out, position = [], 0
        for start, end, name in spans:
            out += [text[position:start], f"[secret:{name} removed]" if name else REMOVED]
            position = end
        return "".join([*out, text[position:]])

    def _begun(self, text: str) -> int:
        """Return the number of characters at the end of a text that may begin a secret."""
        end = text[max(0, len(text) - self._longest) :]
        for at in range(len(end)):
            for form in self._by_head.get(end[at : at + _HEAD], ()):
                if form.startswith(end[at:]) and len(form) > len(end) - at:
                    return len(end) - at
        return 0


class StreamRedactor:
    """Redacts known secrets in a streamed text, even a secret split over two pieces.

    The joined pieces equal `Redactor.redact_known` of the whole text, except for the first letters of secrets
    that `line_end` has returned.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held, self._shown = "", 0  # how much of the held text was returned

    def feed(self, chunk: str) -> str:
        """Return text that is safe to show; hold back a possible start of a secret."""
        redactor = self._redactor
        if not redactor._forms:
            return chunk
        text = self._held + chunk
        spans = redactor._spans(text)
        keep = len(text)
        keep -= redactor._begun(text)
        if _MAY_ESCAPE(text):
            keep = redactor._whole_until(text, keep)
        for start, end, _ in reversed(spans):
            if start < keep < end:  # this match may be part of a longer secret
                keep = start
        self._held = text[keep:]
        if not spans and not self._shown:
            return text[:keep]
        return self._new(text[:keep], [span for span in spans if span[1] <= keep])

    def line_end(self) -> str:
        """Return the held end of a finished line if it has few letters, so that a person sees the whole line.

        The letters still count as the start of a secret that continues in the next line.
        """
        end = self._held[self._shown :]
        if not end.endswith("\n") or len(end.strip()) > _MAX_LINE_END:
            return ""
        self._shown = len(self._held)
        return end

    def flush(self) -> str:
        """Return the rest at the end of the text."""
        text, self._held = self._held, ""
        if not self._shown:
            return self._redactor.redact_known(text)
        return self._new(text, self._redactor._spans(text))

    def _new(self, text: str, spans: list[tuple[int, int, str]]) -> str:
        """Return a text without its secrets and without the part that was already returned."""
        shown = min(self._shown, len(text), *(start for start, _, _ in spans[:1]))
        self._shown = max(self._shown - len(text), 0)
        return self._redactor._without(text, spans)[shown:]


def others_of(client: object, secrets: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return the secrets, by value, that do not belong to the client."""
    own = secrets_of(client) if secrets else {}
    return frozenset(pair for pair in secrets.items() if pair[0] not in own)


@lru_cache(maxsize=64)
def redactor_of(secrets: frozenset[tuple[str, str]]) -> Redactor:
    """Return a redactor for these secrets only."""
    return Redactor((), {}, shapes=False).for_run(dict(secrets))


def secrets_of(*holders: object) -> dict[str, str]:
    """Return the secrets of all clients that some objects hold, by value, with their names.

    Args:
        holders: Clients, agents, tools or lists of these. A client has `secrets`: strings, or strings by
            name. Clients in attributes of a client are found too.
    """
    secrets: dict[str, str] = {}
    seen, waiting = set[int](), list(holders)
    while waiting:
        holder = waiting.pop()
        if id(holder) in seen or type(holder) in _SCALARS:
            continue
        seen.add(id(holder))
        if isinstance(holder, (Mapping, list, tuple)):
            waiting += holder.values() if isinstance(holder, Mapping) else holder
            continue
        own: Any = getattr(holder, "secrets", None)
        if isinstance(own, (Mapping, list, tuple, set, frozenset)):
            secrets.update(_names_by_secret(own))
        waiting += [value for name in _HOLDING if (value := getattr(holder, name, None)) is not None]
        others = [value for value in getattr(holder, "__dict__", {}).values() if type(value) not in _PLAIN]
        waiting += [value for value in others if hasattr(value, "chat")]
    return secrets


def redactor_for(redact: bool | Redactor, client: Any, options: Mapping[str, Any]) -> Redactor | None:
    """Return an agent's redactor, with the secrets of the environment, its clients and its options.

    Args:
        redact: True, False for no redaction, or a redactor, to which the clients' secrets are added.
        client: The model client, or an object that holds clients; see `secrets_of`.
        options: Fields of the client's requests; ``extra_headers`` and ``extra_query`` may hold keys.

    Raises:
        ConfigError: `redact` is neither a bool nor a `Redactor`.
    """
    if redact is False:
        return None
    if redact is not True and not isinstance(redact, Redactor):
        raise ConfigError(f"redact must be True, False or a Redactor; it is {redact!r:.80}.")
    of_options = (secret_fields(options.get(name)) for name in ("extra_headers", "extra_query"))
    secrets = {value: name for fields in of_options for name, value in fields.items()}
    return (Redactor() if redact is True else redact).for_run({**secrets_of(client), **secrets})


def client_secrets(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets of a client, by name."""
    query = settings.get("default_query")
    fields = query.items() if isinstance(query, Mapping) else ()
    return named_secrets(
        [
            *secrets_of_url(str(settings.get("base_url", ""))).items(),
            *((name, settings.get(name)) for name in ("api_key", "organization", "project")),
            *((str(name), value) for name, value in fields if _SECRET_QUERY.search(str(name))),
            *secret_fields(settings.get("default_headers")).items(),
        ]
    )


def named_secrets(pairs: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the strings among values, by name; a name that occurs again gets a suffix."""
    secrets: dict[str, str] = {}
    for name, value in pairs:
        if isinstance(value, str):
            while secrets.setdefault(name, value) != value:
                name += "'"  # noqa: PLW2901 - another name
    return secrets


def secret_fields(fields: Any) -> dict[str, str]:
    """Return the secret values in headers or a query, by name: without a scheme, and also field by field."""
    secrets: list[tuple[str, str]] = []
    for name, value in fields.items() if isinstance(fields, Mapping) else ():
        if isinstance(value, str) and _SECRET_NAME.search(str(name)):
            whole = _SCHEME.sub("", value)
            parts = [_FIELD.sub(r"\1", part) for part in _BETWEEN.split(whole)]
            secrets += [(str(name), part) for part in parts if not _WORDS.fullmatch(part)]
            secrets.append((str(name), whole))
    return named_secrets(secrets)


def secrets_of_url(url: str) -> dict[str, str]:
    """Return the password and the secret query values of a URL, by name."""
    try:
        parts = urllib.parse.urlsplit(url)
        user, password = parts.username or "", parts.password or ""
        query = urllib.parse.parse_qsl(parts.query)
    except ValueError:
        return {}
    secrets = [(name, value) for name, value in query if _SECRET_QUERY.search(name)]
    if password:
        secrets.append(("password in a URL", urllib.parse.unquote(password)))
        secrets.append(("user in a URL", f"{user}:{password}"))
    elif user:
        secrets.append(("user in a URL", urllib.parse.unquote(user)))
    return named_secrets((name, value) for name, value in secrets if not _WORDS.fullmatch(value))


def shown_url(url: str) -> str:
    """Return a URL without its password and secret query values."""
    head, marker, rest = url.partition("://")
    netloc, slash, path = re.split(r"([/?#]|$)", rest, maxsplit=1)
    path, mark, query = (slash + path).partition("?")
    if mark:
        fields = (field.partition("=") for field in query.split("&"))
        shown = [f"{n}={'...' if v and _SECRET_QUERY.search(n) else v}" if e else n for n, e, v in fields]
        query = "&".join(shown)
    return f"{head}{marker}{netloc.rpartition('@')[2]}{path}{mark}{query}"


def _gather(value: Any, texts: list[str]) -> bool:
    """Collect a value's texts, including keys; False if it is not plain JSON, or is over 100 levels deep."""
    level = [value]
    for _ in range(100):  # level by level, because recursion would need a call per container
        below: list[Any] = []
        for part in level:
            kind = type(part)
            if kind is str:
                texts += (part,)
            elif kind is dict:
                texts += part
                below += part.values()
            elif kind is list or kind is tuple:
                below += part
            elif part is not None and kind not in _SCALARS:
                return False
        if not below:
            return True
        level = below
    return False


def _names_by_secret(secrets: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    named = isinstance(secrets, Mapping)
    pairs = list(secrets.items()) if isinstance(secrets, Mapping) else [("", secret) for secret in secrets]
    if isinstance(secrets, (str, bytes)) or not all(isinstance(value, str) for _, value in pairs):
        raise ConfigError("secrets must be a list of strings, or a dict of strings by name.")
    return {value: "" if not named or str(name).startswith("#") else str(name) for name, value in pairs}


def _behind(env: Mapping[str, str]) -> Mapping[Any, Any]:
    """Return the dict behind `os.environ`: every run reads it, and `os.environ` would decode each value."""
    # The dict has no public name; if it is missing, the mapping itself is read.
    return getattr(env, "_data", env) if env is os.environ else env


def _now_in(env: Mapping[T, T]) -> dict[T, T]:
    """Return a copy of the environment; another thread may delete names meanwhile."""
    try:
        return dict(env)
    except KeyError:
        return {name: value for name in list(env) if (value := env.get(name)) is not None}


def _from(env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, text in env.items():
        if ":" not in text and not _SECRET_NAME.search(name):  # nearly all
            continue
        # The value as programs use it: without a final newline, and without the quotes of a settings file.
        value = _SCHEME.sub("", text.strip().strip("\"'"))
        if _URL.match(value):
            yield from ((name, secret) for secret in secrets_of_url(value).values())
        elif _SECRET_NAME.search(name) and not _PATH.match(value):
            is_password = _PASSWORD_NAME.search(name) and value.lower() not in ("password", "disabled")
            if is_password or not _WORDS.fullmatch(value):
                yield name, value


def _by_value(env: Mapping[str, str]) -> dict[str, str]:
    return {value: name for name, value in _from(env)}


def _places(text: str, forms: Iterable[str]) -> Iterable[tuple[int, int, str]]:
    for form in forms:
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form), form
            at = text.find(form, at + len(form))
