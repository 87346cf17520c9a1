"""Write the conformance kit's copy of the modules that it shares with `pure_agent_loop.testing`.

    python scripts/share_testing.py

Users of either distribution do without the other, so both hold these modules: written in ``testing/``,
copied to ``conformance/`` with other imports. A test compares the copies.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/pure_agent_loop/testing"
TARGET = ROOT / "conformance/src/llm_client_conformance/scripted"
SHARED = (
    *("completions", "exchange", "faults", "gate", "history", "listener"),
    *("plan", "player", "request", "script", "server"),
)
IMPORTS = {
    "pure_agent_loop.errors": "llm_client_conformance.values",
    "pure_agent_loop.llm.values": "llm_client_conformance.values",
    "pure_agent_loop.llm.response": "llm_client_conformance.values",
    "pure_agent_loop.testing": "llm_client_conformance.scripted",
}


def copies() -> dict[str, str]:
    """Return the text of each copy, by the name of its file."""
    with tempfile.TemporaryDirectory() as folder:
        for name in SHARED:
            text = (SOURCE / f"{name}.py").read_text(encoding="utf-8")
            for ours, theirs in IMPORTS.items():
                text = text.replace(ours, theirs)
            head = f"# Copied by scripts/share_testing.py from src/pure_agent_loop/testing/{name}.py.\n"
            Path(folder, f"{name}.py").write_text(head + text, encoding="utf-8")
        ruff = [sys.executable, "-m", "ruff"]
        options = ["--quiet", "--config", str(ROOT / "pyproject.toml")]
        sort = ["check", "--no-cache", "--fix", "--select", "I"]
        known = ["--config", 'lint.isort.known-first-party=["llm_client_conformance"]']
        subprocess.run([*ruff, *sort, *options, *known, folder], check=True)
        subprocess.run([*ruff, "format", "--no-cache", *options, folder], check=True)
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(folder).iterdir())}


if __name__ == "__main__":
    for file, written in copies().items():
        (TARGET / file).write_text(written, encoding="utf-8")
