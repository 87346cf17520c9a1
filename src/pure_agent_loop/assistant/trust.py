"""Texts of a folder that a model would follow: a person trusts them once, as they are, or they stay out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.assistant.notes import Note, project_notes
from pure_agent_loop.assistant.skills import PROJECT_FOLDER, skill_folders
from pure_agent_loop.support.paths import data_folder, private_folder

SUBAGENTS_FOLDER = ".agents/agents"
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Guidance:
    """What a folder would tell a model.

    Args:
        names: Of its files.
        digest: Of the folder's place, the names and the contents: a change asks again.
        notes: The notes among them, as they were read.
        others: The digests of the other files.
    """

    names: tuple[str, ...]
    digest: str
    notes: tuple[Note, ...] = ()
    others: frozenset[bytes] = frozenset()

    @property
    def shown(self) -> str:
        """The names, not too many."""
        more = len(self.names) - _MOST_NAMES
        return ", ".join(self.names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

    def holds(self, data: bytes) -> bool:
        """Whether a file of a skill or a subagent says what one said when the folder was looked at.

        Args:
            data: What it says now.
        """
        return hashlib.sha256(data).digest() in self.others


def guidance_of(workspace: Path) -> Guidance:
    """Look at the notes, the skills and the subagents of a folder."""
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
        place = skill.resolve()  # a skill may be a link, and what is behind it counts
        for path in sorted(place.rglob("*")):
            if path.is_file():
                others.add(data := _digest(path))
                yield f"{PROJECT_FOLDER}/{skill.name}/{path.relative_to(place).as_posix()}", data


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:  # nobody can follow what cannot be read; it counts anew once it can be
        return b""


def is_trusted(guidance: Guidance) -> bool:
    """Whether a person has trusted these texts, as they are."""
    return (data_folder() / "trusted" / guidance.digest).exists()


def trust(guidance: Guidance) -> None:
    """Remember that a person trusts these texts."""
    (private_folder(data_folder() / "trusted") / guidance.digest).touch(mode=0o600)
