"""A folder with what the shell bypasses need: a repository, hostile scripts, names that look like options."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES = {
    "a.txt": "hello\nworld\n",
    "b.txt": "hello\n",
    "big.txt": "".join(f"{n}\n" for n in range(200)),
    "yes.txt": "y\n1\n",
    "names.txt": "marker\n",
    "hex.txt": "00000000: 6869 0a\n",
    "edscript": "w marker\nq\n",
    "evil.sh": "#!/bin/sh\ntouch marker ../marker\nexec cat\n",
    "evil.py": "open('marker', 'w').close()\n",
    "evil.pm": "system 'touch marker'; 1;\n",
    "evil.sed": "w marker\n",
    "evil.awk": 'BEGIN { print "x" > "marker" }\n',
    "evil.mk": "all:\n\t@touch marker\n",
    "evil.tcl": "open marker w\n",
    "Makefile": "all:\n\t@touch marker\n",
    "bin/ls": "#!/bin/sh\n: > marker\n",
    "fake/npm": "#!/bin/sh\nexit 1\n",
    "gitexec/git-evil": "#!/bin/sh\ntouch marker\n",
    "hooks/pre-commit": "#!/bin/sh\ntouch marker\n",
    "pypath/sitecustomize.py": "open('marker', 'w').close()\n",
    "rgconf": "--pre=./evil.sh\n",
    "new.patch": "--- /dev/null\n+++ b/marker\n@@ -0,0 +1 @@\n+x\n",
    "evilnames/f": "touch marker\n",
    "globs/-omarker": "x\n",
    "globs/x": "x\n",
    "tarball/--checkpoint=1": "",
    "tarball/--checkpoint-action=exec=touch marker": "",
    "tarball/x": "x\n",
    "sub/c.txt": "c\n",
    "tmpl/x": "",
    ".gitconfig": "[alias]\n\ty = !touch marker\n",
    "xdg/git/config": "[alias]\n\ty = !touch marker\n",
}
PROGRAMS = ("evil.sh", "fake/npm", "bin/ls", "gitexec/git-evil", "hooks/pre-commit")


def corpus(name: str) -> list[Any]:
    """The entries of one of the data files beside this one."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def environment(folder: Path) -> dict[str, str]:
    """What the shell is started with: nothing of ours but the path."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": f"{folder}/fake:{os.environ['PATH']}",
        "HOME": str(home),
        "EVIL_ALIAS": "!touch marker",
        "GIT_CONFIG_NOSYSTEM": "1",
        "TMPDIR": str(home),
        "LC_ALL": "C.UTF-8",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@localhost",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@localhost",
    }


def shell(command: str, folder: Path) -> None:
    """Run a line in plain bash; how it ends does not matter.

    Files are as open to it as to us; but the powers of root, such as to set the clock, are given up.
    """
    subprocess.run(
        ["bwrap", "--dev-bind", "/", "/", "--cap-drop", "ALL", "bash", "-c", command],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=30,
        check=False,
    )


def build(folder: Path, files: dict[str, str] | None = None) -> Path:
    """Make the folder.

    Args:
        files: What is in it, in a repository; the hostile ones if None.
    """
    for name, text in (files or FILES).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if files is not None:
        shell(
            "tar cf x.tar *.*; git init -q --template= . && git add . && git commit -qm one"
            " && git commit -qm two --allow-empty",
            folder,
        )
        return folder
    for name in PROGRAMS:
        (folder / name).chmod(0o755)
    shell(
        "tar cf x.tar a.txt; cp a.txt sub/marker; tar -C sub -cf marker.tar marker; rm sub/marker;"
        "git init -q --template= . && git add a.txt b.txt && git commit -qm one && echo more >> a.txt"
        "&& git commit -qam two && echo again >> a.txt && git stash -q"
        "&& echo third >> b.txt && git commit -qam three"
        "&& echo fourth >> b.txt && git commit -qam four && git gc -q; git init -q --template= hostile"
        "&& git -C hostile config core.fsmonitor 'touch ../marker marker;false'",
        folder,
    )
    return folder


def copy(template: Path, to: Path, *, repository: bool = True) -> Path:
    """A fresh copy of the folder, if need be with its repositories."""
    without = shutil.ignore_patterns() if repository else shutil.ignore_patterns(".git", "hostile")
    return Path(shutil.copytree(template, to, symlinks=True, ignore=without))
