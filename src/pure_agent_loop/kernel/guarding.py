"""``guard`` mode in a run: the values known so far, and the decision about a call; see `guard`."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import TYPE_CHECKING, Any

from pure_agent_loop.guard import GuardedCall, Knowledge, Origins, ReadText
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.origins import Entry, compact, entries_of, files_pattern, with_meta
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.step import Step, ToolCallRun
from pure_agent_loop.llm.messages import is_question
from pure_agent_loop.permissions import Permission
from pure_agent_loop.prompts.frames import for_people
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import shorten
from pure_agent_loop.tool import Tool

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import CalledFunction, HistoryMessage

MAX_SOURCE = 80  # maximum characters of a source name, and of a value in a reason


def delegate(state: QueryState, above: QueryState) -> None:
    """Record in a subagent's first state that a model wrote its task, and what its parent has read."""
    messages = [
        with_meta(message, model=True) if is_question(message) else message for message in state.messages
    ]
    entries = [compact(entry) for entry in entries_of(above.messages) if "user" in entry or "tool" in entry]
    messages[0] = with_meta(messages[0], before=entries)
    state.messages, state.permissions.is_guarded = messages, True
    state.permissions.known = list(dict.fromkeys([*state.permissions.known, *above.permissions.known]))


class GuardMemory:
    """Known values of a run; they are rebuilt whenever its history has not merely been extended."""

    def __init__(self) -> None:
        self._lead: list[str] = []
        self._seen: list[HistoryMessage] = []
        self._calls: dict[str, CalledFunction] = {}
        self._knowledge = Knowledge()

    def origins(self, state: QueryState, kit: Kit, call: GuardedCall) -> Origins:
        """Return where the values of a call come from."""
        lead = [files_pattern().sub("", state.system_prompt), *state.permissions.known]
        messages, known = state.messages, len(self._seen)
        if lead != self._lead or known > len(messages) or not all(map(is_, self._seen, messages)):
            self._lead, known = lead, 0
            self._knowledge, self._calls = Knowledge(), {}
            for text in lead:
                self._knowledge.trust(text)
            files = [match[0] for match in files_pattern().finditer(state.system_prompt)]
            # What a server tool reads does not appear in any message.
            for text in [*files, *map(str, kit.options.get("server_tools", ()))]:
                self._knowledge.read(ReadText(text, model_text("guard_attached")))
            for tool in kit.tools:
                if is_foreign(tool.name, kit):
                    self._knowledge.read(ReadText(tool.description, tool.name))
        for entry in entries_of(messages[known:], self._calls):
            self._add(entry, kit)
        self._seen = list(messages)
        return self._knowledge.origins(call)

    def _add(self, entry: Entry, kit: Kit) -> None:
        if "user" in entry:
            self._knowledge.trust(entry["user"])
            return
        name, args, text = entry.get("tool", ""), entry.get("args", {}), entry["text"]
        tool = kit.tools.get(name)
        source = entry.get("source") or shorten(f"{name}({', '.join(map(str, args.values()))})", MAX_SOURCE)
        call = guarded_call(name, args, kit) if name else None
        text = for_people(text) if is_foreign(name, kit) else text  # remove the frame around its results
        is_trusted = tool is not None and tool.trusted
        self._knowledge.read(ReadText(text, source, call, is_trusted, entry.get("fields")))


def guarded_call(name: str, args: Mapping[str, Any], kit: Kit) -> GuardedCall:
    """Return a call in the form that the guard's rule checks."""
    tool = kit.tools.get(name)
    if tool is None:
        return GuardedCall(name, args)
    parameters = _names_in(tool.parameters) if is_foreign(name, kit) else tool.parameters
    return GuardedCall(name, args, parameters, tool.prose, tool.recipient)


def _names_in(schema: Any) -> Any:
    """Return a schema without its values: in a foreign schema, a default could be a stranger's value."""
    if isinstance(schema, Mapping):
        values = ("const", "default", "enum")
        return {key: _names_in(inner) for key, inner in schema.items() if key not in values}
    return [*map(_names_in, schema)] if isinstance(schema, list) else schema


def is_foreign(name: str, kit: Kit) -> bool:
    """Return True for a tool that a toolset lists, such as one of an MCP server."""
    given = getattr(kit.tools, "given", kit.tools)
    return name in kit.tools and name not in given


def guard_reason(origins: Origins) -> str:
    """Return the reason for a decision about a call: its strange values, or the origins of all values."""
    if origins.reason == "strange":
        told = [
            model_text(
                f"guard_{origin.kind}",
                argument=origin.argument,
                value=shorten(origin.value, MAX_SOURCE),
                source=origin.source,
            )
            for origin in origins.values
            if origin.is_strange
        ]
        return model_text("guard_asks", told="; ".join(told))
    if origins.reason:
        return model_text("guard_unvouched")
    kinds = {
        kind: ", ".join(origin.argument for origin in origins.values if origin.kind == kind)
        for kind in ("you", "source", "nowhere", "free")
    }
    return model_text(
        "guard_allows",
        told="; ".join(
            f"{model_text(f'guard_all_{kind}')}: {names}" for kind, names in kinds.items() if names
        )
        or "-",
    )


def decide_by_guard(step: Step, call: ToolCallRun, tool: Tool) -> Permission:
    """Return the decision of ``guard`` mode about a call, and record where the call's values come from."""
    state, kit = step.state, step.kit
    memory = state.guard if isinstance(state.guard, GuardMemory) else GuardMemory()
    state.guard = memory
    origins = memory.origins(state, kit, guarded_call(call.name, call.args, kit))
    recipients = origins.recipients(tool.recipient)
    call.origins = [
        {**origin._asdict(), "recipient": origin.is_strange and origin.value in recipients}
        for origin in origins.values
    ]
    return Permission("ask" if origins.asks else "allow", guard_reason(origins))
