"""Count what happens to unapproved command lines (allowed, run read-only, asked about), and their effects.

    python -m benchmarks.shell_lines [--sandbox bubblewrap|landlock] [--every 1] [--show]

Each line of the corpora of ``tests/toolbox`` goes to the shell as in the mode ``ask``, without any rule and
with a person who is only counted. An effect is any change of a file in the workspace or outside, of a process
outside, or a connection to a server outside. Started by root, all of it runs as the user ``nobody``.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.toolbox.shell_scratch import build, corpus

from pure_agent_loop.permissions import JudgeContext
from pure_agent_loop.toolbox.shell.tool import Shell

NOBODY = 65534
TIMEOUT = 10.0
CORPORA = {
    "bypasses": "shell_bypasses",
    "harmless": "shell_harmless",
    "hostile (new)": "shell_hostile",
    "attacks (newest)": "shell_attacks",
    "everyday (new)": "shell_everyday",
}
KINDS = ("denied", "allowed", "read-only", "asked")
PROJECT = {
    "README.md": "# A project\n\n>>> 1 + 1\n2\n",
    "pyproject.toml": '[project]\nname = "app"\nversion = "1"\n',
    "package.json": '{"name": "app", "version": "1.0.0",'
    ' "scripts": {"test": "node index.js", "lint": "node --check index.js"}}\n',
    "index.js": "console.log('ok')\n",
    "src/__init__.py": "",
    "src/app.py": "def main():\n    return 1\n\n\nif __name__ == '__main__':\n    print(main())\n",
    "src/util.py": "def twice(x):\n    return 2 * x\n",
    "tests/__init__.py": "",
    "tests/test_app.py": "import unittest\n\nfrom src import app\n\n\nclass T(unittest.TestCase):\n"
    "    def test_main(self):\n        self.assertEqual(app.main(), 1)\n",
    "Makefile": "test:\n\tpython3 -m unittest discover -s tests -t .\nlint:\n\tpython3 -m tabnanny src\n",
    "main.c": "int main(void) { return 0; }\n",
    "run.sh": "#!/bin/sh\necho ran\n",
    "notes.txt": "one\ntwo\nfoo@bar\n",
    "data.csv": "name,size\na,1\nb,2\n",
    "build.log": "ok\nError: x\n",
}


@dataclass
class Ground:
    """A disposable workspace, and the files inside and outside that must not change."""

    folder: Path
    workspace: Path
    victim: int
    port: int
    calls: list[str] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """Return everything that a command could have changed."""
        found: dict[str, Any] = {"connections": len(self.calls)}
        for path, folders, names in os.walk(self.folder):
            for name in (".", *folders, *names):
                status = os.lstat(f"{path}/{name}")
                found[f"{path}/{name}"] = (status.st_mode, status.st_uid, status.st_size, status.st_ctime_ns)
        with suppress(OSError):
            found["victim"] = (
                *(os.sched_getaffinity(self.victim), os.getpriority(os.PRIO_PROCESS, self.victim)),
                Path(f"/proc/{self.victim}/limits").read_text(),
                # Only stopped or ended count: a process that is still starting may sleep or not.
                Path(f"/proc/{self.victim}/stat").read_text().rpartition(")")[2].split()[0] in "TtZX",
            )
        return found

    def line(self, entry: Any) -> str:
        """The command of an entry, with what it needs to know filled in."""
        command = str(entry["command"] if isinstance(entry, dict) else entry)
        return command.replace("$VICTIM", str(self.victim)).replace("$PORT", str(self.port))


@contextmanager
def ground(*, project: bool) -> Iterator[Ground]:
    """Yield a workspace with servers and a process outside of it; remove everything afterwards.

    Args:
        project: A small healthy project, instead of the folder of hostile files.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="pal-lines-")).resolve()
        stack.callback(shutil.rmtree, folder)
        workspace = folder / "work"
        build(workspace, PROJECT if project else None)
        victim = subprocess.Popen(["sleep", "3600"])
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        made = Ground(folder, workspace, victim.pid, 0)
        tcp = socket.create_server(("127.0.0.1", 0))
        made.port = tcp.getsockname()[1]
        local = socket.socket(socket.AF_UNIX)
        local.bind(str(workspace / "socket"))
        local.listen()
        for each in (stack.enter_context(tcp), stack.enter_context(local)):
            threading.Thread(target=_count, args=(each, made.calls), daemon=True).start()
            stack.callback(each.shutdown, socket.SHUT_RDWR)
        yield made


def _count(server: socket.socket, calls: list[str]) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            calls.append("called")
            client.close()


def judged(shell: Shell, command: str) -> tuple[str, str]:
    """Return what happens to an unapproved line, and why."""
    found = shell.judge({"command": command, "timeout": TIMEOUT}, JudgeContext(attended=True))
    if inspect.iscoroutine(found):
        found = asyncio.run(found)
    if found is None or found.behavior == "allow":
        return ("read-only" if found is not None and found.read_only else "allowed"), ""
    return ("asked" if found.behavior == "ask" else "denied"), found.message


def measure(
    entries: list[Any], sandbox: str, *, project: bool
) -> tuple[Counter[str], list[tuple[str, str, str]]]:
    """Judge lines one after another. Returns the counts per outcome, and each line with outcome and reason.

    Args:
        entries: Of a corpus.
        sandbox: Its name.
        project: See `ground`.
    """
    counts, told = Counter[str](), []
    with ground(project=project) as made:
        shell = Shell(made.workspace, sandbox=sandbox)
        before = made.state()
        for entry in entries:
            command = made.line(entry)
            kind, why = judged(shell, command)
            after = made.state()
            if after != before:
                changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
                told.append(("EFFECT", command, ", ".join(changed)[:300]))
                before, counts["effect"] = after, counts["effect"] + 1
            counts[kind] += 1
            told.append((kind, command, why))
    return counts, told


def become_nobody() -> None:
    """Give up root's privileges, and access to root's home."""
    os.environ.update(PATH="/usr/local/bin:/usr/bin:/bin", HOME="/nonexistent")
    os.environ["PAL_HOME"] = tempfile.mkdtemp(prefix="pal-lines-data-")
    if os.getuid() == 0:
        os.chown(os.environ["PAL_HOME"], NOBODY, NOBODY)
        sys.executable = shutil.which("python3") or sys.executable
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sandbox", default="bubblewrap", choices=("bubblewrap", "landlock"))
    parser.add_argument("--every", type=int, default=1, help="only each so many-th line")
    parser.add_argument("--only", default="", help="only this corpus")
    parser.add_argument("--show", action="store_true", help="print what was asked, denied or had an effect")
    options = parser.parse_args()
    # Loads the modules before the measurement.
    Shell("benchmarks").judge({"command": "ls"}, JudgeContext(approved=True))
    become_nobody()
    print(f"{'':16}{'lines':>7}" + "".join(f"{kind:>11}" for kind in (*KINDS, "effect")))
    for name, file in CORPORA.items():
        if options.only in name:
            project = file in ("shell_everyday", "shell_harmless")
            counts, told = measure(corpus(file)[:: options.every], options.sandbox, project=project)
            row = (sum(counts[kind] for kind in KINDS), *(counts[kind] for kind in (*KINDS, "effect")))
            print(f"{name:16}{row[0]:>7}" + "".join(f"{number:>11}" for number in row[1:]), flush=True)
            for kind, command, why in told:
                if options.show and kind in ("EFFECT", "asked", "denied"):
                    print(f"  {kind}: {command!r} ({why})")
    shutil.rmtree(os.environ["PAL_HOME"])


if __name__ == "__main__":
    main()
