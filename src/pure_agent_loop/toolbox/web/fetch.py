"""The tool that reads a web page: only public addresses, only text, only so much, and marked as untrusted.

Every address a name stands for is checked, and the connection goes to the very address that was checked.
All of that is done again for each redirect. Proxies in the environment are not used: they would resolve
names for us.
"""

from __future__ import annotations

import codecs
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import Prompts, current_prompts
from pure_agent_loop.support.secrets.redaction import shown_url
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.untrusted import mark_untrusted
from pure_agent_loop.toolbox.web.addresses import (
    AddressError,
    AddressRules,
    IPAddress,
    Target,
    read_address,
    read_url,
)
from pure_agent_loop.toolbox.web.wire_read import (
    REDIRECTS,
    Answer,
    WireError,
    WireLimits,
    is_text,
    media_type,
    request,
)
from pure_agent_loop.toolbox.web.words import say
from pure_agent_loop.toolbox.words import TOOLS

PAGE_CHARS = 20_000
_KEPT_PAGES = 4
Resolver = Callable[[str, int], Sequence[str]]

_META_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{1,40})", re.I)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-zA-Z0-9_:.-]{1,40})", re.I)
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Not what a page is written in; some of them take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"})


class FetchError(Exception):
    """A page that was not fetched. The message is for the model."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    url: str
    text: str
    is_cut: bool


class Fetch:
    """A tool that reads web pages.

    Args:
        allow_hosts: Only these names, ``example.org`` or ``*.example.org``; empty for all public ones.
        deny_hosts: Never these.
        allow_private: Whether loopback and private addresses may be opened. Link-local ones, where cloud
            machines keep their keys, stay closed.
        allow_addresses: Addresses that may be opened although they are private, with their port or without:
            ``127.0.0.1:8000``, ``10.0.0.5``, ``[::1]:8000``.
        allow_ports: Ports besides 80, 443, 8080 and 8443.
        max_bytes: Of a page, unpacked; the rest is left out, with a note.
        timeout: Seconds for all of it, redirects included.
        read_timeout: Seconds until the server says something.
        max_redirects: So many are followed.
        resolver: ``(host, port) -> IP addresses`` instead of the system's.
        ca_file: Certificates to trust instead of the system's, for servers of your own.
        prompts: The words around the text; those of the run if None.

    Raises:
        ConfigError: An argument cannot work.
    """

    def __init__(
        self,
        allow_hosts: Iterable[str] = (),
        deny_hosts: Iterable[str] = (),
        allow_private: bool = False,
        max_bytes: int = 2_000_000,
        timeout: float = 30.0,
        max_redirects: int = 5,
        resolver: Resolver | None = None,
        *,
        allow_addresses: Iterable[str] = (),
        allow_ports: Iterable[int] = (),
        read_timeout: float = 10.0,
        ca_file: str | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        for name, value in {"max_bytes": max_bytes, "timeout": timeout, "read_timeout": read_timeout}.items():
            if not _is_positive(value):
                raise ConfigError(f"{name} must be a positive number; it is {value!r:.80}.")
        self._rules = AddressRules(
            _names("allow_hosts", allow_hosts),
            _names("deny_hosts", deny_hosts),
            allow_private,
            frozenset(_address(each) for each in _names("allow_addresses", allow_addresses)),
            frozenset(allow_ports),
        )
        self._max_bytes = int(max_bytes)
        self._timeout = timeout
        self._read_timeout = read_timeout
        self._max_redirects = max_redirects
        self._resolve = resolver or _resolve
        self._words = prompts
        # The system's own authorities take long to read, and not every run fetches.
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._pages: OrderedDict[str, _Loaded] = OrderedDict()
        self._lock = threading.Lock()

    def tool(self) -> Tool:
        """The tool ``fetch``.

        It is marked as ``read_only`` if there are `allow_hosts`: an address can carry what was read here to
        whoever owns the host, so a page of anybody is no harmless thing to read.
        """
        read_only = bool(self._rules.allow_hosts)
        return Tool(
            self.fetch,
            read_only=read_only,
            idempotent=True,
            timeout=self._timeout + 15,
            words=TOOLS["fetch"],
        )

    def fetch(self, url: str, offset: int = 0) -> str:
        """Read a web page or a text from the web. Long ones come in parts; the end of each says how to go on.

        Args:
            url: The whole address, beginning with https:// or http://.
            offset: The character to begin with, for the next part of a long text.
        """
        start = max(0, offset)
        page = self._kept(url) if start else None
        if page is None:
            page = self._load(url)
            self._keep(url, page)
        if start and start >= len(page.text):
            raise FetchError(say("past_text", total=len(page.text), offset=start))
        piece = page.text[start : start + PAGE_CHARS]
        framed = mark_untrusted(piece, shown_url(page.url), self._words)
        note = self._note(page, start, start + len(piece))
        return f"{framed}\n{note}" if note else framed

    def _note(self, page: _Loaded, start: int, end: int) -> str:
        words, total = self._words or current_prompts(), len(page.text)
        if end >= total and start == 0 and not page.is_cut:
            return ""
        what = words.page_next.format(offset=end) if end < total else ""
        what = what or (words.page_cut if page.is_cut else words.page_end)
        return words.page_part.format(start=start, end=end, total=total, next=what)

    def _kept(self, url: str) -> _Loaded | None:
        with self._lock:
            return self._pages.get(url)

    def _keep(self, url: str, page: _Loaded) -> None:
        with self._lock:
            self._pages[url] = page
            self._pages.move_to_end(url)
            if len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)

    def _load(self, url: str) -> _Loaded:
        limits = WireLimits(self._max_bytes, self._read_timeout, time.monotonic() + self._timeout)
        try:
            target, answer = self._follow(url, limits)
            return _loaded(target, answer)
        except (AddressError, WireError) as error:
            raise FetchError(say("sentence", text=error)) from None

    def _follow(self, url: str, limits: WireLimits) -> tuple[Target, Answer]:
        target = read_url(url)
        for _ in range(self._max_redirects + 1):
            answer = self._ask(target, limits)
            if answer.status not in REDIRECTS or "location" not in answer.headers:
                return target, answer
            target = _redirected(target, answer.headers["location"])
        raise WireError(say("leads_on", count=self._max_redirects))

    def _ask(self, target: Target, limits: WireLimits) -> Answer:
        self._rules.check_name(target)
        addresses = self._rules.checked(target, self._found(target))
        if self._context is None:
            self._context = ssl.create_default_context()
        return request(target, addresses, self._context, limits)

    def _found(self, target: Target) -> Sequence[str]:
        if ":" in target.host or target.host.replace(".", "").isdigit():
            return [target.host]
        if target.host.endswith(".localhost"):  # no name server has a say in these
            return ["127.0.0.1"]
        try:
            return list(self._resolve(target.host, target.port))
        except (OSError, UnicodeError):
            raise WireError(say("no_host", host=target.host)) from None


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _redirected(target: Target, location: str) -> Target:
    # Header lines are read as Latin-1; servers write UTF-8 into them all the same.
    location = location.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        joined = urllib.parse.urljoin(target.url, location)
    except ValueError:
        raise AddressError(say("leads_nowhere")) from None
    try:
        new = read_url(joined)
    except AddressError as error:
        raise AddressError(say("leads_elsewhere", error=error)) from None
    if target.scheme == "https" and new.scheme == "http":
        raise AddressError(say("leads_to_http"))
    return new


def _loaded(target: Target, answer: Answer) -> _Loaded:
    from pure_agent_loop.toolbox.web.html_text import clean_page, html_to_text  # with the table of all names

    if answer.status >= 400 or answer.status in REDIRECTS:
        raise WireError(say("status", status=answer.status))
    if not is_text(answer.headers) or _is_binary(answer.body):
        raise WireError(say("page_no_text", kind=_shown_kind(answer)))
    text = _decoded(answer)
    if _is_html(answer):
        return _Loaded(target.url, html_to_text(text, target.url), answer.is_cut)
    return _Loaded(target.url, clean_page(clean_text(text)), answer.is_cut)


def _shown_kind(answer: Answer) -> str:
    kind = re.sub(r"[^a-z0-9.+/-]", "", media_type(answer.headers))[:60] or say("binary_page")
    length = answer.headers.get("content-length", "")
    is_number = length.isascii() and length.isdigit() and len(length) < 16  # "²" is a digit to Python
    size = int(length) if is_number else None
    if answer.body and not answer.is_cut:
        size = len(answer.body)
    return say("page_kind_unsized", kind=kind) if size is None else say("page_kind", kind=kind, size=size)


def _is_binary(body: bytes) -> bool:
    return b"\0" in body[:8192] and not body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _is_html(answer: Answer) -> bool:
    kind = media_type(answer.headers)
    if kind in ("text/html", "application/xhtml+xml"):
        return True
    return kind in ("", "application/octet-stream") and bool(_LOOKS_LIKE_HTML.match(answer.body[:2048]))


def _decoded(answer: Answer) -> str:
    """The text, whatever the server says it is written in; what cannot be read is replaced."""
    body = answer.body
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    for name in _named_charsets(answer):
        try:
            if codecs.lookup(name).name.replace("_", "-") in _NO_CHARSETS:
                continue
            return body.decode(name, "replace")
        except (LookupError, UnicodeError, ValueError):
            continue
    return body.decode("utf-8", "replace")


def _named_charsets(answer: Answer) -> Iterable[str]:
    header = answer.headers.get("content-type", "")
    named = re.search(r"charset\s*=\s*[\"']?([a-zA-Z0-9_:.-]{1,40})", header[:500], re.I)
    if named:
        yield named[1]
    head = answer.body[:4096]
    for pattern in (_META_CHARSET, _XML_ENCODING):
        found = pattern.search(head)
        if found:
            yield found[1].decode("ascii")


def _is_positive(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and value > 0


def _names(name: str, values: Iterable[Any]) -> tuple[str, ...]:
    found = () if isinstance(values, str) else tuple(values)
    if isinstance(values, str) or not all(isinstance(each, str) and each for each in found):
        raise ConfigError(f"{name} must be a list of texts; it is {values!r:.80}.")
    return found


def _address(text: str) -> tuple[IPAddress, int | None]:
    try:
        return read_address(text)
    except ValueError:
        raise ConfigError(
            f"allow_addresses: {text!r:.80} is no IP address with or without a port, like '127.0.0.1:8000'."
        ) from None
