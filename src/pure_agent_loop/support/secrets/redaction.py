"""Taking secrets out of text before it is recorded, shown or sent on.

Two ways: exact values that are known (from the environment, from what was configured), also in base64 and
percent-encoding; and the shapes of well-known keys. The exact values are found by a table of their
five-letter pieces, so that text without secrets costs next to nothing.
"""

from __future__ import annotations

import copy
import os
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.secrets.secret_forms import forms_of
from pure_agent_loop.support.text import to_jsonable

MIN_LENGTH = 8  # a shorter value stands in too many texts by chance
REMOVED = "[secret removed]"
_PIECE = 5  # letters; every secret of n letters holds one that begins at a multiple of n - 4
_TAIL = 4
_LONG = 10_000

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS$|_PWD$|CREDENTIAL|COOKIE|SIGNATURE"
    r"|AUTH(?!OR(?!I[SZ]))",  # GIT_AUTHOR_EMAIL is no secret
    re.I,
)
_PASSWORD_NAME = re.compile(r"SECRET|PASSWORD|PASSWD|PASSPHRASE|_PASS$|_PWD$", re.I)
_SCHEME = re.compile(r"^(?:Bearer|Basic|Token) +(?=\S+$)", re.I)
_WORDS = re.compile(r"[a-z]{1,15}|[A-Z]{1,15}|[A-Z]?[a-z]+([ _-][A-Za-z][a-z]*)*|[0-9.]{1,11}")
_PATH = re.compile(r"[/~.]|[A-Za-z]:[\\/]")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://")
_SECRET_QUERY = re.compile(r"key|token|secret|passw|sig|auth|code|credential", re.I)
_MARKS = "&\\%"  # of escaped forms, which are many
_SCALARS = frozenset({bool, int, float})
T = TypeVar("T")


