"""One session of an editor: prompts, questions, and how they end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from pure_agent_loop.acp import calls
from pure_agent_loop.acp.content import first_word, read_prompt
from pure_agent_loop.acp.host import Option, Work
from pure_agent_loop.acp.params import below, text, wrong
from pure_agent_loop.acp.updates import Updates, chunk, tell_history
from pure_agent_loop.acp.wire import INTERNAL, INVALID_REQUEST, Peer, RpcError
from pure_agent_loop.acp.words import say
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.stop_reasons import STOP_REASONS
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread

EDITOR_SECONDS = 30.0  # for the editor to read or write a file
_ENDS = {"limit": "max_turn_requests", "cut": "max_tokens", "cancelled": "cancelled"}  # of kinds of reasons
_ENDS |= {"token_limit": "max_tokens", "budget": "max_tokens", "content_filter": "refusal"}  # of reasons


def _selector(name: str, option: Option) -> dict[str, Any]:
    values = [{"value": each, "name": each, "description": what} for each, what in option.values.items()]
    about = {"id": name, "category": name, "name": say(name), "type": "select"}
    return {**about, "currentValue": option.value, "options": values}


class Session:
    """A session; for its work it is the `Editor`.

    Args:
        peer: The connection.
        client: What the editor can do.
    """

    id: str
    work: Work

    def __init__(self, peer: Peer, client: Mapping[str, Any]) -> None:
        def offers(*names: str) -> bool:
            return below(client, *names) not in (None, False)

        self._peer = peer
        self.reads, self.writes = offers("fs", "readTextFile"), offers("fs", "writeTextFile")
        self.runs = offers("terminal")
        self._has_notices, self._has_forms = offers("session", "notices"), offers("elicitation", "form")
        self._updates: Updates | None = None
        self._is_stopped = False
        self._loop = asyncio.get_running_loop()
        self._one_at_a_time = asyncio.Lock()

    @property
    def choices(self) -> dict[str, Any]:
        """What can be chosen, and what holds: the modes once more for editors that know only these."""
        mode = self.work.options["mode"]
        modes = [{"id": each, "name": each, "description": what} for each, what in mode.values.items()]
        options = [_selector(name, option) for name, option in self.work.options.items()]
        return {"modes": {"currentModeId": mode.value, "availableModes": modes}, "configOptions": options}

    async def choose(self, name: str, value: str) -> None:
        """Let another value of an option hold, from the next task and the next question on.

        Raises:
            RpcError: There is no such option, or no such value.
        """
        options = self.work.options
        if name not in options:
            raise wrong(f"configId must be one of: {', '.join(options)}.")
        if value not in options[name].values:
            raise wrong(f"{name} must be one of: {', '.join(options[name].values)}.")
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
        asked = self._peer.ask(method, {"sessionId": self.id, **params})
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result(EDITOR_SECONDS)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise RpcError(INTERNAL, f"no answer in {EDITOR_SECONDS:g} s") from None
        except concurrent.futures.CancelledError:
            raise RpcError(INTERNAL, "the editor is gone") from None

    # -- what is told -----------------------------------------------------------------------------------

    async def tell(self, update: Mapping[str, Any]) -> None:
        """Send an update."""
        await self._peer.tell("session/update", {"sessionId": self.id, "update": update})

    async def note(self, text: str) -> None:
        """See `Editor`."""
        if self._has_notices:
            await self.tell({"sessionUpdate": "notice", "severity": "info", "title": text or "-"})
        else:
            await self.tell(chunk("agent_thought_chunk", f"{text}\n\n", f"note-{secrets.token_hex(4)}"))

    async def tell_commands(self) -> None:
        """Say what can be typed behind a slash."""
        found = [
            {"name": name, "description": about or name, "input": {"hint": "..."}}
            for name, about in self.work.commands()
        ]
        await self.tell({"sessionUpdate": "available_commands_update", "availableCommands": found})

    async def tell_history(self) -> None:
        """Say what was said and done in it before."""
        await tell_history(self.work.history(), self.work, self.tell)

    # -- prompts ----------------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Mapping[str, Any]]) -> str:
        """Do what a person has written, and return why it ended.

        Raises:
            RpcError: It cannot be read, something else goes on, or it failed.
        """
        if self._updates is not None:
            raise RpcError(INVALID_REQUEST, "This session works on a prompt already; cancel it first.")
        task, media = read_prompt(blocks, self.work.folder)
        self._is_stopped = False
        self._updates = updates = Updates(self.work, self.tell, self.note)
        choices = self.choices
        try:
            name, words = first_word(blocks)
            goes_on: str | None = task
            await self.work.begin()
            is_command = name and name in {each for each, _ in self.work.commands()}
            if is_command and not self._is_stopped:
                said, goes_on, is_task = await self.work.command(name, words)
                if said:
                    await self.tell(chunk("agent_message_chunk", said, f"command-{secrets.token_hex(4)}"))
                if not is_task:
                    return "end_turn"
            if not self._is_stopped:
                await self._run(goes_on, media if goes_on else [], updates)
        finally:
            await updates.finish()
            self._updates = None
            await self._tell_choices(choices)
        reason = updates.stop_reason
        if self._is_stopped or not reason:
            return "cancelled"
        kind = STOP_REASONS[reason].kind  # type: ignore[index]  # it comes as plain text
        if kind == "failed":
            raise RpcError(INTERNAL, updates.failure or STOP_REASONS[reason].meaning)  # type: ignore[index]  # the same
        return _ENDS.get(reason) or _ENDS.get(kind, "end_turn")

    async def _tell_choices(self, before: Mapping[str, Any]) -> None:
        """What a command behind a slash has changed."""
        now = self.choices
        if now != before:
            mode, options = now["modes"]["currentModeId"], now["configOptions"]
            await self.tell({"sessionUpdate": "current_mode_update", "currentModeId": mode})
            await self.tell({"sessionUpdate": "config_option_update", "configOptions": options})

    async def _run(self, task: str | None, media: Sequence[Mapping[str, Any]], updates: Updates) -> None:
        async with aclosing(self.work.run(task, list(media))) as events:
            async for event in events:
                await updates.take(event)

    def cancel(self) -> None:
        """End the prompt soon; what was said stays in the session."""
        if self._updates is not None:
            self._is_stopped = True
            self.work.stop()

    def attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        """Show something with a call; from any thread."""
        self._loop.call_soon_threadsafe(self._attach, call_id, content)

    def _attach(self, call_id: str, content: Mapping[str, Any]) -> None:
        if self._updates is not None:
            self._updates.attach(call_id, content)

    # -- questions --------------------------------------------------------------------------------------

    async def ask(self, request: PermissionRequest) -> Permission:
        """Have the person decide about a call, unless a rule that was agreed to meanwhile does."""
        async with self._one_at_a_time:
            is_question = request.args == {"question": request.reason}  # a tool's own
            now = self.work.suggest(request)
            is_plain = now.updated_args is None and not now.read_only
            if now.behavior == "deny" or (now.behavior == "allow" and is_plain):
                return now
            if self._updates is not None:
                await self._updates.announce(request.call_id, request.tool, request.args)
            if is_question and self._has_forms:
                return await self._told(request)
            asked = await in_thread(partial(self.work.asked, request))
            rules = [] if is_question else asked.rules
            options = {"allow_once": "allow_once", "reject_once": "reject_once"}
            if rules:
                options |= {"allow_session": "allow_always", "allow_folder": "allow_always"}
                options |= {"reject_session": "reject_always"}
            shown = calls.about(request.tool, request.args, self.work.folder)
            diff = [] if asked.planned is None else [calls.as_diff(asked.planned, self.work.folder)]
            content = [
                *diff,
                calls.as_output(asked.text),
            ]  # some look for a diff in the first place only
            chosen = await self._choose(request.call_id, {**shown, "content": content}, options, rules)
            return await self._agreed(chosen, rules)

    async def _told(self, request: PermissionRequest) -> Permission:
        """What the person writes."""
        field = {"type": "string", "title": say("answer"), "minLength": 1}
        form = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        about = {"sessionId": self.id, "toolCallId": request.call_id, "message": request.reason}
        params = {**about, "mode": "form", "requestedSchema": form}
        found = await self._peer.ask("elicitation/create", params)
        said = below(found, "content", "answer") if found.get("action") == "accept" else None
        if found.get("action") == "cancel":
            self.cancel()
        return Permission("allow", said) if isinstance(said, str) and said else Permission("deny")

    async def confirm(self, text: str) -> bool:
        """Ask something of our own; only a yes is one."""
        async with self._one_at_a_time:
            call_id = f"question-{secrets.token_hex(4)}"
            shown = {"title": say("trust"), "kind": "other", "content": [calls.as_output(text)]}
            await self.tell(
                {"sessionUpdate": "tool_call", "toolCallId": call_id, "status": "pending", **shown}
            )
            chosen = await self._choose(call_id, shown, {"yes": "allow_once", "no": "reject_once"}, [])
            status = "completed" if chosen == "yes" else "failed"
            await self.tell({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status})
            return chosen == "yes"

    async def _choose(
        self, call_id: str, shown: Mapping[str, Any], options: Mapping[str, str], rules: Sequence[str]
    ) -> str:
        """Which of the options the person has chosen; empty for none, with which the prompt is over."""
        given = [
            {"optionId": each, "name": say(each, rules=", ".join(rules)), "kind": kind}
            for each, kind in options.items()
        ]
        call = {"toolCallId": call_id, "status": "pending", **shown}
        params = {"sessionId": self.id, "toolCall": call, "options": given}
        found = await self._peer.ask("session/request_permission", params)
        outcome = found.get("outcome")
        outcome = outcome if isinstance(outcome, dict) else {}
        chosen = outcome.get("optionId") if outcome.get("outcome") == "selected" else ""
        if isinstance(chosen, str) and chosen in options:
            return chosen
        self.cancel()
        return ""

    async def _agreed(self, chosen: str, rules: list[str]) -> Permission:
        if chosen == "allow_folder":
            try:
                await in_thread(partial(self.work.keep_rules, rules))
            except ConfigError as error:  # it holds for the session all the same
                await self.note(safe_str(error))
        if chosen in ("allow_session", "allow_folder"):
            self.work.add_rules("allow", rules)
        if chosen == "reject_session":
            self.work.add_rules("deny", rules)
        return Permission("allow" if chosen.startswith("allow") else "deny")
