"""Rule of the mode ``guard``: find where a call's values come from, and decide whether to ask a person.

A pure function of texts. It uses no model and no agent, so it also works with other frameworks:

    origins = provenance(GuardedCall("send_mail", {"to": "eve@x.org"}), trusted=[task], results=[page])
    if origins.asks: ...

A person is always asked about a `destructive` call. Nobody is asked about any other call if no untrusted
text was read before it, or if all of the following are true:

1.  At least one value of the call comes from the user, or is a handle.
2.  Each value is known: it occurs in the trusted texts as whole words, or it is a handle. Keys that the
    schema does not list count as values here. Free text (`PROSE`), dates, booleans, nulls, empty values, and
    values that the schema lists or sets as its default need not be known.
3.  Each link, e-mail address and account number (`ADDRESSES`) inside free text occurs in the trusted texts.

A *handle* is an identifier in a field of a JSON result, returned by a call that had only known values: such
an identifier names one of the user's own things. An address is never a handle, nor is the value of a
free-text field. A number is a handle only for an argument whose name matches that of the field.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.parsing import read_json

__all__ = ["GuardedCall", "Knowledge", "Origin", "Origins", "ReadText", "provenance"]

# -- the table -------------------------------------------------------------------------------------------

PROSE = (
    "body",
    "comment",
    "content",
    "description",
    "message",
    "note",
    "subject",
    "summary",
    "text",
    "title",
)
"""Last words of the names of free-text arguments and fields, such as ``email_body``.

If the schema lists names, an argument must be among them to be free text."""
RECIPIENTS = (
    "account", "address", "addresses", "attendees", "bcc", "cc", "channel", "email", "emails", "iban",
    "participants", "phone", "receiver", "recipient", "recipients", "to", "url", "user",
)  # fmt: skip
"""Last words of the names of arguments whose values an answer can make known for later calls."""
ENDINGS = (
    "ai|app|biz|br|cc|ch|cloud|cn|co|com|de|dev|edu|es|eu|fr|gg|gov|in|info|io|it|jp|kr|link|live|ly|me|net|nl|"
    "online|org|page|pl|ru|sh|shop|site|store|tech|to|top|tv|uk|us|vip|xyz|zip"
)
"""Top-level domains that make a host a link without ``http://``; if a path follows, any domain does."""
_W = r"[^\W\u2e80-\U0003ffff]"  # a letter or digit of a script that separates words by spaces
_PATH = r"[^\s<>\"'`\u2e80-\U0003ffff]"
ADDRESSES = {
    "mail": lazy_pattern(
        rf"(?<!{_W}){_W}(?:{_W}|[.+%'-]){{0,64}}@(?:{_W}|-){{1,63}}(?:\.(?:{_W}|-){{1,63}}){{1,9}}", re.I
    ),
    "link": lazy_pattern(
        rf"(?<!{_W})[a-z][a-z0-9+.-]{{0,30}}://{_PATH}+|(?<!{_W})(?:mailto|tel|javascript|data):{_PATH}+"
        rf"|(?<![\w:/])//{_W}{_PATH}*"
        rf"|(?<!{_W})(?:(?:{_W}|-){{1,63}}[.\u3002]){{1,9}}"
        rf"(?:(?:{ENDINGS}|xn--[a-z0-9-]{{2,59}})(?!{_W}|-|\.{_W})|{_W}{{2,63}}(?=/{_W}))"
        rf"(?::\d+)?(?:[/?#]{_PATH}*)?"
        rf"|(?<!{_W})\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?!{_W}|\.\d)(?::\d+)?(?:/{_PATH}*)?",
        re.I,
    ),
    "iban": lazy_pattern(
        rf"(?<!{_W})(?:[A-Za-z]{{2}}\d{{2}}[A-Za-z0-9]{{11,30}}"
        rf"|[A-Z]{{2}}\d{{2}}(?:[ .-][A-Z0-9]{{4}}){{2,7}}(?:[ .-]\d{{1,4}})?)(?!{_W})"
    ),
    "account": lazy_pattern(
        rf"(?<!{_W})(?<!\d\.)(?:\+?\(?\d(?:[ ()-]{{0,2}}\d){{7,33}}"
        rf"|\+?\d{{1,5}}(?:\.\d{{2,5}}){{3,8}}|\d{{3,5}}(?:\.\d{{3,5}}){{2}})(?!{_W}|\.\d)"
    ),
}
"""Forms of addresses: e-mail, link, IBAN, and account or phone numbers of 8 or more digits.

The length of their parts is bounded, so that matching time grows linearly with the text."""
_DATE = lazy_pattern(
    r"(?<!\d)(?<!\d-)"
    r"(?:\d{4}-\d\d?(?:-\d\d?)?(?:[t ]\d\d?:\d\d(?::\d\d(?:\.\d+)?)?)?(?: ?(?:z|[+-]\d\d:?\d\d))?"
    r"|\d\d?:\d\d(?::\d\d)?|\d\d?[./]\d\d?[./]\d{2,4})(?!-?\d)",
    re.I,
)
_GROUPS = r"[1-9]\d{0,2}(?:,\d{3}){1,9}(?:\.\d+)?"  # any other comma is a decimal separator: 12,50
_NUMBER = lazy_pattern(
    rf"(?<!{_W})(?<!\d[.,'])-?(?:{_GROUPS}|\d{{1,3}}(?:\.\d{{3}}){{1,9}},\d+"
    rf"|\d{{1,3}}(?:'\d{{3}}){{1,9}}(?:[.,]\d+)?|\d+(?:[.,]\d+)?)(?!{_W}|[.,']\d)"
)
_CONTINUATION = lazy_pattern(rf"{_W}|[-.+@/&=#~%\\]{_W}")  # the rest of a word, perhaps after one sign
_AROUND = 60  # characters of a source shown on each side of a value
_LONGEST = 200  # maximum characters of a handle
_HANDLE = re.compile(r"[^\W_][\w.:#/-]*")  # form of an identifier


