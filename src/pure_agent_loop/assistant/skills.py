"""Skills: folders with a ``SKILL.md``, of which a model sees one line and reads the rest when needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pure_agent_loop.assistant.words import AssistantWords, described_tool, words_for
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.front_matter import FrontMatterError, Value, split_front_matter
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.workspace import Workspace

SKILL_FILE = "SKILL.md"
PROJECT_FOLDER = ".agents/skills"
MAX_SKILLS = 200
MAX_SKILL_BYTES = 200_000
MAX_FILE_BYTES = 200_000
MAX_ALWAYS_CHARS = 8_000
MAX_LISTED_FILES = 50
_NAME = lazy_pattern(r"[a-z0-9-]{1,64}")
MAX_DESCRIPTION = 1_024


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill.

    Args:
        name: Its name, the same as its folder's.
        description: What it is for, and when to use it.
        body: Its instructions.
        folder: Where it lies.
        always: Its body stands in the prompt from the start.
        license: Of its text; empty if it does not say.
        allowed_tools: Tools it says it needs. Shown to people; it allows nothing.
        trusted: Whether its files may be used, or what says so of the bytes of each.
    """

    name: str
    description: str
    body: str
    folder: Path
    always: bool = False
    license: str = ""
    allowed_tools: tuple[str, ...] = ()
    trusted: bool | Callable[[bytes], bool] = field(default=True, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """A skill that cannot be used.

    Args:
        path: Its folder.
        reason: Why, and what to do.
    """

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class SkillsLoader:
    """Finds skills, and reads them for the model.

        skills = SkillsLoader(["my-skills"], workspace=".")
        print(skills.catalogue(), *skills.problems)

    Of two skills with one name the first counts: those in `folders`, then the project's, then the user's.

    Args:
        folders: Folders of skill folders that you trust.
        workspace: A project; its skills are in ``.agents/skills``.
        trust_project: Whether the project's skills may be used. They are texts that somebody put into a
            folder, and a model follows them: read them first. False reports them in `problems`; a function
            says of the bytes of each file whether they are trusted, whenever it is read.
        user: Whether to look in ``~/.agents/skills`` too.
        language: Of the tool; ``en``, ``zh``, or None for that of the agent that has it.
        words: Words of your own instead.
    """

    def __init__(
        self,
        folders: Iterable[str | os.PathLike[str]] = (),
        *,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        trust_project: bool | Callable[[bytes], bool] = False,
        user: bool = True,
        language: str | None = None,
        words: AssistantWords | None = None,
    ) -> None:
        if isinstance(folders, (str, bytes, os.PathLike)):
            raise ConfigError(f"SkillsLoader: folders must be a list of folders; it is {folders!r:.80}.")
        self._given = [Path(each).expanduser() for each in folders]
        root = workspace.root if isinstance(workspace, Workspace) else workspace
        self._project = None if root is None else Path(root).expanduser() / PROJECT_FOLDER
        self._user = Path.home() / PROJECT_FOLDER if user else None
        self._trust_project = trust_project
        self._given_words = words or (words_for(language) if language else None)
        self._skills: dict[str, Skill] = {}
        self.problems: list[SkillProblem] = []
        self.reload()

    @property
    def _words(self) -> AssistantWords:
        return self._given_words or words_for()

    @property
    def leaves_out_project(self) -> bool:
        """True if it knows a project whose skills it may not use."""
        return self._project is not None and self._trust_project is False

    @property
    def skills(self) -> list[Skill]:
        """The skills that can be used, by name."""
        return [self._skills[name] for name in sorted(self._skills)]

    def get(self, name: str) -> Skill | None:
        """The skill of that name, or None."""
        return self._skills.get(name)

    def reload(self) -> None:
        """Look at the folders again."""
        self._skills, self.problems = {}, []
        for folder in self._given:
            if not folder.is_dir():
                self.problems.append(SkillProblem(folder, "There is no such folder."))
            self._look_in(folder, True)
        if self._project is not None:
            self._look_in(self._project, self._trust_project)
        if self._user is not None:
            self._look_in(self._user, True)

    def _look_in(self, folder: Path, trusted: bool | Callable[[bytes], bool]) -> None:
        for number, place in enumerate(skill_folders(folder)):
            if number >= MAX_SKILLS:
                self.problems.append(SkillProblem(folder, f"Only the first {MAX_SKILLS} skills were read."))
                return
            try:
                skill = _read(place, trusted)
            except (FrontMatterError, WorkspaceError, OSError, ConfigError) as error:
                self.problems.append(SkillProblem(place, clean_text(str(error))))
                continue
            if trusted is False:
                reason = "It comes with the project and is not trusted. Read it, then use trust_project=True."
                self.problems.append(SkillProblem(place, reason))
            elif skill.name in self._skills:
                other = self._skills[skill.name].folder
                self.problems.append(SkillProblem(place, f"{other} has the same name and counts."))
            else:
                self._skills[skill.name] = skill

    def catalogue(self) -> str:
        """A line for each skill that is loaded on demand."""
        return _lines(each for each in self.skills if not each.always)

    def always(self) -> list[tuple[str, str]]:
        """Name and body of each skill that is always there; a long body is cut."""
        return [(each.name, self._cut(each.body, MAX_ALWAYS_CHARS)) for each in self.skills if each.always]

    def load(self, name: str, file: str = "") -> str:
        """The instructions of a skill, or one of its files, as the model reads them.

        Args:
            name: The skill.
            file: A path relative to the skill's folder; empty for the instructions.

        Raises:
            WorkspaceError: There is no such skill or file, or the path leads out of the skill's folder.
        """
        skill = self.get(name)
        if skill is None:
            names = ", ".join(each.name for each in self.skills) or "-"
            raise WorkspaceError(self._words.no_skill.format(name=name, names=names))
        if file:
            return self._file(skill, file)
        files = bundled_files(skill.folder)
        more = [self._words.skill_files.format(name=name), *(f"- {each}" for each in files)] if files else []
        return "\n".join([skill.body, *([""] if more else []), *more])

    def _file(self, skill: Skill, file: str) -> str:
        with Workspace(skill.folder).open_for_reading(file) as source:
            data = source.read(MAX_FILE_BYTES + 1)
            size = os.fstat(source.fileno()).st_size
            if callable(skill.trusted) and not skill.trusted(data + source.read()):
                raise WorkspaceError(self._words.skill_changed.format(file=file))
        if b"\0" in data[:8_192]:
            return self._words.skill_binary.format(file=file, size=size)
        text = clean_text(data[:MAX_FILE_BYTES].decode("utf-8", "replace"))
        left = size - MAX_FILE_BYTES
        return text if left <= 0 else f"{text}\n{self._words.skill_cut.format(count=left)}"

    def _cut(self, text: str, limit: int) -> str:
        if len(text) <= limit:
            return text
        return f"{text[:limit]}\n{self._words.skill_cut.format(count=len(text) - limit)}"

    def tools(self, *, listed: bool = False) -> list[Tool]:
        """``load_skill``, if there is a skill to load.

        Args:
            listed: Its description names the skills, because no prompt does.
        """
        if not self._skills:
            return []

        def load_skill(name: str, file: str = "") -> str:
            return self.load(name, file)

        more = _lines(self.skills) if listed else ""
        return [described_tool(load_skill, self._given_words, more, read_only=True, idempotent=True)]


def _lines(skills: Iterable[Skill]) -> str:
    return "\n".join(f"- {each.name}: {' '.join(each.description.split())}" for each in skills)


def read_skill(folder: str | os.PathLike[str]) -> Skill:
    """Read the skill in a folder.

    Args:
        folder: The folder; its name is the skill's.

    Raises:
        FrontMatterError: The head cannot be read, or says something that cannot be right.
        WorkspaceError: There is no ``SKILL.md``, or it cannot be read.
        ConfigError: It is no folder.
    """
    return _read(Path(folder), True)


def _read(folder: Path, trusted: bool | Callable[[bytes], bool]) -> Skill:
    with Workspace(folder).open_for_reading(SKILL_FILE) as file:
        data = file.read(MAX_SKILL_BYTES + 1)
    if len(data) > MAX_SKILL_BYTES:
        raise FrontMatterError(f"{SKILL_FILE} has more than {MAX_SKILL_BYTES:,} bytes. Put parts into files.")
    if callable(trusted) and not trusted(data):
        raise FrontMatterError(f"{SKILL_FILE} has changed since it was trusted.")
    try:
        head, body = split_front_matter(clean_text(data.decode("utf-8")))
    except UnicodeDecodeError:
        raise FrontMatterError(f"{SKILL_FILE} is not UTF-8 text.") from None
    name = _text(head, "name")
    if not _NAME.fullmatch(name):
        raise FrontMatterError("name must be 1 to 64 lower-case letters, digits and '-'.")
    if name != folder.resolve().name:
        raise FrontMatterError(f"name {name!r} is not the folder's name, {folder.resolve().name!r}.")
    description = _text(head, "description").strip()
    if not 1 <= len(description) <= MAX_DESCRIPTION:
        raise FrontMatterError(f"description must have 1 to {MAX_DESCRIPTION} characters.")
    always = head.get("always", False)
    if not isinstance(always, bool):
        raise FrontMatterError("always must be true or false.")
    return Skill(
        name=name,
        description=description,
        body=body.strip(),
        folder=folder.resolve(),
        always=always,
        license=_text(head, "license", needed=False),
        allowed_tools=_names(head.get("allowed-tools", "")),
        trusted=trusted,
    )


def bundled_files(folder: Path, limit: int = MAX_LISTED_FILES) -> list[str]:
    """Paths of the files that come with a skill, relative to its folder; links are left out."""
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(files):
            path = Path(place, name)
            inside = path.relative_to(folder).as_posix()
            if inside != SKILL_FILE and not name.startswith(".") and not path.is_symlink():
                found.append(clean_text(inside))
            if len(found) >= limit:
                return found
    return found


def skill_folders(folder: Path) -> Iterator[Path]:
    """The folders of skills in a folder.

    Args:
        folder: It may be missing.
    """
    try:
        places = sorted(folder.iterdir())
    except OSError:
        return
    for place in places:
        if (place / SKILL_FILE).is_file():
            yield place


def _text(head: dict[str, Value], key: str, *, needed: bool = True) -> str:
    value = head.get(key, "")
    if not isinstance(value, str) or (needed and not value.strip()):
        raise FrontMatterError(f"{key} must be a text.")
    return value


def _names(value: Value) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(each for each in value if isinstance(each, str))
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else ()
