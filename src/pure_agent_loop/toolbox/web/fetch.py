"""The ``fetch`` tool: read web pages at public addresses, as bounded text that is marked as untrusted.

Every address of a host is checked, and the connection goes to a checked address. Each redirect is checked the
same way. Proxies from the environment are ignored, because they would resolve names themselves.
"""

from __future__ import annotations

import codecs
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import Prompts, current_prompts
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.bounded import put_bounded
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.secrets.redaction import shown_url
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.untrusted import mark_untrusted
from pure_agent_loop.toolbox.web.addresses import (
    AddressError,
    AddressRules,
    IPAddress,
    ParsedUrl,
    read_address,
    read_url,
)
from pure_agent_loop.toolbox.web.wire_read import (
    REDIRECTS,
    HttpPage,
    WireError,
    WireLimits,
    is_text,
    media_type,
    request,
)

PAGE_CHARS = 20_000
_CACHED_PAGES = 4
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
# Codecs that web pages do not use; some of them take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"})


class FetchError(Exception):
    """A page was not fetched. The message is for the model."""


@dataclass(frozen=True, slots=True)
class _LoadedPage:
    url: str
    text: str
    is_cut: bool


class Fetch:
    """A tool that reads web pages.

    Args:
        allow_hosts: The only allowed names, ``example.org`` or ``*.example.org``; empty for all public ones.
        deny_hosts: Denied names.
        allow_private: Allow loopback and private addresses. Link-local addresses, which serve cloud
            credentials, stay forbidden.
        allow_addresses: Single private addresses to allow, with or without a port:
            ``127.0.0.1:8000``, ``10.0.0.5``, ``[::1]:8000``.
        allow_ports: Ports besides 80, 443, 8080 and 8443.
        max_bytes: Maximum bytes of a page, uncompressed; the rest is left out, with a note.
        timeout: Seconds for the whole call, redirects included.
        read_timeout: Seconds to wait for data from the server.
        max_redirects: Maximum number of redirects.
        resolver: ``(host, port) -> IP addresses`` instead of the system's.
        ca_file: Certificates to trust instead of the system's, for private servers.
        prompts: Prompts with the wording of the frame around a page; None for the run's prompts.

    Raises:
        ConfigError: An argument is invalid.
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
            frozenset(_address(text) for text in _names("allow_addresses", allow_addresses)),
            frozenset(allow_ports),
        )
        self._max_bytes = int(max_bytes)
        self._timeout = timeout
        self._read_timeout = read_timeout
        self._max_redirects = max_redirects
        self._resolve = checked_function("resolver", resolver, "host", "port") or _resolve
        self._words = prompts
        # Loading the system's certificates is slow, and not every run fetches a page.
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._pages: dict[str, _LoadedPage] = {}
        self._lock = threading.Lock()

    def tool(self) -> Tool:
        """Return the ``fetch`` tool.

        The tool is ``read_only`` only with `allow_hosts`: a URL can leak data to the owner of its host, so
        reading arbitrary pages is not harmless.
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
        with self._lock:
            page = self._pages.get(url) if start else None
        if page is None:
            page = self._load(url)
            with self._lock:
                put_bounded(self._pages, url, page, _CACHED_PAGES)
        if start and start >= len(page.text):
            raise FetchError(model_text("past_text", total=len(page.text), offset=start))
        piece = page.text[start : start + PAGE_CHARS]
        framed = mark_untrusted(piece, shown_url(page.url), self._words)
        note = self._note(page, start, start + len(piece))
        return f"{framed}\n{note}" if note else framed

    def _note(self, page: _LoadedPage, start: int, end: int) -> str:
        words, total = self._words or current_prompts(), len(page.text)
        if end >= total and start == 0 and not page.is_cut:
            return ""
        next_note = words.page_next.format(offset=end) if end < total else ""
        next_note = next_note or (words.page_cut if page.is_cut else words.page_end)
        return words.page_part.format(start=start, end=end, total=total, next=next_note)

    def _load(self, url: str) -> _LoadedPage:
        limits = WireLimits(self._max_bytes, self._read_timeout, time.monotonic() + self._timeout)
        try:
            target, answer = self._follow(url, limits)
            return _to_page(target, answer)
        except (AddressError, WireError) as error:
            raise FetchError(model_text("sentence", text=error)) from None

    def _follow(self, url: str, limits: WireLimits) -> tuple[ParsedUrl, HttpPage]:
        target = read_url(url)
        for _ in range(self._max_redirects + 1):
            answer = self._ask(target, limits)
            if answer.status not in REDIRECTS or "location" not in answer.headers:
                return target, answer
            target = _redirect_target(target, answer.headers["location"])
        raise WireError(model_text("leads_on", count=self._max_redirects))

    def _ask(self, target: ParsedUrl, limits: WireLimits) -> HttpPage:
        self._rules.check_name(target)
        addresses = self._rules.checked(target, self._resolve_host(target))
        if self._context is None:
            self._context = ssl.create_default_context()
        return request(target, addresses, self._context, limits)

    def _resolve_host(self, target: ParsedUrl) -> Sequence[str]:
        if ":" in target.host or target.host.replace(".", "").isdigit():
            return [target.host]
        if target.host.endswith(".localhost"):  # always loopback, although a name server might disagree
            return ["127.0.0.1"]
        try:
            return list(self._resolve(target.host, target.port))
        except (OSError, UnicodeError):
            raise WireError(model_text("no_host", host=target.host)) from None


