"""Commands in a terminal of the editor, where the person sees them at work and can end them.

What runs there is our own program, which starts the command in the same sandbox, under the same limits.
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
from pure_agent_loop.tool_context import current_call
from pure_agent_loop.toolbox.sandbox.process import Finished
from pure_agent_loop.toolbox.shell.tool import Shell

RESULT = "finished.json"
_CODE_LOST = 1  # where the editor says nothing


class EditorShell(Shell):
    """A shell whose commands run in terminals of the editor. What is only tried, to change nothing, does not.

    Args:
        editor: It lends terminals, and shows them with their calls.
        workspace_root: See `Shell`.
        options: See `Shell`.
    """

    def __init__(self, editor: Editor, workspace_root: Path, **options: Any) -> None:
        super().__init__(workspace_root, **options)
        self._editor = editor
        self._makings = {"workspace_root": str(workspace_root), **options}

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
        with tempfile.TemporaryDirectory(prefix="pal-terminal-") as folder:  # nobody else may enter it
            task = {"shell": self._makings, "command": command, "seconds": seconds, "folder": folder}
            argv = module_argv("pure_agent_loop.acp.in_terminal", json.dumps(task))
            try:
                return await self._there(argv, call.call_id, Path(folder))
            except RpcError as error:
                return Finished(None, "", problem=f"the editor's terminal: {error}")

    async def _there(self, argv: list[str], call_id: str, folder: Path) -> Finished:
        place = {"command": argv[0], "args": argv[1:], "cwd": os.fspath(self._root)}
        made = await self._editor.terminal("create", **place, outputByteLimit=self._max_output)
        terminal = {"terminalId": str(made.get("terminalId"))}
        self._editor.attach(call_id, {"type": "terminal", **terminal})
        try:
            ended = await self._editor.terminal("wait_for_exit", **terminal)
            with suppress(OSError, ValueError, TypeError):
                return Finished(**json.loads((folder / RESULT).read_bytes()))
            return await self._as_seen(terminal, ended)
        except asyncio.CancelledError:
            with suppress(RpcError):
                await self._editor.terminal("kill", **terminal)
            raise
        finally:
            with suppress(RpcError):
                await self._editor.terminal("release", **terminal)

    async def _as_seen(self, terminal: Mapping[str, Any], ended: Mapping[str, Any]) -> Finished:
        """The person has ended it, or it never began: what there is to see says why."""
        seen = await self._editor.terminal("output", **terminal)
        code = ended.get("exitCode")
        return Finished(code if isinstance(code, int) else _CODE_LOST, str(seen.get("output") or ""))