class Redactor:
    """Removes secrets from texts.

    Args:
        secrets: Values to remove, by name or without; those under eight characters are passed over.
        env: Variables whose values are secrets if their names say so, and URLs with a password in any of
            them; those of this process if None.
        shapes: Whether well-known shapes of keys are removed too.

    Raises:
        ConfigError: A secret is no text.
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
        self._raw = _behind(self._env)
        self._later: tuple[dict[Any, Any], Redactor | None] = _now_in(self._raw), None
        self._know({**_by_value(_now_in(self._env)), **self._given})

    def _know(self, found: Mapping[str, str]) -> None:
        self._found = {value: name for value, name in found.items() if len(value) >= MIN_LENGTH}
        forms = ((form, name) for value, name in self._found.items() for form in forms_of(value))
        self._forms = {form: name for form, name in forms if len(form) >= MIN_LENGTH}
        self.is_empty = not self._forms  # shapes are looked for all the same
        self._by_piece: dict[str, set[str]] = {}
        self._by_tail: dict[str, set[str]] = {}
        for form in self._forms:
            for start in range(len(form) - _PIECE + 1):
                self._by_piece.setdefault(form[start : start + _PIECE], set()).add(form)
            for end in range(1, len(form)):
                self._by_tail.setdefault(form[max(0, end - _TAIL) : end], set()).add(form)
        self._pieces = frozenset(self._by_piece)
        self._step = min(map(len, self._forms), default=MIN_LENGTH) - _PIECE + 1

    def __repr__(self) -> str:
        return f"Redactor({len(self._forms)} forms of known secrets)"

    def as_of_now(self) -> Redactor:
        """One that also knows what has come into the environment since; itself, as long as nothing has."""
        seen = _now_in(self._raw)
        if seen != self._later[0]:
            new, found = None, _by_value(_now_in(self._env))
            if found.keys() - self._found.keys():
                new = copy.copy(self)
                new._know({**found, **self._found})
            self._later = seen, new
        return self._later[1] or self

    def with_secrets(self, secrets: Mapping[str, str]) -> Redactor:
        """One that knows more."""
        mine = {name or f"#{number}": value for number, (value, name) in enumerate(self._given.items())}
        return Redactor({**secrets, **mine}, self._env, shapes=self._shapes) if secrets else self

    def joined(self, other: Redactor | None) -> Redactor:
        """One that also knows what another one was given."""
        more = {} if other is None or other is self else other._given
        return self.with_secrets({name or f"+{number}": v for number, (v, name) in enumerate(more.items())})

    def redact(self, text: str) -> str:
        """The text without known secrets and without what looks like one. Never raises."""
        text = self.redact_known(text)
        if not self._shapes:
            return text
        from pure_agent_loop.support.secrets.secret_shapes import remove_shapes  # many patterns

        return remove_shapes(text, REMOVED)

    def redact_known(self, text: str) -> str:
        """The text without known secrets."""
        spans = self._spans(text)
        return self._without(text, spans) if spans else text

    def redact_value(self, value: T) -> T:
        """A value of JSON's types, with every text in it, keys too, without known secrets.

        What has another type becomes its JSON form. If nothing is removed, it is the value itself.
        """
        if not self._forms:
            return value
        texts: list[str] = []
        try:  # nearly always nothing is in any of them
            is_clean = _gather([value], texts, 100) and not self._likely("\n".join(texts))
        except TypeError:  # a key that is no text
            is_clean = False
        return value if is_clean else self._walk(value)

    def stream(self) -> StreamRedactor:
        """For one text that comes in pieces."""
        return StreamRedactor(self)

    def clean_error(self, error: BaseException) -> None:
        """Take known secrets out of what an error, and the errors behind it, will show."""
        seen: set[int] = set()
        each: BaseException | None = error
        while each is not None and id(each) not in seen:
            seen.add(id(each))
            for name in ("args", "message", "said", "body", "strerror", "filename", "__notes__"):
                old = getattr(each, name, None)
                new: Any = self._walk(old) if isinstance(old, (str, tuple, list, dict)) else old
                if new is not old:
                    _set_quietly(each, name, tuple(new) if name == "args" else new)
            each = each.__cause__ or each.__context__

    def _walk(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return self.redact_known(value)
        if value is None or isinstance(value, (bool, int, float)) or depth > 200:
            return REMOVED if depth > 200 else value  # nobody has looked; arguments are half as deep
        if isinstance(value, Mapping):
            clean = ((self.redact_known(k) if isinstance(k, str) else k, v) for k, v in value.items())
            pairs = {key: self._walk(each, depth + 1) for key, each in clean}
            same = all(a is b and value[a] is c for (b, c), a in zip(pairs.items(), value, strict=False))
            return value if same and len(pairs) == len(value) else pairs
        if isinstance(value, (list, tuple)):
            items = [self._walk(each, depth + 1) for each in value]
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, BaseException):
            return value
        return self._walk(to_jsonable(value), depth + 1)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """Where known secrets stand, in order, those that overlap as one: start, end, name."""
        if not self._forms or len(text) < MIN_LENGTH:
            return []
        found = sorted(_places(text, self._likely(text)))
        spans: list[tuple[int, int, str]] = []
        for start, end, form in found:
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]), spans[-1][2])
            else:
                spans.append((start, end, self._forms[form]))
        return spans

    def _likely(self, text: str) -> Iterable[str]:
        """Forms that may stand in a text, and all that do."""
        # To look for one form takes about as long as to cut so much text into a thousand pieces.
        if len(text) > _LONG and len(self._forms) * self._step < 1_000:
            missing = [mark for mark in _MARKS if mark not in text]
            likely = (form for form in self._forms if not any(mark in form for mark in missing))
            return [form for form in likely if form in text]
        pieces = [text[at : at + _PIECE] for at in range(0, len(text) - _PIECE + 1, self._step)]
        return {form for piece in self._pieces.intersection(pieces) for form in self._by_piece[piece]}

    def _without(self, text: str, spans: list[tuple[int, int, str]]) -> str:
        out, position = [], 0
        for start, end, name in spans:
            out += [text[position:start], f"[secret:{name} removed]" if name else REMOVED]
            position = end
        return "".join([*out, text[position:]])

    def _begun(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret."""
        longest = 0
        for length in range(1, _TAIL):  # these are the first letters themselves
            if text[-length:] in self._by_tail:
                longest = length
        for form in self._by_tail.get(text[-_TAIL:], ()):
            for count in range(min(len(form) - 1, len(text)), longest, -1):
                if text.endswith(form[:count]):
                    longest = count
                    break
        return min(longest, len(text))

    def _may_begin(self, text: str) -> bool:
        tails = self._by_tail
        return text[-1:] in tails or text[-2:] in tails or text[-3:] in tails or text[-4:] in tails


