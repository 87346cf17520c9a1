"""What the tools of a server said of themselves when they came: a server may not change that unnoticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.shared_file import change_file


def digest_of(tool: Any) -> str:
    """Of all that a server says of a tool: another one asks again."""
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class Approvals:
    """What was agreed to, of one server: the digests of its tools by name, in a file.

    Args:
        identity: Of the server.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity

    @property
    def path(self) -> Path:
        """The file."""
        return data_folder() / "mcp" / "agreed" / f"{self._identity}.json"

    def changed(self, digests: Mapping[str, str]) -> set[str]:
        """The tools that say something else than when they were first seen. New ones are kept as they are.

        Args:
            digests: Of the tools there are now, by name.

        Raises:
            OSError: The file cannot be written.
        """
        known = _read(self.path)
        if not digests.keys() <= known.keys():
            known = self.agree(digests, digests.keys() - known.keys())
        return {name for name, digest in digests.items() if known[name] != digest}

    def agree(self, digests: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
        """A person agrees to what some tools say now; what is agreed to in all.

        Raises:
            OSError: It cannot be written.
        """
        wanted = {name: digests[name] for name in names}
        found: dict[str, str] = {}

        def change(old: bytes) -> bytes:
            found.update({**_parsed(old), **wanted})
            return json.dumps(found, indent=0, sort_keys=True).encode()

        private_folder(self.path.parent)
        change_file(self.path, change)
        return found

    def forget(self) -> None:
        """The server was taken away."""
        self.path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, str]:
    return _parsed(path.read_bytes()) if path.exists() else {}


def _parsed(data: bytes) -> dict[str, str]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else {}
