"""Runs one command of a model in a terminal of an editor, in our sandbox; see `shell`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from pure_agent_loop.acp.shell import RESULT
from pure_agent_loop.toolbox.shell.tool import Shell


def main(given: str) -> int:
    """Run it, show its output as it comes, and write down how it ended.

    Args:
        given: JSON with what `Shell` takes, the command, its seconds, and where to write.
    """
    task = json.loads(given)

    def show(data: bytes) -> None:
        os.write(1, data)

    shell = Shell(**task["shell"])
    finished = asyncio.run(shell._run(task["command"], task["seconds"], read_only=False, echo=show))
    Path(task["folder"], RESULT).write_text(json.dumps(asdict(finished)))
    return 1 if finished.exit_code is None else finished.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
