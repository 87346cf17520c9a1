"""Run one sandboxed command in an editor terminal; see `shell`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from pure_agent_loop.acp.shell import RESULT
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.toolbox.shell.tool import Shell


def main(task_json: str) -> int:
    """Run the command, echo its output, and write its result to a file.

    Args:
        task_json: JSON with the `Shell` options, the command, its time limit and the folder for the result.
    """
    task = read_json(task_json)

    def show(data: bytes) -> None:
        os.write(1, data)

    shell = Shell(**task["shell"])
    finished = asyncio.run(shell._run(task["command"], task["seconds"], read_only=False, echo=show))
    Path(task["folder"], RESULT).write_text(json.dumps(asdict(finished)))
    return 1 if finished.exit_code is None else finished.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
