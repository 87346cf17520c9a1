"""MCP server of the leaderboard's simulated classes; run by `benchmarks.tool_server`.

    main ENTRY JOURNAL TURN

ENTRY is a question with its tools, as JSON. The journal has a line for each call that was made. It is the
state: a new server makes the calls of the journal again on new instances, which are deterministic.
"""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path
from typing import Any

LOG_TOOL = "list_calls"


class Instances:
    """Instances of a question's classes.

    Args:
        entry: The question.
    """

    def __init__(self, entry: dict[str, Any]) -> None:
        config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        self.by_class: dict[str, Any] = {}
        for name in entry["involved_classes"]:
            made = getattr(importlib.import_module(config.CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in config.STATELESS_CLASSES:
                scenario = copy.deepcopy(entry["initial_config"].get(name, {}))
                made._load_scenario(scenario, long_context="long_context" in entry["id"])
            self.by_class[name] = made

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a method; return its result as the leaderboard shows it to models."""
        owners = [made for made in self.by_class.values() if not name.startswith("_") and hasattr(made, name)]
        try:
            result = getattr(owners[-1], name)(**copy.deepcopy(arguments))
            return json.dumps(result, default=str) if isinstance(result, dict) else str(result)
        except Exception as error:  # noqa: BLE001 - the leaderboard's text for any failure
            return f"Error during execution: {error}"


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the calls that were made: ``{"turn", "name", "arguments"}``."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Serve until standard input ends."""
    entry, journal, turn = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), int(sys.argv[3])
    instances = Instances(entry)
    for made in read_journal(journal):
        instances.call(made["name"], made["arguments"])
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = answer(request["method"], request.get("params") or {}, entry, instances, journal, turn)
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **result}) + "\n")
            sys.stdout.flush()


def answer(
    method: str, params: dict[str, Any], entry: dict[str, Any], instances: Instances, journal: Path, turn: int
) -> dict[str, Any]:
    """Return the result of a request, or an error."""
    if method == "initialize":
        info = {"name": "leaderboard", "version": "1"}
        version = params["protocolVersion"]
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": entry["tools"]}}
    if method == "tools/call":
        text = called(params["name"], params.get("arguments") or {}, instances, journal, turn)
        return {"result": {"content": [{"type": "text", "text": text}], "isError": False}}
    return {"result": {}} if method == "ping" else {"error": {"code": -32601, "message": method}}


def called(name: str, arguments: dict[str, Any], instances: Instances, journal: Path, turn: int) -> str:
    """Make a call and write it to the journal; return the result."""
    if name == LOG_TOOL:
        return "\n".join(f"called {made['name']}" for made in read_journal(journal))
    text = instances.call(name, arguments)
    with journal.open("a") as file:
        file.write(json.dumps({"turn": turn, "name": name, "arguments": arguments}) + "\n")
    return text
