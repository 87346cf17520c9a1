"""What an import and a construction load, each in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys

HEAVY = "{'openai', 'pydantic', 'pydantic_core', 'httpx', 'httpx2'}"


def printed(code: str, http: str = "") -> str:
    env = {**os.environ, "PAL_HTTP": http}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip()


def test_the_package_and_the_client_module_load_nothing_heavy():
    code = (
        "import sys, pure_agent_loop, pure_agent_loop.llm.openai_client, pure_agent_loop.llm.types\n"
        f"print(sorted({HEAVY} & set(sys.modules)))"
    )
    assert printed(code) == "[]"


def loaded_by(http: str, settings: str = "") -> str:
    """Which libraries a client loads when it is built."""
    code = (
        f"import sys; from pure_agent_loop import OpenAIClient; OpenAIClient('m', 'k'{settings})\n"
        "print(sorted({'aiohttp', 'httpx', 'httpx2', 'openai'} & set(sys.modules)))"
    )
    return printed(code, http)


def test_client_loads_its_transport_at_creation():
    assert loaded_by("httpx") in ("['httpx']", "['httpx2']")
    assert "openai" in loaded_by("httpx", ", organization='o'")


def test_the_first_request_imports_nothing_on_the_event_loop():
    code = """
import asyncio, sys
from pure_agent_loop import OpenAIClient
from pure_agent_loop.testing import ScriptedServer

async def main(client):
    before = set(sys.modules)
    async for _ in client.chat_stream([{"role": "user", "content": "hi"}]):
        pass
    await client.aclose()
    new = {name.split(".")[0] for name in set(sys.modules) - before}
    print(sorted(new & {"openai", "pydantic", "pydantic_core", "jiter"}))

with ScriptedServer(["hello"]) as server:
    asyncio.run(main(OpenAIClient("m", "k", server.base_url)))
"""
    assert printed(code) == "[]"
