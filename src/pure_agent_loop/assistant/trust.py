"""Trust in a folder's instructions to models: they are used only if a person approved the exact content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.assistant.notes import Note, project_notes
from pure_agent_loop.assistant.skills import PROJECT_FOLDER, skill_folders
from pure_agent_loop.support.folders import data_folder, private_folder

SUBAGENTS_FOLDER = ".agents/agents"
_MAX_NAMES = 8


@dataclass(frozen=True, slots=True)
class Guidance:
    """Instructions for models in a folder.

    Args:
        names: Names of the files.
        digest: Digest of the folder's path, the names and the contents; any change needs a new approval.
        notes: The notes, as they were read.
        others: Digests of the skill and subagent files.
    """

    names: tuple[str, ...]
    digest: str
    notes: tuple[Note, ...] = ()
    others: frozenset[bytes] = frozenset()

    @property
    def shown(self) -> str:
        """Names of the files, shortened for display."""
        rest = len(self.names) - _MAX_NAMES
        return ", ".join(self.names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")

    def holds(self, data: bytes) -> bool:
        """Return True if the content of a skill or subagent file is unchanged since it was examined.

        Args:
            data: The current content.
        """
        return hashlib.sha256(data).digest() in self.others


def guidance_of(workspace: Path) -> Guidance:
    """Examine the notes, skills and subagents of a folder."""
    digest, names = hashlib.sha256(str(workspace.resolve()).encode("utf-8", "surrogateescape")), []
    notes, others = tuple(project_notes(workspace)), set[bytes]()
    for name, data in _files(workspace, notes, others):
        names.append(name)
        for part in (name.encode("utf-8", "surrogateescape"), data):
            digest.update(f"|{len(part)}|".encode() + part)
    return Guidance(tuple(names), digest.hexdigest(), notes, frozenset(others))


def _files(workspace: Path, notes: tuple[Note, ...], others: set[bytes]) -> Iterator[tuple[str, bytes]]:
    for note in notes:
        yield note.name, note.text.encode()
    for path in sorted((workspace / SUBAGENTS_FOLDER).glob("*.md")):
        if path.is_file():
            others.add(data := _digest(path))
            yield f"{SUBAGENTS_FOLDER}/{path.name}", data
    for skill in skill_folders(workspace / PROJECT_FOLDER):
        place = skill.resolve()  # if the skill is a link, examine its target
        for path in sorted(place.rglob("*")):
            if path.is_file():
                others.add(data := _digest(path))
                yield f"{PROJECT_FOLDER}/{skill.name}/{path.relative_to(place).as_posix()}", data


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:  # an unreadable file is harmless; once it is readable, the digest changes
        return b""


def is_trusted(guidance: Guidance) -> bool:
    """Return True if a person has trusted exactly these texts."""
    return (data_folder() / "trusted" / guidance.digest).exists()


def trust_guidance(guidance: Guidance) -> None:
    """Remember that a person trusts these texts."""
    (private_folder(data_folder() / "trusted") / guidance.digest).touch(mode=0o600)
