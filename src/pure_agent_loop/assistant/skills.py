"""Skills: folders with a ``SKILL.md``. The prompt lists them; the model loads one when needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pure_agent_loop.assistant.words import AssistantWords, described_tool, words_for
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.support.abilities import check_shape
from pure_agent_loop.support.front_matter import FrontMatterError, Value, split_front_matter
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.text import clean_text, shorten
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
_NEEDED = ("name", "description", "always")
_NAME = lazy_pattern(r"[a-z0-9-]{1,64}")
MAX_DESCRIPTION = 1_024


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill.

    Args:
        name: Name of the skill, equal to the name of the folder.
        description: Purpose of the skill, and when to use it.
        body: Instructions of the skill.
        folder: Folder of the skill.
        always: True if the body is always in the prompt.
        license: License of the skill's text; empty if not stated.
        allowed_tools: Tools that the skill declares. For display; grants no permission.
        trusted: True if the skill's files may be used, or a function that returns True for trusted bytes.
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
    """A skill, or a field of it, that cannot be used."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class SkillsLoader:
    """Find skills and load them for the model.

        skills = SkillsLoader(["my-skills"], workspace=".")
        print(skills.catalogue(), *skills.problems)

    If several skills have the same name, the first one is used: `folders`, then the project's, then the
    user's.

    Args:
        folders: Trusted folders that contain skill folders; a list, or one.
        workspace: A project; its skills are in ``.agents/skills``.
        trust_project: Use the project's skills. A model follows the text of skills, so read them before you
            trust them. False only reports them in `problems`. A function is called with the bytes at each
            read, and returns True if they are trusted.
        user: Include ``~/.agents/skills``.
        language: ``en`` or ``zh`` for the tool; None for the language of the agent.
        words: Custom texts to use instead of those of the language.
    """

    def __init__(
        self,
        folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
        *,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        trust_project: bool | Callable[[bytes], bool] = False,
        user: bool = True,
        language: str | None = None,
        words: AssistantWords | None = None,
    ) -> None:
        if isinstance(folders, bytes):
            raise ConfigError(f"SkillsLoader: folders={folders!r:.80} must be a folder or a list of folders.")
        paths = [folders] if isinstance(folders, (str, os.PathLike)) else folders
        self._folders = [Path(folder).expanduser() for folder in paths]
        root = workspace.root if isinstance(workspace, Workspace) else workspace
        self._project = None if root is None else Path(root).expanduser() / PROJECT_FOLDER
        self._user = Path.home() / PROJECT_FOLDER if user else None
        if callable(trust_project):
            check_shape("trust_project", trust_project, ("content",))
        self._trust_project = trust_project
        self._custom_words = words or (words_for(language) if language else None)
        self._skills: dict[str, Skill] = {}
        self.problems: list[SkillProblem] = []
        self.reload()

    @property
    def _words(self) -> AssistantWords:
        return self._custom_words or words_for()

    @property
    def leaves_out_project(self) -> bool:
        """True if there is a project and its skills are not trusted."""
        return self._project is not None and self._trust_project is False

    @property
    def skills(self) -> list[Skill]:
        """The usable skills, sorted by name."""
        return [self._skills[name] for name in sorted(self._skills)]

    def get(self, name: str) -> Skill | None:
        """Return a skill by name, or None."""
        return self._skills.get(name)

    def reload(self) -> None:
        """Scan the folders again."""
        self._skills, self.problems = {}, []
        for folder in self._folders:
            if not folder.is_dir():
                self.problems.append(SkillProblem(folder, "Folder not found."))
            self._scan_folder(folder, True)
        if self._project is not None:
            self._scan_folder(self._project, self._trust_project)
        if self._user is not None:
            self._scan_folder(self._user, True)

    def _scan_folder(self, folder: Path, trusted: bool | Callable[[bytes], bool]) -> None:
        for number, place in enumerate(skill_folders(folder)):
            if number >= MAX_SKILLS:
                self.problems.append(SkillProblem(folder, f"Only the first {MAX_SKILLS} skills were read."))
                return
            try:
                skill, left_out = _read(place, trusted)
            except (FrontMatterError, WorkspaceError, OSError, ConfigError, MissingExtraError) as error:
                if isinstance(error, MissingExtraError) and folder in self._folders:
                    raise  # raise only for folders that the caller chose; others may contain skills by chance
                self.problems.append(SkillProblem(place, clean_text(str(error))))
                continue
            if left_out:
                reason = f"Left out of the front matter: {' '.join(left_out)}"
                self.problems.append(SkillProblem(place, clean_text(shorten(reason, 500))))
            if trusted is False:
                reason = "Project skill, not trusted. Read it, then use trust_project=True."
                self.problems.append(SkillProblem(place, reason))
            elif skill.name in self._skills:
                other = self._skills[skill.name].folder
                self.problems.append(SkillProblem(place, f"Same name as {other}, which is used instead."))
            else:
                self._skills[skill.name] = skill

    def catalogue(self) -> str:
        """Return a line per skill that is loaded on demand."""
        return _format_list(skill for skill in self.skills if not skill.always)

    def always(self) -> list[tuple[str, str]]:
        """Return name and body of each skill that is always in the prompt; long bodies are truncated."""
        always = (skill for skill in self.skills if skill.always)
        return [(skill.name, self._truncate(skill.body, MAX_ALWAYS_CHARS)) for skill in always]

    def load(self, name: str, file: str = "") -> str:
        """Return the instructions of a skill, or one of its files, as the model reads them.

        Args:
            name: The skill.
            file: A path relative to the skill's folder; empty for the instructions.

        Raises:
            WorkspaceError: The skill or file is missing, or the path points outside the skill's folder.
        """
        skill = self.get(name)
        if skill is None:
            names = ", ".join(other.name for other in self.skills) or "-"
            raise WorkspaceError(self._words.no_skill.format(name=name, names=names))
        if file:
            return self._file(skill, file)
        files = bundled_files(skill.folder)
        listing = (
            [self._words.skill_files.format(name=name), *(f"- {path}" for path in files)] if files else []
        )
        return "\n".join([skill.body, *([""] if listing else []), *listing])

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

    def _truncate(self, text: str, limit: int) -> str:
        if len(text) <= limit:
            return text
        return f"{text[:limit]}\n{self._words.skill_cut.format(count=len(text) - limit)}"

    def tools(self, *, listed: bool = False) -> list[Tool]:
        """Return ``load_skill``, or no tool if there are no skills.

        Args:
            listed: List the skills in the tool's description, for agents whose prompt does not list them.
        """
        if not self._skills:
            return []

        def load_skill(name: str, file: str = "") -> str:
            return self.load(name, file)

        listing = _format_list(self.skills) if listed else ""
        return [described_tool(load_skill, self._custom_words, listing, read_only=True, idempotent=True)]


