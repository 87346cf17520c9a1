"""Run sandboxed commands in an editor terminal, where the user sees them run and can stop them.

The terminal runs `in_terminal`, which starts the command in the same sandbox with the same limits.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pure_agent_loop.acp.host import Editor
from pure_agent_loop.acp.wire import RpcError
from pure_agent_loop.support.child import module_argv
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.tool_context import current_call
from pure_agent_loop.toolbox.sandbox.process import Finished
from pure_agent_loop.toolbox.shell.tool import Shell

RESULT = "finished.json"
_UNKNOWN_CODE = 1  # exit code to report if the editor returns none


class EditorShell(Shell):
    """A shell that runs commands in editor terminals, except read-only trial runs.

    Args:
        editor: The editor, which shows each terminal inside the tool call that opened it.
        workspace_root: See `Shell`.
        options: See `Shell`.
    """

    def __init__(self, editor: Editor, workspace_root: Path, **options: Any) -> None:
        super().__init__(workspace_root, **options)
        self._editor = editor
        self._shell_options = {"workspace_root": str(workspace_root), **options}

    async def _run(
        self,
        command: str,
        seconds: float,
        *,
        read_only: bool,
        echo: Callable[[bytes], object] | None = None,
    ) -> Finished:
        call = current_call()
        if read_only or call is None:
            return await super()._run(command, seconds, read_only=read_only, echo=echo)
        # TemporaryDirectory creates a folder that only this user can read.
        with tempfile.TemporaryDirectory(prefix="pal-terminal-") as folder:
            task = {"shell": self._shell_options, "command": command, "seconds": seconds, "folder": folder}
            argv = module_argv("pure_agent_loop.acp.in_terminal", json.dumps(task))
            try:
                return await self._run_in_terminal(argv, call.call_id, Path(folder))
            except RpcError as error:
                return Finished(None, "", problem=f"the editor's terminal: {error}")

    async def _run_in_terminal(self, argv: list[str], call_id: str, folder: Path) -> Finished:
        command = {"command": argv[0], "args": argv[1:], "cwd": os.fspath(self._root)}
        created = await self._editor.terminal("create", **command, outputByteLimit=self._max_output)
        terminal = {"terminalId": str(created.get("terminalId"))}
        self._editor.attach(call_id, {"type": "terminal", **terminal})
        try:
            exit_status = await self._editor.terminal("wait_for_exit", **terminal)
            with suppress(OSError, ValueError, TypeError):
                return Finished(**read_json((folder / RESULT).read_bytes()))
            return await self._terminal_output(terminal, exit_status)
        except asyncio.CancelledError:
            with suppress(RpcError):
                await self._editor.terminal("kill", **terminal)
            raise
        finally:
            with suppress(RpcError):
                await self._editor.terminal("release", **terminal)

    async def _terminal_output(self, terminal: Mapping[str, Any], exit_status: Mapping[str, Any]) -> Finished:
        """Return the terminal's output for a command without a result file (stopped or never started)."""
        response = await self._editor.terminal("output", **terminal)
        code = exit_status.get("exitCode")
        return Finished(code if isinstance(code, int) else _UNKNOWN_CODE, str(response.get("output") or ""))
