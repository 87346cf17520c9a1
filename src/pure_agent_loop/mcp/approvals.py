"""Digests of approved tools, so that a server cannot change a description unnoticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.locking import change_file
from pure_agent_loop.support.parsing import parsed_object


def digest_of(tool: Any) -> str:
    """Return a digest of a tool's full description; a changed digest requires a new approval."""
    details = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return hashlib.sha256(json.dumps(details, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class Approvals:
    """The approved tool digests of one server, stored in a file.

    Args:
        identity: The server's digest.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity

    @property
    def path(self) -> Path:
        """The path of the file."""
        return data_folder() / "mcp" / "agreed" / f"{self._identity}.json"

    def changed(self, digests: Mapping[str, str]) -> set[str]:
        """Return the tools whose digest differs from the approved one. New tools are approved and stored.

        Args:
            digests: Digests of the current tools, by name.

        Raises:
            OSError: The file cannot be written.
        """
        known = _parsed(self.path.read_bytes()) if self.path.exists() else {}
        if not digests.keys() <= known.keys():
            known = self.agree(digests, digests.keys() - known.keys())
        return {name for name, digest in digests.items() if known[name] != digest}

    def agree(self, digests: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
        """Approve the current digests of some tools and return all approved digests.

        Raises:
            OSError: The file cannot be written.
        """
        wanted = {name: digests[name] for name in names}
        approved: dict[str, str] = {}

        def change(old: bytes) -> bytes:
            approved.update({**_parsed(old), **wanted})
            return json.dumps(approved, indent=0, sort_keys=True).encode()

        private_folder(self.path.parent)
        change_file(self.path, change)
        return approved

    def forget(self) -> None:
        """Delete the file after the server was removed."""
        self.path.unlink(missing_ok=True)


def _parsed(data: bytes) -> dict[str, str]:
    return {str(name): str(digest) for name, digest in (parsed_object(data) or {}).items()}