class ReadText(NamedTuple):
    """A text that the model has read and the user did not write.

    Args:
        text: Result of a tool, or a summary, a notice, a description.
        source: Origin to show to a person, such as the tool's name.
        call: The call that returned the result; None for any other text, which provides no handles.
        is_trusted: True if the tool only returns text that its owner wrote. Its results then count as the
            user's own words.
        fields: Name and value of each field of the result; None to read the fields from `text`.
    """

    text: str
    source: str = ""
    call: GuardedCall | None = None
    is_trusted: bool = False
    fields: Sequence[tuple[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class GuardedCall:
    """A call to judge.

    Args:
        tool: Name of the tool.
        args: The arguments.
        parameters: JSON Schema of the arguments; values in its enums and defaults need not be known.
        prose: Further names of arguments that hold free text.
        recipient: Names of arguments whose values must be the user's words; handles are not accepted.
        destructive: True if the effect cannot be undone.
    """

    tool: str
    args: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    prose: Collection[str] = ()
    recipient: Collection[str] = ()
    destructive: bool = False


Kind = Literal["you", "source", "nowhere", "free"]


class Origin(NamedTuple):
    """Where one value of a call comes from.

    Args:
        argument: Name of the argument, such as ``to`` or ``guests.0``.
        value: The value as text; for free text with an unknown address, that address.
        kind: ``you``: the value is in the trusted texts. ``source``: the value is in another text that the
            model read. ``nowhere``: the value is in no text, so the model chose it. ``free``: not checked.
        is_strange: True if the value is a reason to ask.
        source: The newest source that contains the value, for the kind ``source``.
        around: The words around the value in that source.
    """

    argument: str
    value: str
    kind: Kind
    is_strange: bool = False
    source: str = ""
    around: str = ""


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the values of a call come from, the strange ones first.

    Args:
        values: One origin for each value.
        reason: Why a person should be asked: ``destructive``, ``strange`` (a value is not known) or
            ``unvouched`` (nothing comes from the user); empty if there is no reason.
    """

    values: tuple[Origin, ...]
    reason: Literal["", "destructive", "strange", "unvouched"] = ""

    @property
    def asks(self) -> bool:
        """True if a person should be asked."""
        return self.reason != ""

    def recipients(self, names: Collection[str] = ()) -> list[str]:
        """Return the strange values that name a recipient; a person's answer can make them known.

        Args:
            names: Names of arguments in addition to `RECIPIENTS`.
        """
        return [
            origin.value
            for origin in self.values
            if origin.is_strange
            and (
                _ends_in(_last((*origin.argument.split("."),)), (*RECIPIENTS, *names))
                or _address_of(origin.value) is not None
            )
        ]


def provenance(call: GuardedCall, trusted: Iterable[str], results: Iterable[ReadText]) -> Origins:
    """Return where the values of a call come from; see the module docstring for the rule.

    Args:
        call: The call.
        trusted: The texts that the user wrote.
        results: All other texts that the model has read, in order.
    """
    knowledge = Knowledge()
    for text in trusted:
        knowledge.trust(text)
    for result in results:
        knowledge.read(result)
    return knowledge.origins(call)


class Knowledge:
    """Texts read so far; the incremental form of `provenance`."""

    def __init__(self) -> None:
        self._raw: list[str] = []  # trusted texts
        self._words: list[str] = []  # trusted texts, normalised
        self._figures: set[str] = set()  # numbers in the trusted texts
        self._numbers: set[Decimal] = set()
        self._addresses: set[str] = set()
        self._handles: dict[str, set[str]] = {}
        self._others: list[ReadText] = []

    def trust(self, text: str) -> None:
        """Add a text that the user wrote."""
        self._raw.append(text)
        self._words.append(_normal(text))
        figures = {figure for figure, _ in _numbers_in(text)}
        self._figures |= figures
        self._numbers |= set(map(Decimal, figures))
        self._addresses |= {address for address, _ in _addresses_in(text)}

    def read(self, result: ReadText) -> None:
        """Add a text that the model read."""
        if result.is_trusted:
            self.trust(result.text)
            return
        call = result.call
        if call is not None and not any(origin.is_strange for origin in self._values(call, shows=False)):
            for name, value in fields_in(result.text) if result.fields is None else result.fields:
                if is_handle(name, value):
                    self._handles.setdefault(_normal(str(value)), set()).add(_name(name))
        self._others.append(result)

    def origins(self, call: GuardedCall) -> Origins:
        """Return where the values of a call come from."""
        values = sorted(self._values(call, shows=True), key=lambda origin: not origin.is_strange)
        if call.destructive:
            return Origins(tuple(values), "destructive")
        if not self._others:  # the model has read only trusted texts
            return Origins(tuple(value._replace(is_strange=False) for value in values))
        if values and values[0].is_strange:
            return Origins(tuple(values), "strange")
        is_vouched = any(origin.kind in ("you", "source") for origin in values)
        return Origins(tuple(values), "" if is_vouched else "unvouched")

    def _values(self, call: GuardedCall, *, shows: bool) -> Iterator[Origin]:
        """Yield the origins of all values; search the texts for their sources only if `shows`."""
        for names, value, schema, is_listed in _leaves(call.args, call.parameters, call.parameters):
            text = value if isinstance(value, str) else json.dumps(value)
            path, name = ".".join(map(str, names)), _last(names)
            kind = self._kind(name, value, call)
            if kind in ("you", "source"):
                yield self._found(path, text, shows=shows) if kind == "source" else Origin(path, text, "you")
            elif isinstance(value, str) and _ends_in(name, (*(PROSE if is_listed else ()), *call.prose)):
                unknown = dict.fromkeys(
                    found for address, found in _addresses_in(text) if address not in self._addresses
                )
                for found in unknown:
                    yield self._found(path, found, shows=shows, is_strange=True)
                if not unknown:
                    yield Origin(path, text, "free")
            elif _is_free(value, schema):
                yield Origin(path, text, "free")
            else:
                yield self._found(path, text, shows=shows, is_strange=True)

    def _kind(self, name: str, value: Any, call: GuardedCall) -> Literal["you", "source", ""]:
        """Return ``you`` for a value in the trusted texts, ``source`` for a handle, otherwise ``""``."""
        if isinstance(value, bool) or value in (None, "", [], {}):
            return ""
        written = str(value)
        word, address = _normal(written), _address_of(written)
        if _is_folded(written) and not any(written in text for text in self._raw):
            return ""  # the value only looks like one of the user's values
        if (address in self._addresses) or self._has(value, word, is_text=address is None):
            return "you"
        names = self._handles.get(word)
        if not names or address is not None or name in call.recipient:
            return ""
        if isinstance(value, (int, float)) or word.replace(".", "", 1).isdigit():
            return "source" if any(_same(other, _name(name)) for other in names) else ""
        return "source"

    def _has(self, value: Any, word: str, *, is_text: bool) -> bool:
        """Return True if the trusted texts contain a value, as a number or as consecutive words."""
        if isinstance(value, (int, float)):
            return Decimal(str(value)) in self._numbers
        if _NUMBER.fullmatch(word) is not None:
            # compare as written, because it may be a code: 007 is not 7
            return _figure(word) in self._figures
        return is_text and any(_place(word, text) is not None for text in self._words)

    def _found(self, path: str, value: str, *, shows: bool, is_strange: bool = False) -> Origin:
        word = _normal(value)
        # Search the results first, from newest to oldest, then the other texts, such as summaries.
        newest = self._others[::-1] if shows and word else []
        results = [text for text in newest if text.call is not None]
        for result in [*results, *(text for text in newest if text.call is None)]:
            text = _flat(result.text)
            if (at := _place(word, text.lower())) is not None:
                around = text[max(0, at - _AROUND) : at + len(word) + _AROUND].strip()
                return Origin(path, value, "source", is_strange, result.source, around)
        return Origin(path, value, "nowhere" if is_strange else "source", is_strange)


# -- values of a call ------------------------------------------------------------------------------------


Path = tuple[str | int, ...]


def _leaves(
    value: Any, schema: Any, root: Mapping[str, Any], path: Path = (), *, is_listed: bool = True
) -> Iterator[tuple[Path, Any, Any, bool]]:
    """Yield each value inside a value, with its path and schemas, and whether the schema lists its name.

    Keys that the schema does not list are values, too; but the names of the arguments are not if the schema
    lists no names at all.
    """
    schemas = [*_options(schema, root)]
    if isinstance(value, Mapping) and value:
        named: dict[str, Any] = {}
        for option in schemas:
            named |= option.get("properties") or {}
        has_names = any("properties" in option for option in _options(root, root))
        for key, inner in value.items():
            inside = (*path, key)
            if key not in named and (path or has_names):
                yield inside, str(key), {}, False
            is_known = is_listed and (key in named or not has_names)
            yield from _leaves(inner, named.get(key, {}), root, inside, is_listed=is_known)
    elif isinstance(value, (list, tuple)) and value:
        items: Any = next((option["items"] for option in schemas if option.get("items")), {})
        for number, inner in enumerate(value):
            yield from _leaves(inner, items, root, (*path, number), is_listed=is_listed)
    else:
        yield path, value, schemas, is_listed


def _options(schema: Any, root: Mapping[str, Any], depth: int = 8) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those that it refers to."""
    if not isinstance(schema, Mapping) or not depth:
        return
    yield schema
    target: Any = root
    for part in str(schema.get("$ref", "")).split("/")[1:]:
        target = target.get(part) if isinstance(target, Mapping) else None
    inner = [] if target is root else [target]
    for key in ("anyOf", "oneOf", "allOf"):
        inner += schema.get(key) or []
    for option in inner:
        yield from _options(option, root, depth - 1)


def _is_free(value: Any, schemas: Iterable[Mapping[str, Any]]) -> bool:
    if isinstance(value, bool) or value in (None, "", [], {}):
        return True
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        return True
    return any(
        value in (option.get("enum") or ())
        or ("const" in option and value == option["const"])
        or ("default" in option and value == option["default"])
        for option in schemas
    )


# -- fields of a result ----------------------------------------------------------------------------------


def fields_in(text: str) -> list[tuple[str, Any]]:
    """Return the names and values of all fields of a JSON text; empty for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return []
    try:
        return [*_fields("", read_json(text))]
    except ValueError:
        return []


def _fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _fields(key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(name, inner)
    else:
        yield name, value


def is_handle(name: str, value: Any) -> bool:
    """Return True if a field's value can name one of the user's things."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or _ends_in(name, PROSE):
        return False
    text = str(value)
    is_short = len(text) <= _LONGEST and _HANDLE.fullmatch(text) is not None
    return is_short and not any(True for _ in _addresses_in(text))


# -- texts -----------------------------------------------------------------------------------------------


def _flat(text: str) -> str:
    """Return a text without invisible characters, with a single space for any white space."""
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text)
        text = "".join(char for char in plain if unicodedata.category(char) != "Cf")
    return " ".join(text.split())


def _normal(text: str) -> str:
    return _flat(text).lower()


def _is_folded(text: str) -> bool:
    """Return True if `_flat` replaces or removes more than white space."""
    return not text.isascii() and " ".join(text.split()) != _flat(text)


def _place(word: str, text: str) -> int | None:
    """Return where a text contains `word` as whole words; None if nowhere, or if `word` has only signs."""
    at = text.find(word) if any(map(str.isalnum, word)) else -1
    while at >= 0:
        before, after = text[max(0, at - 2) : at], text[at + len(word) : at + len(word) + 2]
        starts = not before.endswith(("/", ".", "~", "\\")) and not _is_continued(word[0], before[::-1])
        if starts and not _is_continued(word[-1], after):
            return at
        at = text.find(word, at + 1)
    return None


def _is_continued(edge: str, next_text: str) -> bool:
    """Return True if a word continues in `next_text`: directly, or after one sign such as a hyphen."""
    has_blanks = not edge.isalnum() or re.match(_W, edge) is not None  # Chinese uses no spaces
    return has_blanks and _CONTINUATION.match(next_text) is not None


def _figure(text: str) -> str:
    """Return a number without group separators, and with a decimal point."""
    text = text.replace("'", "")
    if "," in text and not re.fullmatch(f"-?{_GROUPS}", text):
        return text.replace(".", "").replace(",", ".")
    return text.replace(",", "")


def _numbers_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each number in a text, as `_figure` returns it and as written.

    Only thin and no-break spaces group digits, not ordinary spaces.
    """
    plain = re.sub(r"(?<=\d)[\xa0\u2009\u202f](?=\d{3}(?!\d))", "'", text)
    for match in _NUMBER.finditer(_flat(plain)):
        yield _figure(match[0]), match[0]


def without(text: str, values: Iterable[str]) -> str:
    """Return a text with some values removed, in whatever form the text contains them."""
    text = _flat(text) if values else text
    for value in values:
        word, address = _normal(value), _address_of(value)
        found = [shown for same, shown in _addresses_in(text) if same == address]
        if _NUMBER.fullmatch(word):
            found += [
                shown for figure, shown in _numbers_in(text) if Decimal(figure) == Decimal(_figure(word))
            ]
        for shown in (*found, word):
            text = re.sub(rf"(?<!{_W}){re.escape(shown)}(?!{_W})", "\n", text, flags=re.I) if shown else text
    return text


def _addresses_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield each address in a text, in its canonical form and as written."""
    rest = _flat(text)
    for kind, form in ADDRESSES.items():
        rest = _DATE.sub("\n", rest) if kind == "account" else rest
        for match in form.finditer(rest):
            found = match[0].rstrip(".,;:!?)]}'-")
            yield _canonical(kind, found), found
        rest = form.sub("\n", rest)  # report each address as one kind only


def _address_of(text: str) -> str | None:
    """Return the canonical form of a text that consists of one address; None for any other text."""
    flat = _flat(text)
    for kind, form in ADDRESSES.items():
        if form.fullmatch(flat) and (kind != "account" or not _DATE.fullmatch(flat)):
            return _canonical(kind, flat)
    return None


def _canonical(kind: str, found: str) -> str:
    if kind in ("iban", "account"):
        return re.sub(r"[ ().+-]", "", found).upper()
    if kind == "mail":
        return found.lower()
    scheme, sep, rest = found.replace("\u3002", ".").partition("://")
    host, slash, path = (rest if sep else scheme.removeprefix("//")).partition("/")
    scheme = scheme.lower() if sep and scheme.lower() not in ("http", "https") else ""
    return f"{scheme}:{host.lower()}{slash}{path}".rstrip("/")


# -- names -----------------------------------------------------------------------------------------------


def _last(path: Path) -> str:
    """Return the name of the innermost argument on a path."""
    return next((str(part) for part in reversed(path) if not str(part).isdigit()), "")


def _name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("_").lower().replace("-", "_")


@lru_cache(4_096)
def _ends_in(name: str, names: tuple[str, ...]) -> bool:
    """Return True if a name is one of the names, or ends in one."""
    name = _name(name)
    return any(_same(name, _name(other)) for other in names if len(_name(other)) <= len(name))


def _same(one: str, other: str) -> bool:
    """Return True if two names are equal, or one ends in the other: ``file_id`` and ``id``."""
    return bool(one and other) and (one == other or one.endswith(f"_{other}") or other.endswith(f"_{one}"))
