"""Texts of a folder that a model would follow: a person trusts them once, as they are, or they stay out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pure_agent_loop.assistant.notes import project_notes
from pure_agent_loop.assistant.skills import PROJECT_FOLDER
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.terminal import one_line

QUESTION = "Shall the model follow them? [y]es, [n]o: "
_MOST_NAMES, _MOST_WIDTH = 8, 2_000


@dataclass(frozen=True, slots=True)
class Guidance:
    """What a folder would tell a model.

    Args:
        names: Of its files.
        digest: Of the folder's place, the names and the contents: a change asks again.
    """

    names: tuple[str, ...]
    digest: str

    @property
    def shown(self) -> str:
        """The names, not too many."""
        more = len(self.names) - _MOST_NAMES
        return ", ".join(self.names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def guidance_of(workspace: Path, also: Mapping[str, bytes] = MappingProxyType({})) -> Guidance:
    """Look at the notes and the skills of a folder.

    Args:
        workspace: The folder.
        also: What else it brings, by name.
    """
    digest, names = hashlib.sha256(str(workspace.resolve()).encode("utf-8", "surrogateescape")), []
    for name, data in (*_files(workspace), *also.items()):
        names.append(name)
        for part in (name.encode("utf-8", "surrogateescape"), data):
            digest.update(f"|{len(part)}|".encode() + part)
    return Guidance(tuple(names), digest.hexdigest())


def _files(workspace: Path) -> Iterator[tuple[str, bytes]]:
    for note in project_notes(workspace):
        yield note.name, note.text.encode()
    for path in sorted((workspace / PROJECT_FOLDER).rglob("*")):
        if path.is_file():
            yield path.relative_to(workspace).as_posix(), hashlib.sha256(path.read_bytes()).digest()


def may_guide(
    workspace: Path,
    questions: Questions | None,
    output: Output,
    *,
    given: bool,
    also: Mapping[str, bytes] = MappingProxyType({}),
    lines: Callable[[], list[str]] = list,
) -> bool:
    """Whether a folder's own texts may guide the model; a person is asked where one is there, and remembered.

    Args:
        workspace: The folder.
        questions: The person at the terminal.
        output: Told what is left out.
        given: The option ``--trust-folder``; it holds for this run.
        also: Its settings, by name.
        lines: What these set.
    """
    guidance = guidance_of(workspace, also)
    if not guidance.names or given:
        return given
    if _place_of(guidance).exists():
        return True
    if questions is not None:
        output.say(
            f"this folder brings texts for the model, which somebody else may have written: {guidance.shown}"
        )
        for line in lines():
            output.say(f"  it sets {one_line(line, _MOST_WIDTH)}")
        if questions.confirm(QUESTION):
            if problem := remember(guidance):
                output.say(problem)
            return True
    output.say(f"left out, as nobody has trusted it: {guidance.shown} (--trust-folder uses it)")
    return False


def remember(guidance: Guidance) -> str:
    """Texts are trusted from now on, as they are. Returns what went wrong, if that cannot be kept.

    Args:
        guidance: The texts.
    """
    place = _place_of(guidance)
    try:
        private_folder(place.parent)
        place.touch(mode=0o600)
    except OSError as error:
        return f"this is not remembered: {place}: {error.strerror}"
    return ""


def _place_of(guidance: Guidance) -> Path:
    return data_folder() / "trusted" / guidance.digest