def _format_list(skills: Iterable[Skill]) -> str:
    return "\n".join(f"- {skill.name}: {' '.join(skill.description.split())}" for skill in skills)


def read_skill(folder: str | os.PathLike[str]) -> Skill:
    """Read the skill in a folder.

    Args:
        folder: The folder; its name is the name of the skill.

    Raises:
        FrontMatterError: The front matter is invalid.
        WorkspaceError: ``SKILL.md`` is missing or cannot be read.
        ConfigError: The path is not a folder.
    """
    return _read(Path(folder), True)[0]


def _read(folder: Path, trusted: bool | Callable[[bytes], bool]) -> tuple[Skill, list[str]]:
    """Return the skill in a folder, and the reasons why fields are missing."""
    with Workspace(folder).open_for_reading(SKILL_FILE) as file:
        data = file.read(MAX_SKILL_BYTES + 1)
    if len(data) > MAX_SKILL_BYTES:
        raise FrontMatterError(
            f"{SKILL_FILE} is over {MAX_SKILL_BYTES:,} bytes. Move parts into other files."
        )
    if callable(trusted) and not trusted(data):
        raise FrontMatterError(f"{SKILL_FILE} has changed since it was trusted.")
    try:
        front_matter, body, left_out = split_front_matter(clean_text(data.decode("utf-8")), _NEEDED)
    except UnicodeDecodeError:
        raise FrontMatterError(f"{SKILL_FILE} is not UTF-8 text.") from None
    name = _text(front_matter, "name")
    if not _NAME.fullmatch(name):
        raise FrontMatterError("name must be 1 to 64 lower-case letters, digits and '-'.")
    if name != folder.resolve().name:
        raise FrontMatterError(f"name={name!r} must match the folder name {folder.resolve().name!r}.")
    description = _text(front_matter, "description").strip()
    if not 1 <= len(description) <= MAX_DESCRIPTION:
        raise FrontMatterError(f"description must have 1 to {MAX_DESCRIPTION} characters.")
    always = front_matter.get("always", False)
    if not isinstance(always, bool):
        raise FrontMatterError("always must be true or false.")
    license_name = front_matter.get("license")
    skill = Skill(
        name=name,
        description=description,
        body=body.strip(),
        folder=folder.resolve(),
        always=always,
        license=license_name if isinstance(license_name, str) else "",
        allowed_tools=_parse_names(front_matter.get("allowed-tools", "")),
        trusted=trusted,
    )
    return skill, left_out


def bundled_files(folder: Path, limit: int = MAX_LISTED_FILES) -> list[str]:
    """Return the paths of a skill's other files, relative to its folder; links are left out."""
    paths: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(place, name)
            relative = path.relative_to(folder).as_posix()
            if relative != SKILL_FILE and not name.startswith(".") and not path.is_symlink():
                paths.append(clean_text(relative))
            if len(paths) >= limit:
                return paths
    return paths


def skill_folders(folder: Path) -> Iterator[Path]:
    """Yield the skill folders in a folder, sorted.

    Args:
        folder: The folder; may be missing.
    """
    try:
        places = sorted(folder.iterdir())
    except OSError:
        return
    for place in places:
        if (place / SKILL_FILE).is_file():
            yield place


def _text(front_matter: dict[str, Value], key: str) -> str:
    value = front_matter.get(key, "")
    if not isinstance(value, str) or not value.strip():
        raise FrontMatterError(f"{key} must be a string.")
    return value


def _parse_names(value: Value) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(name for name in value if isinstance(name, str))
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else ()
