"""Tasks for the long list of tools (``benchmarks.local_tools --tools full``), and stand-ins for the tools.

The tasks were written before anything was tuned for them, the held-out ones on the same day by the same
person. The tools have the names, arguments and descriptions of a file toolset; those that would leave the
folder (shell, fetch) or need a person only say what they were asked, so that a measure changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.tool import Tool, tool
from pure_agent_loop.toolbox import starter_tools

FILES = {
    "notes.txt": "The sky is blue.\nThe deadline is Friday.\n天空是蓝色的。\n",
    "pets.txt": "I have a cat.\n我有一只猫。\n",
    "todo.txt": "Buy milk.\nCall Tom.\n",
    "story.txt": "It was a very long night, and dark clouds came.\nThe dark road ended.\n",
    "menu.txt": "We serve tea.\n",
    "version.txt": "1.2\n",
    "letter.txt": "I hope to recieve an answer.\n",
    "config.ini": "[server]\nhost = localhost\nport = 8080\n",
    "secret.txt": "password: 密码\n",
    "docs/guide.md": "# Guide\nStart with the first page.\n",
    "README.md": "# Readme\nA small project.\n",
    "src/main.py": "from util import load_users\n",
    "src/util.py": "# TODO: sort them\ndef load_users():\n    return []\n",
    "data/colors.csv": "red\nyellow\n",
    "data/users.json": "[]\n",
}
Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """What is asked, and what should happen.

    Args:
        text: The question.
        steps: The calls, in order; a text argument is compared as it is, a path without "./" and "/".
        after: Files and their content when all is done, where that is not what it was.
    """

    text: str
    steps: tuple[Step, ...] = ()
    after: dict[str, str] = field(default_factory=dict)


def _read(path: str) -> Step:
    return ("read_file", {"path": path})


def _list(path: str) -> Step:
    return ("list_dir", {"path": path})


def _edit(text: str, path: str, old: str, new: str, *before: Step) -> Task:
    step = ("edit_file", {"path": path, "old_text": old, "new_text": new})
    return Task(text, (*before, step), {path: FILES[path].replace(old, new)})


def _write(text: str, path: str, content: str) -> Task:
    return Task(text, (("write_file", {"path": path, "content": content}),), {path: content})


def _find(text: str, *names: str) -> Task:
    return Task(text, (("glob", {"found": sorted(names)}),))


def _grep(text: str, pattern: str, path: str = ".") -> Task:
    return Task(text, (("grep", {"pattern": pattern, "path": path}),))


def _one(text: str, name: str, **arguments: Any) -> Task:
    return Task(text, ((name, arguments),))


DEV = [
    _edit('In notes.txt replace "blue" with "green"', "notes.txt", "blue", "green"),
    _edit("Change the word cat to dog in pets.txt", "pets.txt", "cat", "dog"),
    _edit('Edit todo.txt: change "milk" to "bread".', "todo.txt", "milk", "bread"),
    _edit('Remove the word "very" from story.txt', "story.txt", "very", ""),
    _write("Create a file hello.txt with the text Good morning", "hello.txt", "Good morning"),
    _write('Write "Call Anna" to reminder.txt', "reminder.txt", "Call Anna"),
    Task("Read config.ini and tell me the port", (_read("config.ini"),)),
    Task("List the files in docs.", (_list("docs"),)),
    _find("Which python files are there?", "src/main.py", "src/util.py"),
    _find("Find all markdown files", "README.md", "docs/guide.md"),
    _grep("Search for TODO in src", "TODO", "src"),
    _grep("Which files contain the word password?", "password"),
    _one("Run the command `ls docs`", "shell", command="ls docs"),
    _one("Fetch https://example.com/news", "fetch", url="https://example.com/news"),
    _edit('Read pets.txt, then replace "cat" with "dog" in it', "pets.txt", "cat", "dog", _read("pets.txt")),
    Task("List the files in docs, then read docs/guide.md.", (_list("docs"), _read("docs/guide.md"))),
    _edit("把 notes.txt 里的“蓝色”改成“绿色”", "notes.txt", "蓝色", "绿色"),
    _write("新建文件 hello.txt，内容是“早上好”", "hello.txt", "早上好"),
    _grep("在 src 里搜索 TODO", "TODO", "src"),
    _one("What is 12 * 12?", "calculator", expression="12 * 12"),
    Task("What is the capital of France?"),
    Task("Write a short poem about rain."),
    Task("Explain how to change a tyre."),
]
HELD_OUT = [
    _edit("Replace 'localhost' by 'example.org' in config.ini.", "config.ini", "localhost", "example.org"),
    _edit('In story.txt, change every "dark" to "bright".', "story.txt", "dark", "bright"),
    _edit("Update version.txt from 1.2 to 1.3", "version.txt", "1.2", "1.3"),
    _edit("Could you swap the word tea for coffee in menu.txt?", "menu.txt", "tea", "coffee"),
    _edit('Delete the line "Buy milk." from todo.txt', "todo.txt", "Buy milk.", ""),
    _edit('Fix the typo "recieve" to "receive" in letter.txt', "letter.txt", "recieve", "receive"),
    _edit("Open menu.txt and change tea to juice.", "menu.txt", "tea", "juice"),
    _write('Make a new file called list.txt that contains "eggs and flour".', "list.txt", "eggs and flour"),
    _write('Save the text "Meeting at noon" in plan.txt.', "plan.txt", "Meeting at noon"),
    Task("What is written in pets.txt?", (_read("pets.txt"),)),
    Task("What files are in the src directory?", (_list("src"),)),
    _find("Show me all JSON files in data.", "data/users.json"),
    _grep("Where is the function load_users defined?", "load_users"),
    _grep("Look for the word deadline in notes.txt.", "deadline", "notes.txt"),
    _one("Execute `python --version`", "shell", command="python --version"),
    _one(
        "Get the page https://example.org/faq and show me what it says.",
        "fetch",
        url="https://example.org/faq",
    ),
    _edit(
        'First list the files in data, then read data/colors.csv, then replace "red" with "pink" in '
        "data/colors.csv.",
        "data/colors.csv",
        "red",
        "pink",
        _list("data"),
        _read("data/colors.csv"),
    ),
    _edit("把 pets.txt 中的猫替换为狗", "pets.txt", "猫", "狗"),
    _write("创建一个名为 note.md 的文件，内容为：明天开会", "note.md", "明天开会"),
    Task("读取 config.ini", (_read("config.ini"),)),
    _grep("查找包含“密码”的文件", "密码"),
    _one("How much is 250 minus 75?", "calculator", expression="250 - 75"),
    Task("Who discovered penicillin?"),
    Task("Suggest a title for my story."),
    Task("What is the difference between a file and a folder?"),
]
TASKS = {"first": DEV, "held-out": HELD_OUT}


def make_workspace(folder: Path) -> None:
    """The files the tasks speak of."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def full_tools(root: Path) -> list[Tool]:
    """The long list of tools."""
    return [*file_tools(root), *_others(), *_remembering()]


