"""An editor for tests: it speaks lines of JSON with the real command, each held against the schema."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from acp import schema

PATIENCE = 60
ANSWERS = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
ASKED = {
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/kill": schema.KillTerminalRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
}


class Editor:
    """One editor with one agent.

    Args:
        process: The command, with pipes.
        choose: Answers a question: from its params to the id of an option, or "" for cancelled.
        files: Unsaved texts by path; None for an editor that lends no files.
        forms: Fills in forms; None for an editor that has none.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        choose: Callable[[dict], str] = lambda _: "allow_once",
        files: dict[str, str] | None = None,
        forms: Callable[[dict], dict] | None = None,
    ) -> None:
        self.forms = forms
        self.process, self.choose, self.files = process, choose, files
        self.replies: dict[str, Callable[[dict], dict | None]] = {}  # in place of those below
        self.updates: list[dict[str, Any]] = []
        self.questions: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []  # without an id
        self._answers: dict[int, queue.SimpleQueue] = {}
        self._arrived, self._writing = threading.Condition(), threading.Lock()
        self._number = self.asked = 0
        self.terminals: list[subprocess.Popen[bytes]] = []
        self.released: list[str] = []
        self.env: dict[str, str] | None = None
        self._strange: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def begin(self) -> dict:
        offered = self.files is not None
        fs = {"readTextFile": offered, "writeTextFile": offered}
        offers = {"fs": fs, "terminal": offered, "elicitation": {"form": {}} if self.forms else None}
        return self("initialize", protocolVersion=1, clientCapabilities=offers)

    def open(self, folder, **more) -> str:
        return self("session/new", cwd=str(folder), mcpServers=[], **more)["sessionId"]

    def prompt(self, session: str, *blocks) -> str:
        given = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
        return self("session/prompt", sessionId=session, prompt=given)["stopReason"]

    def __call__(self, method: str, **params) -> dict:
        message = self.error(method, params)
        assert "error" not in message, message
        if method in ANSWERS:
            ANSWERS[method].model_validate(message["result"])
        return message["result"]

    def error(self, method: str, params: Any) -> dict:
        """The whole answer."""
        return self.answer(self.send(method, params))

    def send(self, method: str, params: Any) -> int:
        number = self.number()
        self.line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def number(self) -> int:
        """Of the next request."""
        self._number += 1
        self._answers[self._number] = queue.SimpleQueue()
        return self._number

    def answer(self, number: int) -> dict:
        return self._answers[number].get(timeout=PATIENCE)

    def tell(self, method: str, **params) -> None:
        self.line({"jsonrpc": "2.0", "method": method, "params": params})

    def line(self, message: Any) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        with self._writing:
            self.process.stdin.write(data + b"\n")
            self.process.stdin.flush()

    def until(self, found: Callable[[], Any]) -> Any:
        """Wait until something has come."""
        with self._arrived:
            assert self._arrived.wait_for(found, PATIENCE), self.updates
            return found()

    def of(self, kind: str) -> list[dict]:
        return [each for each in self.updates if each["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        return "".join(each["content"]["text"] for each in self.of("agent_message_chunk"))

    def call(self, title: str) -> dict:
        """All that was told of the last call with a title."""
        call = [each for each in self.of("tool_call") if title in each["title"]][-1]
        later = [each for each in self.of("tool_call_update") if each["toolCallId"] == call["toolCallId"]]
        merged: dict = {}
        for each in (call, *later):
            merged |= each
        return merged

    def check(self) -> None:
        assert self._strange == []

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._arrived:
                try:
                    self._take(json.loads(line))
                except Exception as error:  # whatever it is, the test is to see it
                    self._strange.append(f"{error!r}: {line[:300]!r}")
                self._arrived.notify_all()

    def _take(self, message: dict) -> None:
        assert message["jsonrpc"] == "2.0"
        method, params = message.get("method"), message.get("params")
        if method == "session/update":
            schema.SessionNotification.model_validate(params)
            self.updates.append(params["update"])
        elif method is not None:
            ASKED[method].model_validate(params)
            self.asked = message["id"]
            reply = self.replies.get(method) or getattr(self, method.replace("/", "_"))
            result = reply(params)
            if result is not None:
                self.line({"jsonrpc": "2.0", "id": message["id"], **result})
        elif message["id"] is None:
            self.errors.append(message["error"])
        else:
            self._answers[message["id"]].put(message)

    def session_request_permission(self, params: dict) -> dict | None:
        self.questions.append(params)
        chosen = self.choose(params)
        if chosen is None:
            return None
        selected = {"outcome": "selected", "optionId": chosen}
        return {"result": {"outcome": selected if chosen else {"outcome": "cancelled"}}}

    def elicitation_create(self, params: dict) -> dict:
        return {"result": self.forms(params)}

    def fs_read_text_file(self, params: dict) -> dict:
        assert self.files is not None
        if params["path"] in self.files:
            return {"result": {"content": self.files[params["path"]]}}
        return {"error": {"code": -32002, "message": "not open here"}}

    def fs_write_text_file(self, params: dict) -> dict:
        assert self.files is not None
        self.files[params["path"]] = params["content"]
        with open(params["path"], "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - as editors do
            file.write(params["content"])
        return {"result": {}}

    def terminal_create(self, params: dict) -> dict:
        argv = [params["command"], *params["args"]]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.terminals.append(subprocess.Popen(argv, cwd=params["cwd"], env=self.env, **pipes))
        return {"result": {"terminalId": f"t{len(self.terminals)}"}}

    def terminal_wait_for_exit(self, params: dict) -> None:
        """Another thread waits, and reads meanwhile."""
        terminal, number = self._terminal(params), self.asked

        def wait() -> None:
            terminal.seen = terminal.communicate()[0].decode()
            code = terminal.returncode
            ended = {"exitCode": code} if code >= 0 else {"signal": str(-code)}
            with suppress(OSError, ValueError):  # the editor has closed meanwhile
                self.line({"jsonrpc": "2.0", "id": number, "result": ended})

        threading.Thread(target=wait, daemon=True).start()

    def terminal_output(self, params: dict) -> dict:
        return {"result": {"output": self._terminal(params).seen, "truncated": False}}

    def terminal_kill(self, params: dict) -> dict:
        self._terminal(params).kill()
        return {"result": {}}

    def terminal_release(self, params: dict) -> dict:
        self.released.append(params["terminalId"])
        return {"result": {}}

    def _terminal(self, params: dict):
        return self.terminals[int(params["terminalId"][1:]) - 1]

    def close(self) -> int:
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.process.stdout.close()
        return code
