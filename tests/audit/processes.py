"""Starting other processes that write audit logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def command(code: str, *words: str) -> dict:
    paths = [str(HERE), *(path for path in sys.path if path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return {"args": [sys.executable, "-c", code, *words], "env": env, "text": True}


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(**command(code, *words), capture_output=True, check=False, timeout=60)


def start(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(**command(code, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