def file_tools(root: Path) -> list[Tool]:
    """Those of them that are called by clear orders, and the starter tools."""
    return [*starter_tools(root), *_changing(root), *_searching(root), *_reaching()]


def _changing(root: Path) -> list[Tool]:
    @tool
    def write_file(path: str, content: str) -> str:
        """Create a text file, or replace a whole one. To change a part use edit_file.

        Args:
            path: The file, relative to the workspace, for example "docs/guide.md".
            content: All of its new text.
        """
        (root / path).write_text(content, encoding="utf-8")
        return f"Created {path}."

    @tool
    def edit_file(path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
        """Replace text in a file. The old text must stand there exactly, and once unless replace_all is set.

        Args:
            path: The file, relative to the workspace.
            old_text: What to replace, with its indentation, and enough lines around it to be the only one.
            new_text: What to put there.
            replace_all: Replace it everywhere.
        """
        text = (root / path).read_text(encoding="utf-8")
        count = text.count(old_text)
        if not count or (count > 1 and not replace_all):
            raise ValueError(f"old_text stands {count} times in {path}.")
        (root / path).write_text(text.replace(old_text, new_text), encoding="utf-8")
        return f"Edited {path}: {count} place(s) changed."

    return [write_file, edit_file]


def _searching(root: Path) -> list[Tool]:
    @tool(read_only=True)
    def glob(pattern: str, path: str = ".") -> str:
        """Find files by their names.

        Args:
            pattern: For example "*.py" or "src/**/*.md".
            path: The folder to search in.
        """
        found = sorted(p.relative_to(root).as_posix() for p in (root / path).glob(pattern))
        return "\n".join(found) or "No file fits."

    @tool(read_only=True)
    def grep(pattern: str, path: str = ".", glob: str = "") -> str:
        """Search the text of files for a regular expression.

        Args:
            pattern: The regular expression.
            path: A file or folder to search in.
            glob: Only files whose names fit, for example "*.py".
        """
        start = root / path
        files = [start] if start.is_file() else sorted(p for p in start.rglob(glob or "*") if p.is_file())
        lines = [(p, n, line) for p in files for n, line in enumerate(p.read_text().splitlines(), 1)]
        found = [
            f"{p.relative_to(root).as_posix()}:{n}: {line}"
            for p, n, line in lines
            if re.search(pattern, line)
        ]
        return "\n".join(found) or "Nothing found."

    return [glob, grep]


def _reaching() -> list[Tool]:
    @tool
    def shell(command: str, timeout: float | None = None) -> str:
        """Run a command in the shell and return what it prints.

        Args:
            command: The command.
            timeout: Seconds after which it is stopped.
        """
        return f"(would run {command}, timeout {timeout})"

    @tool(read_only=True)
    def fetch(url: str, offset: int = 0) -> str:
        """Fetch a web page and return its text.

        Args:
            url: The address, with http or https.
            offset: Where to go on in a long page.
        """
        return f"(would fetch {url} from {offset})"

    return [shell, fetch]


def _others() -> list[Tool]:
    @tool
    def todo_write(items: list[str]) -> str:
        """Write the list of steps for a long task. Each call replaces the list.

        Args:
            items: The steps.
        """
        return f"(a list of {len(items)} steps)"

    @tool
    def ask_user(question: str, options: list[str] | None = None) -> str:
        """Ask the user a question and wait for the answer.

        Args:
            question: The question.
            options: Answers to choose from.
        """
        return f"(would ask {question} {options})"

    return [todo_write, ask_user]


def _remembering() -> list[Tool]:
    @tool
    def memory_write(name: str, text: str) -> str:
        """Remember a fact for later conversations.

        Args:
            name: A short name of the note.
            text: What to remember.
        """
        return f"(would remember {name}: {text})"

    @tool(read_only=True)
    def memory_search(query: str) -> str:
        """Search the notes of earlier conversations.

        Args:
            query: Words to look for.
        """
        return f"(no note about {query})"

    @tool(read_only=True)
    def memory_read(name: str) -> str:
        """Read a note of an earlier conversation.

        Args:
            name: The name of the note.
        """
        return f"(no note {name})"

    @tool(read_only=True)
    def load_skill(name: str, file: str = "") -> str:
        """Load the instructions of a skill.

        Args:
            name: The skill.
            file: One of its files.
        """
        return f"(no skill {name} {file})"

    return [memory_write, memory_search, memory_read, load_skill]


def right_tools(task: Task, calls: Sequence[Step]) -> bool:
    """True if the tools are those wanted, in order; to read a file once more before an edit is no mistake."""
    return [name for name, _ in _needed(task, calls)] == [name for name, _ in task.steps]


def _needed(task: Task, calls: Sequence[Step]) -> list[Step]:
    """The calls without readings of the very file that is changed, where none was asked for."""
    asked = {name for name, _ in task.steps}
    if "read_file" in asked:
        return list(calls)
    return [c for c in calls if not (c[0] == "read_file" and c[1].get("path") in task.after)]


def right_arguments(task: Task, calls: Sequence[Step], folder: Path) -> bool:
    """True if the calls are right and the folder is as it should be afterwards."""
    steps = zip(task.steps, _needed(task, calls), strict=True)
    return all(_is_right(wanted, got, folder) for (_, wanted), (_, got) in steps) and _is_left(task, folder)


def _is_right(wanted: dict[str, Any], got: dict[str, Any], folder: Path) -> bool:
    if "found" in wanted:
        start = folder / str(got.get("path", "."))
        found = start.glob(str(got.get("pattern")) or "-") if start.is_dir() else []
        return sorted(p.relative_to(folder).as_posix() for p in found) == wanted["found"]
    return all(_plain(name, got.get(name, ".")) == _plain(name, value) for name, value in wanted.items())


def _plain(name: str, value: Any) -> Any:
    return str(value).removeprefix("./").rstrip("/") or "." if name == "path" else value


def _is_left(task: Task, folder: Path) -> bool:
    """True if exactly the files of the task have changed, and as they should."""
    wanted = {**FILES, **task.after}
    left = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return left.keys() == wanted.keys() and all(
        left[name].read_text(encoding="utf-8").strip() == text.strip() for name, text in wanted.items()
    )
