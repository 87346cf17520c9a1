"""Build a release, prove that it can be built again, and write its SHA-256 sums and its list of parts.

    python scripts/release.py            # into dist/: wheel, source archive, sbom.cdx.json, SHA256SUMS
    python scripts/release.py licences   # the list that requirements/licences.txt keeps

The source archive is built from this folder. Wheel and archive are then built twice from what the archive
holds, in other folders, with other times of files and another umask; all must be the same, byte for byte. The
list of parts (CycloneDX 1.6) has what this environment has installed for the package and all its extras, and
the libraries of the page, which are files of the wheel.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
NAME = "pure-agent-loop"
VENDORED = ROOT / "src/pure_agent_loop/server/page/vendor/README.md"
# Names of licences in classifiers and in the field of old metadata, as SPDX names them.
_SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",  # python-dateutil, as its file LICENSE says
}
_ENGINES = ("ray", "restate")  # extras for those who run that engine; `all` and our tests do without
_EXPRESSION = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


def build(source: Path, out: Path, *targets: str) -> list[Path]:
    """Build ``wheel`` and ``sdist`` with the installed hatchling; return the files by name."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    options = [word for target in targets for word in ("-t", target)]
    subprocess.run([*command, *options], cwd=source, check=True, capture_output=True)
    return sorted(out.iterdir())


def unpack(archive: Path, folder: Path, time: float) -> Path:
    """Unpack a source archive and give each file the same time; return its folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        os.utime(path, (time, time))
    (inner,) = folder.iterdir()
    return inner


def build_release(out: Path, root: Path = ROOT) -> list[Path]:
    """Build wheel and source archive, and again from the archive; return both.

    Args:
        out: The folder for both.
        root: The folder of the sources.

    Raises:
        SystemExit: Two builds differ.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        (archive,) = build(root, work / "first", "sdist")
        sums = [{archive.name: digest(archive)}]
        for number, mask in ((1, 0o022), (2, 0o077)):
            before = os.umask(mask)
            try:
                source = unpack(archive, work / f"source{number}", number * 1e9)
                files = build(source, work / f"out{number}", "wheel", "sdist")
            finally:
                os.umask(before)
            sums.append({path.name: digest(path) for path in files})
        if sums[1] != sums[2] or sums[0].items() - sums[1].items():
            raise SystemExit(f"The builds differ: {json.dumps(sums, indent=1)}")
        return [(out / path.name, path.rename(out / path.name))[0] for path in files]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def closure(extra: str = "") -> dict[str, list[str]]:
    """Return the installed distributions that the package with an extra needs, each with its own needs."""
    found: dict[str, list[str]] = {}
    waiting = [(NAME, frozenset({extra}))]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        needs = found.setdefault(name, [])
        for requirement in map(Requirement, distribution(name).requires or ()):
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": each}) for each in {"", *extras}):
                continue
            needed = str(canonicalize_name(requirement.name))
            needs.append(needed)
            waiting.append((needed, frozenset(requirement.extras)))
    return {name: sorted(set(needs)) for name, needs in sorted(found.items())}


def licence(package: Distribution) -> str:
    """Return the licence of a distribution as an SPDX expression; ``unknown: ...`` if it states none."""
    metadata = package.metadata
    listed = [line.split(" :: ")[-1] for line in metadata.get_all("Classifier") or () if "License ::" in line]
    field = (metadata.get_all("License") or [""])[0].strip()
    if expressions := metadata.get_all("License-Expression"):
        return str(expressions[0])
    if field in _SPDX:
        return _SPDX[field]
    if _EXPRESSION.fullmatch(field) and field != "BSD":
        return field
    return " OR ".join(_SPDX.get(name, f"unknown: {name}") for name in listed) or f"unknown: {field:.60}"


def extras() -> list[str]:
    """Return the extras for users that `all` installs."""
    listed = distribution(NAME).metadata.get_all("Provides-Extra") or []
    return sorted(set(listed) - {"all", "dev", *_ENGINES})


def licences() -> str:
    """Return a line for each runtime dependency: its name, its licence, and what needs it."""
    core = closure()
    needed_by = {name: ["core"] if name in core else [] for name in closure("all")}
    for extra in extras():
        for name in closure(extra).keys() - core.keys():
            needed_by[name].append(extra)
    rows = [
        (name, licence(distribution(name)), ", ".join(by)) for name, by in needed_by.items() if name != NAME
    ]
    return "".join(f"{name:<28} {text:<28} {by}\n" for name, text, by in rows)


def vendored() -> list[dict[str, Any]]:
    """Return the libraries of the page as parts, from the table of their folder."""
    rows = re.findall(
        r"^\| `\S+` \| (\S+) \| (\S+) \| ([^|]+) \|", VENDORED.read_text(encoding="utf-8"), re.M
    )
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{quote(name, safe='/')}@{number}",
            "name": name,
            "version": number,
            "scope": "required",
            "licenses": [{"expression": terms.replace(" or ", " OR ")}],
            "purl": f"pkg:npm/{quote(name, safe='/')}@{number}",
        }
        for name, number, terms in sorted(set(rows))
    ]


def sbom() -> dict[str, Any]:
    """Return the list of parts as CycloneDX 1.6, the same for the same environment."""
    core, whole = closure(), closure("all")

    def component(name: str) -> dict[str, Any]:
        package = distribution(name)
        reference = f"pkg:pypi/{name}@{package.version}"
        return {
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": package.version,
            "scope": "required" if name in core else "optional",
            "licenses": [{"expression": licence(package)}],
            # ours is not the one that the index has under this name
            **({"purl": reference} if name != NAME else {}),
        }

    parts = {name: component(name) for name in whole}
    subject, inside = parts[NAME], vendored()
    depends = [
        {"ref": parts[name]["bom-ref"], "dependsOn": [parts[each]["bom-ref"] for each in needs]}
        for name, needs in whole.items()
    ]
    depends[[*whole].index(NAME)]["dependsOn"] += [part["bom-ref"] for part in inside]
    facts = {
        "python": platform.python_version(),
        "platform": sys.platform,
        "build backend": f"hatchling {version('hatchling')}",
    }
    del subject["scope"]
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": subject,
            "properties": [{"name": name, "value": value} for name, value in facts.items()],
        },
        "components": [*(part for name, part in parts.items() if name != NAME), *inside],
        "dependencies": depends,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": serial.urn}


def main() -> None:
    """Build the release, or print the licences."""
    if sys.argv[1:] == ["licences"]:
        print(licences(), end="")
        return
    out = ROOT / "dist"
    try:
        files = build_release(out)
        parts = out / "sbom.cdx.json"
        parts.write_text(json.dumps(sbom(), indent=1) + "\n", encoding="utf-8")
    except (PackageNotFoundError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"The release was not built: {getattr(error, 'stderr', None) or error}") from error
    lines = [f"{digest(path)}  {path.name}\n" for path in (*files, parts)]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    print("".join(lines), end="")


if __name__ == "__main__":
    main()
