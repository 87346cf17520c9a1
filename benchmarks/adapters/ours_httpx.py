"""The adapter `ours` without aiohttp, even if aiohttp is installed."""

import os

os.environ["PAL_HTTP"] = "httpx"
VENV, IMPORT, PKGS = "ours", "import pure_agent_loop", ["pure-agent-loop"]
from ours import *  # noqa: E402 - the variable comes first
