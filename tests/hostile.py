"""A stranger's folder, in which everything that a program could look for leaves a mark."""

from __future__ import annotations

import subprocess

MODULES = (
    *(
        "pip",
        "json",
        "re",
        "site",
        "sitecustomize",
        "usercustomize",
        "runpy",
        "zipfile",
        "hashlib",
        "typing",
        "socket",
    ),
    *(
        "subprocess",
        "asyncio",
        "selectors",
        "ctypes",
        "resource",
        "importlib",
        "encodings",
        "pathlib",
        "landlock",
    ),
    *(
        "seccomp",
        "openai",
        "pydantic",
        "pydantic_core",
        "httpx",
        "anyio",
        "rich",
        "xllamacpp",
        "dbos",
        "psycopg",
    ),
    *("numpy", "bfcl_eval", "mcp", "pure_agent_loop"),
    *("prompt_toolkit", "pygments", "starlette", "uvicorn", "h11", "websockets", "yaml", "tomllib", "tomli"),
    *("tree_sitter", "tree_sitter_bash", "jsonschema", "sqlite3", "sqlalchemy", "curses", "signal", "ssl"),
    *("logging", "email", "secrets", "tempfile", "shutil", "argparse", "readline", "idlelib", "antigravity"),
)
PROGRAMS = (
    *("git", "rg", "uv", "bwrap", "pg_ctl", "keyring", "ssh", "gpg", "sh", "bash", "python", "python3"),
    *(
        "node",
        "npm",
        "wl-paste",
        "xclip",
        "pngpaste",
        "prlimit",
        "unshare",
        "ps",
        "id",
        "stty",
        "tput",
        "uname",
    ),
)


def hostile_folder(tmp_path):
    """Make a folder that leaves a mark from every place where a program could look for something."""
    folder, marks = tmp_path / "cloned", tmp_path / "marks"
    folder.mkdir()
    marks.mkdir()
    for name in MODULES:
        code = (
            f"import os\nos.close(os.open({str(marks / name)!r}, os.O_CREAT, 0o600))\nraise SystemExit(7)\n"
        )
        (folder / f"{name}.py").write_text(code)
    (folder / "bin").mkdir()
    for name in PROGRAMS:
        for path in (folder / name, folder / "bin" / name):
            path.write_text(f"#!/bin/sh\n: > {marks}/program-{name}\n")
            path.chmod(0o755)
    (folder / "evil.pth").write_text("import site\n")
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\n")
    pip = f"[global]\npython = {folder}/bin/python\nindex-url = http://127.0.0.1:9/simple\n"
    for name in ("pip.conf", "pip.ini", "pip/pip.conf", ".config/pip/pip.conf"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(pip)
    (folder / "setup.cfg").write_text("[install]\nprefix = /nowhere\n")
    (folder / "ripgreprc").write_text(f"--pre={folder}/bin/sh\n")
    (folder / "gitconfig").write_text(f"[core]\nfsmonitor = {folder}/bin/sh\nhooksPath = {folder}/bin\n")
    return folder


# As a `.env` of the folder would do it: after our own process has begun.
BROUGHT = """
import os
here = {0!r}
names = "PYTHONPATH PYTHONHOME PYTHONUSERBASE PYTHONPLATLIBDIR XDG_CONFIG_HOME LD_LIBRARY_PATH GIT_DIR"
programs = dict(PIP_PYTHON="python", UV_PYTHON="python", GIT_SSH="ssh", GIT_EXEC_PATH="", ENV="sh")
os.environ.update(dict.fromkeys(names.split(), here))
os.environ.update({{name: here + "/bin/" + program for name, program in programs.items()}})
os.environ.update(
    PYTHONSTARTUP=here + "/json.py", PYTHONINSPECT="1", PIP_CONFIG_FILE=here + "/pip.conf",
    PIP_INDEX_URL="http://127.0.0.1:9/simple", RIPGREP_CONFIG_PATH=here + "/ripgreprc",
    GIT_CONFIG_GLOBAL=here + "/gitconfig",
    PATH=os.pathsep.join([here + "/bin", ".", "bin", "", os.environ["PATH"]]),
)
"""


def marks(folder):
    return sorted(path.name for path in (folder.parent / "marks").iterdir())


def repository(folder, marks):
    """A repository in which everything that git can be told to run leaves a mark."""

    def git(*words):
        subprocess.run(
            ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=b@c", *words],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    (folder / "seen.txt").write_text("text\n")
    (folder / ".gitattributes").write_text("*.txt filter=evil\n*.py filter=w.o=x diff=evil\n")
    git("add", "seen.txt", ".gitattributes")
    git("commit", "-q", "-m", "first")
    hooks = folder / ".git" / "hooks"
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\n: > {marks}/hook-{name}\n")
        (hooks / name).chmod(0o755)
    for key in (
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "core.fsmonitor",
        "gpg.program",
        "core.pager",
        "diff.external",
        "diff.evil.textconv",
        "core.sshCommand",
        "core.editor",
    ):
        git("config", key, f": > {marks}/{key} ; cat")
    git("config", "filter.evil.required", "true")
    git("config", "log.showSignature", "true")
