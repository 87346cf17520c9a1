"""A known secret as it may be written: escaped, encoded, quoted."""

from __future__ import annotations

import base64
import itertools
import json
import re
import string
import urllib.parse

# Which signs are written as their number, and how: by Go, PHP, .NET, lodash, and by careful ones.
_SIGNS = frozenset(map(chr, range(32, 127))) - frozenset(string.ascii_letters + string.digits + "-_.")
_ESCAPES = [
    (signs, code)
    for signs in (
        *map(frozenset, ("+", "&<>", "+&<>", "&<>'", "+&<>'")),
        frozenset("\"&'+<>`"),
        _SIGNS,
    )
    for code in ("\\u{:04x}", "\\u{:04X}", "&#{};", "&#x{:x};", "&#x{:X};", "\\x{:02x}", "%{:02X}", "%{:02x}")
]


def forms_of(value: str) -> set[str]:
    """A value as it may be written: itself, escaped, percent-encoded, in base64 at any place."""
    import html  # with a table of all names

    quoted = urllib.parse.quote(value, safe="")
    small = re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    forms = {value, quoted, small, urllib.parse.quote(value), urllib.parse.quote_plus(value)}
    forms |= {"".join(code.format(ord(c)) if c in signs else c for c in value) for signs, code in _ESCAPES}
    for double, single, plus in itertools.product(
        ("&quot;", "&#34;"), ("&#x27;", "&#39;", "&apos;", "'"), ("+", "&#43;")
    ):
        page = html.escape(value).replace("&quot;", double).replace("&#x27;", single)
        forms |= {page.replace("+", plus), html.escape(value, quote=False)}
    escaped = json.dumps(value)[1:-1]
    forms |= {escaped, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(escaped)[1:-1]}
    for signs, code in _ESCAPES:  # as JSON's escapes are, and then those that are meant for HTML
        if code.startswith("\\u"):
            forms.add("".join(code.format(ord(c)) if c in signs and c not in '"\\' else c for c in escaped))
    forms |= {escaped.replace("/", "\\/"), quoted.replace("%", "%25"), small.replace("%", "%25")}
    # As Python shows it, and as it stands in a command line.
    forms |= {repr(value)[1:-1], value.replace("'", "'\\''"), value.replace("'", "'\"'\"'")}
    forms.add(re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", value))
    data = value.encode("utf-8", "replace")
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        first = (0, 2, 3)[shift]
        last = (len(data) + shift) * 8 // 6
        forms |= {whole[first:last], whole[first:last].replace("+", "-").replace("/", "_")}
    return forms
