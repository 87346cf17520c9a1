"""Static files of the web page, served from memory."""

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
class _PageFile:
    data: bytes
    kind: str
    tag: str
    gzipped: bytes = b""  # empty for binary files


def _read(path: Path) -> _PageFile:
    data = path.read_bytes()
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind in ("application/json", "image/svg+xml")
    gzipped = gzip.compress(data, 9, mtime=0) if text else b""
    return _PageFile(data, f"{kind}; charset=utf-8" if text else kind, _tag(data), gzipped)


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


class PageFiles:
    """The page's files, read once. Requests look up names only, so path traversal is impossible."""

    def __init__(self, folder: Path = FOLDER) -> None:
        paths = sorted(folder.rglob("*")) if folder.is_dir() else []
        self._files = {
            path.relative_to(folder).as_posix(): _read(path)
            for path in paths
            if path.is_file() and path.suffix != ".py"
        }
        self._index = self._files.get(INDEX) or _PageFile(
            _NO_PAGE, "text/html; charset=utf-8", _tag(_NO_PAGE)
        )

    async def index(self, request: Request) -> Response:
        """Return the page."""
        return _response(request, self._index)

    async def asset(self, request: Request) -> Response:
        """Return a file of the page."""
        file = self._files.get(request.path_params["path"])
        return Response(status_code=404) if file is None else _response(request, file)


def _response(request: Request, file: _PageFile) -> Response:
    # no-cache with an ETag: browsers revalidate each time, so a new version shows at once.
    use_gzip = bool(file.gzipped) and "gzip" in request.headers.get("accept-encoding", "")
    tag = f'{file.tag[:-1]}-gzip"' if use_gzip else file.tag
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if use_gzip:
        headers["Content-Encoding"] = "gzip"
    return Response(file.gzipped if use_gzip else file.data, 200, headers, file.kind)
