"""Start child processes and write to them; the working folder is untrusted.

No child loads modules or programs from the working folder. A child's environment has only known variables: it
does not inherit those that a ``.env`` in the working folder may have set, such as ``PYTHONPATH``,
``PIP_INDEX_URL`` or ``GIT_DIR``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

PYTHON = sys.executable
NEUTRAL_DIR = Path(sys.executable).anchor  # a working folder from which nothing can be loaded
NETWORK = (
    *(
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_KEPT = ("USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "SYSTEMDRIVE")
_PLACES = (
    *("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"),
    *("USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
)
_FOLDER_LISTS = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_PACKAGE = __name__.partition(".")[0]
# The child uses the same copy of this package, even an editable or a vendored one; all other folders are
# appended, so that they do not shadow any module.
_BEGIN = """\
import importlib.util as util, runpy, sys
package, start, folders, module = sys.argv[1:5]
if module.partition(".")[0] == package:
    spec = util.spec_from_file_location(package, start)
    sys.modules[package] = util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[package])
sys.path += filter(None, folders.split("\\n"))
sys.argv = [module, *sys.argv[5:]]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
# ``python -m`` would import from the working folder.
_COMMAND = """\
import sys
sys.path[:] = filter(None, sys.path)
from pure_agent_loop.cli import main
sys.exit(main())
"""


def script_argv(script: Path, *words: str) -> list[str]:
    """Return the command that runs a file with this Python and the standard library only."""
    return [sys.executable, "-I", "-S", str(script), *words]


def module_argv(module: str, *words: str, needs: Iterable[str] = ()) -> list[str]:
    """Return the command that runs a module with this Python, never from the working folder.

    Args:
        needs: Packages that the module imports; the child finds them where this process does.
    """
    start = Path(__file__).parents[1] / "__init__.py"
    locations = (module_folder(name) for name in (module.partition(".")[0], *needs) if name != _PACKAGE)
    folders = "\n".join(dict.fromkeys(str(folder) for folder in locations if folder))
    return [sys.executable, "-I", "-c", _BEGIN, _PACKAGE, str(start), folders, module, *words]


def command_argv(*words: str) -> list[str]:
    """Return the command that runs ``pal`` with this Python, and with the environment of this process."""
    return [sys.executable, "-c", _COMMAND, *words]


def module_folder(name: str) -> Path | None:
    """Return the folder from which this process imports a package, or None. The working folder is skipped.

    Args:
        name: A package or module without dots.
    """
    spec = PathFinder.find_spec(name, [folder for folder in sys.path if _is_usable(folder)])
    origin = spec.origin if spec else None
    if origin is None:
        return None
    return Path(origin).parent.parent if spec and spec.submodule_search_locations else Path(origin).parent


def find_program(name: str) -> str | None:
    """Return the full path of a program on the PATH, outside the working folder.

    Args:
        name: The program's name, without a folder.
    """
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = shutil.which(name, path=folder) if _is_usable(folder) else None
        if program and _is_usable(str(Path(program).parent)):
            return program
    return None


def child_environment(*names: str, **variables: str) -> dict[str, str]:
    """Return a child's environment: known variables only, and no folder inside the working folder."""
    env = {name: os.environ[name] for name in (*_KEPT, *names) if name in os.environ}
    for name in (*_PLACES, *_FOLDER_LISTS):
        folders = filter(_is_usable, os.environ.get(name, "").split(os.pathsep))
        env |= {name: value} if (value := os.pathsep.join(folders)) else {}
    return {**env, **variables}


def _is_usable(path: str) -> bool:
    """True if a path is absolute and lies outside the working folder.

    Packages installed for this Python are trusted, even in a ``.venv`` in the working folder. If the working
    folder is the user's home or a parent of the home, only the working folder itself is excluded.
    """
    if not Path(path).is_absolute():
        return False
    try:
        cwd, place = Path.cwd(), Path(os.path.realpath(path))
    except OSError:  # the working folder was deleted
        return True
    if cwd == place or cwd not in place.parents:
        return cwd != place
    home = _home()
    return Path(sys.prefix).resolve() in place.parents or cwd in (home, *home.parents)


def _home() -> Path:
    """Return the user's home from the system, not from the environment."""
    if sys.platform == "win32":
        return Path.home().resolve()
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    except KeyError:
        return Path("/")


def kill_group(process: Any, sign: int | None = None) -> None:
    """End a program that was started in its own session, and its children.

    Args:
        process: A process with a `pid` and a method `kill`.
        sign: Signal to send; None to kill.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, sign or signal.SIGKILL)


def write_to(stdin: asyncio.StreamWriter, data: bytes) -> None:
    """Write to a program's standard input.

    Raises:
        BrokenPipeError: The program has closed its input. The input is checked before the write, because
            uvloop would raise a different error.
    """
    if stdin.is_closing():
        raise BrokenPipeError
    stdin.write(data)


async def communicate(process: asyncio.subprocess.Process, data: bytes = b"") -> tuple[bytes, bytes]:
    """Write to a process if it is still reading, wait for its exit, and return its output and errors."""
    import asyncio  # imported here, because it is slow to import and some callers need no event loop

    _, output = await asyncio.gather(_feed(process.stdin, data), process.communicate())
    return output


async def _feed(stdin: asyncio.StreamWriter | None, data: bytes) -> None:
    if stdin is None:
        return
    # If the process has ended, its error output has the reason.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if data:
            write_to(stdin, data)
            await stdin.drain()
    stdin.close()
