"""An editor session: prompts, options and questions."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from pure_agent_loop.acp import calls
from pure_agent_loop.acp.host import Option, Work
from pure_agent_loop.acp.prompts import read_prompt, split_command
from pure_agent_loop.acp.updates import Updates, chunk, send_history
from pure_agent_loop.acp.wire import INTERNAL, INVALID_REQUEST, Peer, RpcError, invalid, nested, text
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import Behavior, Permission, PermissionRequest
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread

EDITOR_SECONDS = 30.0  # timeout of the editor's file access
_STOP_REASONS = {  # our stop reason, or its kind -> the protocol's stop reason
    "token_limit": "max_tokens",
    "budget": "max_tokens",
    "content_filter": "refusal",
    "limit": "max_turn_requests",
    "cut": "max_tokens",
    "cancelled": "cancelled",
}


def _selector(name: str, option: Option) -> dict[str, Any]:
    values = [
        {"value": value, "name": value, "description": description}
        for value, description in option.values.items()
    ]
    fields = {"id": name, "category": name, "name": user_text(name), "type": "select"}
    return {**fields, "currentValue": option.value, "options": values}


class AcpSession:
    """An editor's session, which also implements `Editor` for the session's `Work`."""

    id: str
    work: Work

    def __init__(self, peer: Peer, client: Mapping[str, Any]) -> None:
        def has(*names: str) -> bool:
            return nested(client, *names) not in (None, False)

        self._peer = peer
        self.reads, self.writes = has("fs", "readTextFile"), has("fs", "writeTextFile")
        self.runs = has("terminal")
        self._has_notices, self._has_forms = has("session", "notices"), has("elicitation", "form")
        self._updates: Updates | None = None
        self._is_stopped = False
        self._cancels = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop = asyncio.get_running_loop()
        self._question_lock = asyncio.Lock()

    @property
    def choices(self) -> dict[str, Any]:
        """The options with their values.

        The permission modes are also returned separately, for editors that do not support config options.
        """
        mode = self.work.options["mode"]
        modes = [
            {"id": value, "name": value, "description": description}
            for value, description in mode.values.items()
        ]
        options = [_selector(name, option) for name, option in self.work.options.items()]
        return {"modes": {"currentModeId": mode.value, "availableModes": modes}, "configOptions": options}

    async def choose(self, name: str, value: str) -> None:
        """Set an option; the new value applies from the next task or question.

        Raises:
            RpcError: The option or the value is unknown.
        """
        options = self.work.options
        if name not in options:
            raise invalid(f"configId must be one of: {', '.join(options)}.")
        if value not in options[name].values:
            raise invalid(f"{name} must be one of: {', '.join(options[name].values)}.")
        await self.wait_stopped()
        await self.work.choose(name, value)

    # -- the editor's files and terminals ---------------------------------------------------------------

    async def terminal(self, method: str, **params: Any) -> Mapping[str, Any]:
        """See `Editor`."""
        return await self._peer.ask(f"terminal/{method}", {"sessionId": self.id, **params})

    def read(self, path: str) -> str:
        """See `Editor`."""
        return text(self._ask("fs/read_text_file", {"path": path}), "content")

    def write(self, path: str, text: str) -> None:
        """See `Editor`."""
        self._ask("fs/write_text_file", {"path": path, "content": text})

    def _ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        request = self._peer.ask(method, {"sessionId": self.id, **params})
        future = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return future.result(EDITOR_SECONDS)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise RpcError(INTERNAL, user_text("cli.acp_silent", seconds=EDITOR_SECONDS)) from None
        except concurrent.futures.CancelledError:
            raise RpcError(INTERNAL, user_text("cli.acp_gone")) from None

    # -- updates ----------------------------------------------------------------------------------------

    async def send(self, update: Mapping[str, Any]) -> None:
        """Send an update."""
        await self._peer.notify("session/update", {"sessionId": self.id, "update": update})

    async def note(self, text: str) -> None:
        """See `Editor`."""
        if self._has_notices:
            await self.send({"sessionUpdate": "notice", "severity": "info", "title": text or "-"})
        else:
            await self.send(chunk("agent_thought_chunk", f"{text}\n\n", f"note-{secrets.token_hex(4)}"))

    async def send_commands(self) -> None:
        """Send the available slash commands."""
        commands = [
            {"name": name, "description": description or name, "input": {"hint": "..."}}
            for name, description in self.work.commands()
        ]
        await self.send({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    async def send_history(self) -> None:
        """Send the session's history."""
        await send_history(self.work.history(), self.work, self.send)

    # -- prompts ----------------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Mapping[str, Any]]) -> str:
        """Run a prompt and return the protocol's stop reason.

        Raises:
            RpcError: The prompt is invalid, another prompt is running, or the run failed.
        """
        cancels = self._cancels
        while self._updates is not None:
            if not self._is_stopped:
                raise RpcError(INVALID_REQUEST, user_text("cli.acp_busy"))
            await self.wait_stopped()
        if cancels != self._cancels:  # the prompt was cancelled while it was waiting
            return "cancelled"
        task, media = read_prompt(blocks, self.work.folder)
        self._is_stopped = False
        self._updates = updates = Updates(self.work, self.send, self.note)
        self._idle.clear()
        choices = self.choices
        try:
            name, arguments = split_command(blocks)
            run_task: str | None = task
            await self.work.begin()
            is_command = name and name in {command for command, _ in self.work.commands()}
            if is_command and not self._is_stopped:
                output, run_task, runs = await self.work.command(name, arguments)
                if output:
                    await self.send(chunk("agent_message_chunk", output, f"command-{secrets.token_hex(4)}"))
                if not runs:
                    return "end_turn"
            if not self._is_stopped:
                await self._run(run_task, media if run_task else [], updates)
        finally:
            try:
                await updates.finish()
                await self._send_changed_choices(choices)
            finally:
                self._updates = None
                self._idle.set()
        reason = updates.stop_reason
        if self._is_stopped or not reason:
            return "cancelled"
        kind = STOP_REASONS[reason].kind  # type: ignore[index]  # a plain str in events
        if kind == "failed":
            raise RpcError(INTERNAL, updates.failure or STOP_REASONS[reason].meaning)  # type: ignore[index]  # a plain str in events
        return _STOP_REASONS.get(reason) or _STOP_REASONS.get(kind, "end_turn")

    async def _send_changed_choices(self, before: Mapping[str, Any]) -> None:
        """Send the options if a slash command changed them."""
        now = self.choices
        if now != before:
            mode, options = now["modes"]["currentModeId"], now["configOptions"]
            await self.send({"sessionUpdate": "current_mode_update", "currentModeId": mode})
            await self.send({"sessionUpdate": "config_option_update", "configOptions": options})

    async def _run(self, task: str | None, media: Sequence[Mapping[str, Any]], updates: Updates) -> None:
        async with aclosing(self.work.run(task, list(media))) as events:
            async for event in events:
                await updates.handle(event)

    async def wait_stopped(self) -> None:
        """Wait until a cancelled prompt has ended."""
        if self._is_stopped:
            await self._idle.wait()

    def cancel(self) -> None:
        """Stop the prompt soon and keep the history."""
        if self._updates is not None:
            self._is_stopped = True
            self._cancels += 1
            self.work.stop()

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """See `Editor`."""
        self._loop.call_soon_threadsafe(self._attach, call_id, content)

    def _attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        if self._updates is not None:
            self._updates.attach(call_id, content)

    # -- questions --------------------------------------------------------------------------------------

    async def ask(self, request: PermissionRequest) -> Permission:
        """Ask the user about a call, unless a rule added in the meantime decides it."""
        async with self._question_lock:
            is_question = request.question is not None
            permission = self.work.suggest(request)
            if permission.behavior != "ask":
                return permission
            if self._updates is not None:
                await self._updates.announce(request.call_id, request.tool, request.args)
            if is_question and self._has_forms:
                return await self._ask_text(request)
            asked = await in_thread(partial(self.work.asked, request))
            rules = [] if is_question else asked.rules
            known = {"allow_known": "allow_always"} if request.recipients else {}
            options = {"allow_once": "allow_once", **known, "reject_once": "reject_once"}
            if rules:
                options |= {"allow_session": "allow_always", "allow_folder": "allow_always"}
                options |= {"reject_session": "reject_always"}
            summary = calls.summarize(request.tool, request.args, self.work.folder, request.title)
            diff = [] if asked.planned is None else [calls.as_diff(asked.planned, self.work.folder)]
            # The diff comes first, because some editors show only the first item.
            content = [*diff, calls.as_output(asked.text)]
            choice = await self._choose(
                request.call_id, {**summary, "content": content}, options, rules or request.recipients
            )
            return await self._apply_choice(choice, rules)

    async def _ask_text(self, request: PermissionRequest) -> Permission:
        """Ask the user for text input."""
        field = {"type": "string", "title": user_text("answer"), "minLength": 1}
        form = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        target = {"sessionId": self.id, "toolCallId": request.call_id, "message": request.reason}
        params = {**target, "mode": "form", "requestedSchema": form}
        response = await self._peer.ask("elicitation/create", params)
        answer = nested(response, "content", "answer") if response.get("action") == "accept" else None
        if response.get("action") == "cancel":
            self.cancel()
        return Permission("allow", answer) if isinstance(answer, str) and answer else Permission("deny")

    async def confirm(self, text: str) -> bool:
        """See `Editor`."""
        async with self._question_lock:
            call_id = f"question-{secrets.token_hex(4)}"
            call = {"title": user_text("trust"), "kind": "other", "content": [calls.as_output(text)]}
            await self.send(
                {"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "pending", **call}
            )
            choice = await self._choose(call_id, call, {"yes": "allow_once", "no": "reject_once"}, [])
            status = "completed" if choice == "yes" else "failed"
            await self.send({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status})
            return choice == "yes"

    async def _choose(
        self, call_id: str, summary: Mapping[str, Any], options: Mapping[str, str], rules: Sequence[str]
    ) -> str:
        """Ask the user to choose an option.

        If the user makes no choice, cancel the prompt and return ``""``.
        """
        labelled = [
            {"optionId": option, "name": user_text(option, rules=", ".join(rules)), "kind": kind}
            for option, kind in options.items()
        ]
        call = {"toolCallId": call_id, "status": "pending", **summary}
        params = {"sessionId": self.id, "toolCall": call, "options": labelled}
        response = await self._peer.ask("session/request_permission", params)
        outcome = response.get("outcome")
        outcome = outcome if isinstance(outcome, dict) else {}
        choice = outcome.get("optionId") if outcome.get("outcome") == "selected" else ""
        if isinstance(choice, str) and choice in options:
            return choice
        self.cancel()
        return ""

    async def _apply_choice(self, choice: str, rules: list[str]) -> Permission:
        if choice == "allow_folder":
            try:
                await in_thread(partial(self.work.keep_rules, rules))
            except ConfigError as error:  # the rules were not saved, but apply to this session
                await self.note(safe_str(error))
        if choice in ("allow_session", "allow_folder"):
            self.work.add_rules("allow", rules)
        if choice == "reject_session":
            self.work.add_rules("deny", rules)
        verdict: Behavior = "allow" if choice.startswith("allow") else "deny"
        return Permission(verdict, similar=choice == "allow_known")
