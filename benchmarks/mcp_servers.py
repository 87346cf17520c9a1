"""Real MCP servers through ``pal run``: a scripted model makes calls, and what came back is shown.

    python -m benchmarks.mcp_servers FOLDER

The folder has the servers: ``npm install @modelcontextprotocol/server-everything
@modelcontextprotocol/server-filesystem`` and a virtual environment ``python`` with ``mcp-server-time``,
``mcp-server-git`` and ``mcp-server-fetch``. The last one fetches a page of this machine.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from pure_agent_loop.testing import ScriptedServer, call

Case = tuple[str, list[str], str, dict[str, Any], str]  # server, command, tool, arguments, what comes back


def cases(servers: Path, work: Path, page: str) -> list[Case]:
    """A call to a server."""
    node, python = servers / "node_modules" / ".bin", servers / "python" / "bin"
    every, files = [["node", f"{node}/mcp-server-{name}"] for name in ("everything", "filesystem")]
    files.append(str(work))
    clock, git = [f"{python}/mcp-server-time"], [f"{python}/mcp-server-git", "--repository", f"{work}"]
    fetch = [f"{python}/mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"]
    note = {"path": f"{work}/note.txt"}
    berlin = {"source_timezone": "Europe/Berlin", "time": "14:30", "target_timezone": "Asia/Tokyo"}
    return [
        ("time", clock, "get_current_time", {"timezone": "Asia/Tokyo"}, "+09:00"),
        ("time", clock, "convert_time", berlin, "T"),
        ("time", clock, "get_current_time", {"timezone": "No/Where"}, "No/Where"),
        ("git", git, "git_status", {"repo_path": f"{work}"}, "note.txt"),
        ("git", git, "git_log", {"repo_path": f"{work}"}, "first note"),
        ("files", files, "list_directory", {"path": f"{work}"}, "[FILE] note.txt"),
        ("files", files, "read_text_file", note, "heron"),
        ("files", files, "write_file", {"path": f"{work}/new.txt", "content": "new"}, "Successfully wrote"),
        ("files", files, "read_text_file", {"path": "/etc/hostname"}, "Access denied"),
        ("every", every, "echo", {"message": "good morning"}, "good morning"),
        ("every", every, "get-sum", {"a": 17, "b": 25}, "42"),
        ("every", every, "get-tiny-image", {}, "image/png"),
        ("every", every, "get-structured-content", {"location": "New York"}, "temperature"),
        ("every", every, "trigger-long-running-operation", {"duration": 1, "steps": 2}, "completed"),
        ("every", every, "get-resource-links", {"count": 2}, "resource"),
        ("fetch", fetch, "fetch", {"url": page}, "plums"),
    ]


def tried(case: Case, work: Path) -> str:
    """Return what the model read if it differs from the expected result."""
    name, command, tool, args, wanted = case
    config = Path(tempfile.mkdtemp()) / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {name: {"command": command[0], "args": command[1:]}}}))
    words = ["run", "-p", "--no-session", "--permission-mode", "bypass", "--mcp-config", str(config), "go"]
    with ScriptedServer([call(f"mcp__{name}__{tool}", **args), "done"], strict=False) as server:
        env = {**os.environ, "PAL_BASE_URL": server.base_url, "PAL_MODEL": "scripted"}
        env["PAL_HOME"] = str(config.parent)
        done = subprocess.run(
            [sys.executable, "-m", "pure_agent_loop", *words],
            env=env,
            cwd=work,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        read = [each["content"] for each in server.requests[-1].body["messages"] if each["role"] == "tool"]
    said = str(read[0] if read else done.stderr)
    return "" if done.returncode == 0 and wanted in said else said[:300]


def main() -> None:
    """Try all servers and print the results."""
    work = Path(tempfile.mkdtemp())
    (work / "note.txt").write_text("The code word is heron.")
    (work / "page.html").write_text("<html><body><p>The price of plums is 7 euros.</p></body></html>")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(work)]
    for words in (["init", "-q"], ["add", "page.html"], ["commit", "-qm", "first note"]):
        subprocess.run([*git, *words], check=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(work))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        page = f"http://127.0.0.1:{pages.server_address[1]}/page.html"
        for case in cases(Path(sys.argv[1]), work, page):
            problem = tried(case, work)
            print(f"{case[0]:6} {case[2]:32} {problem or 'ok'}", flush=True)
        pages.shutdown()


if __name__ == "__main__":
    main()