class StreamRedactor:
    """Removes known secrets from a text that comes in pieces, also where one is cut in two.

    Put together, the pieces are what `Redactor.redact_known` makes of the whole text.

    Args:
        redactor: Knows the secrets.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, chunk: str) -> str:
        """As much as can be shown; the beginning of what may be a secret waits for the next piece."""
        redactor = self._redactor
        if not redactor._forms:
            return chunk
        text = self._held + chunk
        spans = redactor._spans(text)
        keep = len(text)
        if redactor._may_begin(text):
            keep -= redactor._begun(text)
        for start, end, _ in reversed(spans):
            if start < keep < end:  # it may be a part of a longer one
                keep = start
        self._held = text[keep:]
        if not spans:
            return text[:keep]
        return redactor._without(text[:keep], [span for span in spans if span[1] <= keep])

    def flush(self) -> str:
        """The rest: the text is over."""
        text, self._held = self._held, ""
        return self._redactor.redact_known(text)


def redactor_for(redact: bool | Redactor, client: Any, options: Mapping[str, Any]) -> Redactor | None:
    """What an agent uses: the environment's secrets, those of its client and those in its options.

    Args:
        redact: False for none; a redactor to use, which learns the client's secrets too.
        client: Its model; what it names in `secrets` is removed.
        options: Fields of its requests; ``extra_headers`` and ``extra_query`` may hold keys.

    Raises:
        ConfigError: `redact` is something else.
    """
    if redact is False:
        return None
    if redact is not True and not isinstance(redact, Redactor):
        raise ConfigError(f"redact must be True, False or a Redactor; it is {redact!r:.80}.")
    known = getattr(client, "secrets", None)
    secrets = dict(known) if isinstance(known, Mapping) else {}
    for name in ("extra_headers", "extra_query"):
        secrets.update(secret_fields(options.get(name)))
    return Redactor(secrets) if redact is True else redact.with_secrets(secrets)


def client_secrets(settings: Mapping[str, Any]) -> dict[str, str]:
    """What a client must not have repeated to anybody, by name.

    Args:
        settings: What the SDK's client is made with.
    """
    found = secret_fields(settings.get("default_headers"))
    query = settings.get("default_query")
    for name, value in query.items() if isinstance(query, Mapping) else ():
        if isinstance(value, str) and _SECRET_QUERY.search(str(name)):
            found[str(name)] = value
    for name in ("api_key", "organization", "project"):
        if isinstance(settings.get(name), str):
            found[name] = settings[name]
    return {**found, **secrets_of_url(str(settings.get("base_url", "")))}


def secret_fields(fields: Any) -> dict[str, str]:
    """The values whose names say that they are secret, of headers or of a query; the scheme before it too."""
    found: dict[str, str] = {}
    for name, value in fields.items() if isinstance(fields, Mapping) else ():
        if isinstance(value, str) and _SECRET_NAME.search(str(name)):
            found[str(name)] = value.rpartition(" ")[2] if " " in value else value
    return found


def secrets_of_url(url: str) -> dict[str, str]:
    """The password, and what is secret in the query, of an address; by name."""
    try:
        parts = urllib.parse.urlsplit(url)
        user, password = parts.username or "", parts.password or ""
        query = urllib.parse.parse_qsl(parts.query)
    except ValueError:
        return {}
    found = {name: value for name, value in query if _SECRET_QUERY.search(name)}
    if password:
        found["password in a URL"] = urllib.parse.unquote(password)
        found["user in a URL"] = f"{user}:{password}"
    elif user:
        found["user in a URL"] = urllib.parse.unquote(user)
    return {name: value for name, value in found.items() if not _is_plain(value)}


def shown_url(url: str) -> str:
    """An address without its password and without what is secret in its query."""
    head, marker, rest = url.partition("://")
    netloc, slash, path = re.split(r"([/?#]|$)", rest, maxsplit=1)
    path, mark, query = (slash + path).partition("?")
    if mark:
        fields = (field.partition("=") for field in query.split("&"))
        shown = [f"{n}={'...' if v and _SECRET_QUERY.search(n) else v}" if e else n for n, e, v in fields]
        query = "&".join(shown)
    return f"{head}{marker}{netloc.rpartition('@')[2]}{path}{mark}{query}"


def _gather(values: Iterable[Any], texts: list[str], depth: int) -> bool:
    """Collect the texts in some values, keys too; False if one of them is not plain, or nested deeper."""
    for value in values:
        kind, inner = type(value), None
        if kind is str:
            texts += (value,)
        elif kind is dict:
            texts += value
            inner = value.values()
        elif kind is list or kind is tuple:
            inner = value
        elif value is not None and kind not in _SCALARS:
            return False
        if inner is not None and not (depth and _gather(inner, texts, depth - 1)):
            return False
    return True


def _names_by_secret(secrets: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    named = isinstance(secrets, Mapping)
    pairs = list(secrets.items()) if isinstance(secrets, Mapping) else [("", each) for each in secrets]
    if isinstance(secrets, (str, bytes)) or not all(isinstance(value, str) for _, value in pairs):
        raise ConfigError("secrets must be a list of texts, or texts by name.")
    return {value: "" if not named or str(name).startswith("#") else str(name) for name, value in pairs}


def _behind(env: Mapping[str, str]) -> Mapping[Any, Any]:
    """The bytes of the program's own environment: each run reads all of it, and decoding costs as much."""
    raw: Mapping[Any, Any] | None = getattr(os, "environb", None)  # Windows has none
    # Tests put a dict in the place of the environment; the bytes are of the old one then.
    return raw if raw is not None and env is os.environ and type(env) is type(raw) else env