def _resolve(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


def _redirect_target(target: ParsedUrl, location: str) -> ParsedUrl:
    # Headers are decoded as Latin-1, but servers also send UTF-8.
    location = location.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        joined = urllib.parse.urljoin(target.url, location)
    except ValueError:
        raise AddressError(model_text("leads_nowhere")) from None
    try:
        new = read_url(joined)
    except AddressError as error:
        raise AddressError(model_text("leads_elsewhere", error=error)) from None
    if target.scheme == "https" and new.scheme == "http":
        raise AddressError(model_text("leads_to_http"))
    return new


def _to_page(target: ParsedUrl, answer: HttpPage) -> _LoadedPage:
    from pure_agent_loop.toolbox.web.html_text import clean_page, html_to_text  # loads the entity table

    if answer.status >= 400 or answer.status in REDIRECTS:
        raise WireError(model_text("status", status=answer.status))
    if not is_text(answer.headers) or _is_binary(answer.body):
        raise WireError(model_text("page_no_text", kind=_describe_kind(answer)))
    text = _decode(answer)
    if _is_html(answer):
        return _LoadedPage(target.url, html_to_text(text, target.url), answer.is_cut)
    return _LoadedPage(target.url, clean_page(clean_text(text)), answer.is_cut)


def _describe_kind(answer: HttpPage) -> str:
    kind = re.sub(r"[^a-z0-9.+/-]", "", media_type(answer.headers))[:60] or model_text("binary_page")
    length = answer.headers.get("content-length", "")
    is_number = length.isascii() and length.isdigit() and len(length) < 16  # "²" is a digit to Python
    size = int(length) if is_number else None
    if answer.body and not answer.is_cut:
        size = len(answer.body)
    return (
        model_text("page_kind_unsized", kind=kind)
        if size is None
        else model_text("page_kind", kind=kind, size=size)
    )


def _is_binary(body: bytes) -> bool:
    return b"\0" in body[:8192] and not body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _is_html(answer: HttpPage) -> bool:
    kind = media_type(answer.headers)
    if kind in ("text/html", "application/xhtml+xml"):
        return True
    return kind in ("", "application/octet-stream") and bool(_LOOKS_LIKE_HTML.match(answer.body[:2048]))


def _decode(answer: HttpPage) -> str:
    """Decode the body with its declared charset; undecodable bytes are replaced."""
    body = answer.body
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    for name in _declared_charsets(answer):
        try:
            if codecs.lookup(name).name.replace("_", "-") in _NO_CHARSETS:
                continue
            return body.decode(name, "replace")
        except (LookupError, UnicodeError, ValueError):
            continue
    return body.decode("utf-8", "replace")


def _declared_charsets(answer: HttpPage) -> Iterable[str]:
    header = answer.headers.get("content-type", "")
    named = re.search(r"charset\s*=\s*[\"']?([a-zA-Z0-9_:.-]{1,40})", header[:500], re.I)
    if named:
        yield named[1]
    head = answer.body[:4096]
    for pattern in (_META_CHARSET, _XML_ENCODING):
        match = pattern.search(head)
        if match:
            yield match[1].decode("ascii")


def _is_positive(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and value > 0


def _names(name: str, values: Iterable[Any]) -> tuple[str, ...]:
    names = () if isinstance(values, str) else tuple(values)
    if isinstance(values, str) or not all(isinstance(value, str) and value for value in names):
        raise ConfigError(f"{name} must be a list of strings; it is {values!r:.80}.")
    return names


def _address(text: str) -> tuple[IPAddress, int | None]:
    try:
        return read_address(text)
    except ValueError:
        raise ConfigError(
            f"allow_addresses: {text!r:.80} is not an IP address, with or without a port: '127.0.0.1:8000'."
        ) from None
