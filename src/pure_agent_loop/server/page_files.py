"""The page: files of this package, as they are. What is not in its folder is not there."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}
_NO_PAGE = b"<!doctype html><title>pure-agent-loop</title><p>The interface is at /api/openapi.json</p>"


@dataclass(frozen=True)
class _File:
    data: bytes
    kind: str
    tag: str
    small: bytes = b""  # compressed, where that makes it smaller


def _read(path: Path) -> _File:
    data = path.read_bytes()
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind in ("application/json", "image/svg+xml")
    small = gzip.compress(data, 9, mtime=0) if text else b""
    return _File(data, f"{kind}; charset=utf-8" if text else kind, _tag(data), small)


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


class PageFiles:
    """The files of the page, read once: a name is looked up, and no path is ever made of it.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        found = sorted(folder.rglob("*")) if folder.is_dir() else []
        self._files = {
            path.relative_to(folder).as_posix(): _read(path)
            for path in found
            if path.is_file() and path.suffix != ".py"
        }
        self._index = self._files.get(INDEX) or _File(_NO_PAGE, "text/html; charset=utf-8", _tag(_NO_PAGE))

    async def index(self, request: Request) -> Response:
        """The page itself."""
        return _answer(request, self._index)

    async def asset(self, request: Request) -> Response:
        """One of its files."""
        found = self._files.get(request.path_params["path"])
        return Response(status_code=404) if found is None else _answer(request, found)


def _answer(request: Request, file: _File) -> Response:
    # Always asked for again, and almost never sent again: a new version is there at once.
    is_small = bool(file.small) and "gzip" in request.headers.get("accept-encoding", "")
    tag = f'{file.tag[:-1]}-gzip"' if is_small else file.tag
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if is_small:
        headers["Content-Encoding"] = "gzip"
    return Response(file.small if is_small else file.data, 200, headers, file.kind)