def _now_in(env: Mapping[T, T]) -> dict[T, T]:
    """A copy; another thread may take names away meanwhile."""
    try:
        return dict(env)
    except KeyError:
        return {name: value for name in list(env) if (value := env.get(name)) is not None}


def _from(env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, written in env.items():
        if ":" not in written and not _SECRET_NAME.search(name):  # nearly all
            continue
        # As it is used: files end with a line, and some programs leave the quotes of a settings file.
        value = _SCHEME.sub("", written.strip().strip("\"'"))
        if _URL.match(value):
            yield from ((name, each) for each in secrets_of_url(value).values())
        elif _SECRET_NAME.search(name) and not _PATH.match(value):
            is_password = _PASSWORD_NAME.search(name) and value.lower() not in ("password", "disabled")
            if is_password or not _is_plain(value):
                yield name, value


def _by_value(env: Mapping[str, str]) -> dict[str, str]:
    return {value: name for name, value in _from(env)}


def _is_plain(value: str) -> bool:
    """True for a word or a small number, which would be missed in ordinary text."""
    return _WORDS.fullmatch(value) is not None


def _places(text: str, forms: Iterable[str]) -> Iterable[tuple[int, int, str]]:
    for form in forms:
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form), form
            at = text.find(form, at + len(form))


def _set_quietly(target: Any, name: str, value: Any) -> None:
    try:
        setattr(target, name, value)
    except (AttributeError, TypeError):  # a foreign error may not allow it
        return
