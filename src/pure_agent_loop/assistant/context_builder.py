"""The assistant's prompt: a stable system prompt, and a note with the changing facts per message."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeGuard

from pure_agent_loop.assistant.memory import MemoryStore
from pure_agent_loop.assistant.notes import Note, user_notes
from pure_agent_loop.assistant.persona import PersonaConfig
from pure_agent_loop.assistant.situation import date_text, one_fact
from pure_agent_loop.assistant.skills import SkillsLoader
from pure_agent_loop.assistant.trust import Guidance, guidance_of, is_trusted
from pure_agent_loop.assistant.words import AssistantWords, words_for
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.messages import Message, text_of, tool_message, user_message, wire_call
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.media import MediaItem, media_parts
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.folders import data_folder
from pure_agent_loop.support.language import default_language
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import as_text, clean_text
from pure_agent_loop.toolbox.files.workspace import Workspace

MAX_REMEMBERED_CHARS = 2_000
MAX_CONTEXT_CHARS = 20_000
Context = Mapping[str, Any] | str | list[Message] | tuple[Message, ...]


def _local_now() -> datetime:
    return datetime.now().astimezone()


class ContextBuilder:
    """Builds the system prompt and the messages of an assistant.

        builder = ContextBuilder("workspace", MemoryStore("workspace"), SkillsLoader(), PersonaConfig("Ada"))
        print(builder.build_system_prompt())

    The system prompt has no date and nothing else that changes per message, so that servers can cache it.
    Changing facts go into a note that comes with the message; see `note`.

    Args:
        workspace: A `Workspace`, or an existing folder.
        memory: The memory; None for no memory.
        skills: The skills; None for no skills.
        persona_config: The persona; None for ``assistant``.
        language: ``en`` or ``zh``; None for the language of the persona, of the `AgentLoop`, or else the
            default of the environment.
        words: Custom texts by section: ``dataclasses.replace(words_for("en"), safety="...")``.
        read_notes: Include the project's ``AGENTS.md`` files, if they are trusted.
        trust_folder: True uses the texts in this folder; or the `Guidance` with the texts that a person
            trusts. None uses them only if a person trusted their exact content in ``pal run``. Texts that
            are left out are logged.
        now: Function that returns the time for the note.

    Raises:
        ConfigError: The workspace is not a folder, or the language is not supported.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        memory: MemoryStore | None = None,
        skills: SkillsLoader | None = None,
        persona_config: PersonaConfig | None = None,
        *,
        language: str | None = None,
        words: AssistantWords | None = None,
        read_notes: bool = True,
        trust_folder: bool | Guidance | None = None,
        now: Callable[[], datetime] = _local_now,
    ) -> None:
        self.workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.memory = memory
        self.skills = skills
        self._own_words = words
        self.persona = persona_config or PersonaConfig()
        self._set_language(language or self.persona.language)
        self._read_notes, self._trust_folder, self._logged_digest = read_notes, trust_folder, ""
        self._now = checked_function("now", now)

    def _set_language(self, language: str | None) -> None:
        self.language = language
        if self.persona.language is None:
            self.persona = replace(self.persona, language=language)
        self.words = self._own_words or words_for(language)

    def build_system_prompt(self) -> str:
        """Return the system prompt: the stable parts first, the workspace's notes last."""
        return "\n\n".join(part for part in self.sections().values() if part)

    def sections(self) -> dict[str, str]:
        """Return the parts of the prompt by name, in order; empty parts are left out of the prompt."""
        words, skills = self.words, self.skills
        identity = words.identity.format(name=self.persona.name, description=self.persona.description)
        always = skills.always() if skills else []
        catalogue = skills.catalogue() if skills else ""
        return {
            "identity": "\n\n".join(part for part in (identity.strip(), self.persona.text()) if part),
            "work": words.work,
            "tools": words.tools,
            "memory": words.memory if self.memory else "",
            "safety": words.safety,
            "always": "\n\n".join(words.always.format(name=name, body=body) for name, body in always),
            "skills": f"{words.skills}\n\n{catalogue}".strip() if catalogue else "",
            "notes": self._notes(),
        }

    def _notes(self) -> str:
        if not self._read_notes or not self.words.notes:
            return ""
        notes = [*user_notes(data_folder() / "AGENTS.md"), *self._project_notes()]
        return "\n\n".join([self.words.notes, *map(_wrap_note, notes)]) if notes else ""

    def _project_notes(self) -> Sequence[Note]:
        """Return the folder's trusted notes, as read when trust was checked."""
        if self._trust_folder is False:
            return ()
        if isinstance(self._trust_folder, Guidance):
            return self._trust_folder.notes
        guidance = guidance_of(self.workspace.root)
        if self._trust_folder or is_trusted(guidance):
            return guidance.notes
        both = self.skills is not None and self.skills.leaves_out_project
        left_out = guidance.shown if both else ", ".join(note.name for note in guidance.notes)
        if left_out and self._logged_digest != guidance.digest:
            self._logged_digest = guidance.digest
            LOG.warning("untrusted, left out: %s (use with trust_folder=True)", one_line(left_out))
        return ()

    def note(
        self,
        context: Context | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
        *,
        is_first: bool = False,
    ) -> str:
        """Return the note for a message: date, channel, chat and context.

        Args:
            context: Context of the message: a string, a mapping, or messages.
            channel: Source of the message, such as ``telegram``.
            chat_id: Conversation in the channel.
            is_first: True for the first message of a session: include the newest memory entries.

        Raises:
            ConfigError: `context` has the wrong type or is too long.
        """
        words = self.words
        lines = [words.now.format(now=date_text(self._now(), self.language or default_language()))]
        lines += [words.channel.format(channel=_one_line(channel))] if channel else []
        lines += [words.chat.format(chat=_one_line(chat_id))] if chat_id else []
        lines += [one_fact(words.about.format(text=_context_text(context)))] if context else []
        remembered = self.memory.digest(MAX_REMEMBERED_CHARS) if is_first and self.memory else ""
        lines += [one_fact(words.remembered.format(text=remembered))] if remembered else []
        return words.context.format(text="\n".join(lines)) if words.context else ""

    def build_messages(
        self,
        history: Iterable[Message],
        current_message: str,
        media: Iterable[MediaItem] | None = None,
        *,
        context: Context | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
    ) -> list[Message]:
        """Return the messages of a request: system prompt, history, note, new message with images.

        Args:
            history: Earlier messages; a leading system message is replaced.
            current_message: The user's new message.
            media: Images of the new message; see `media_parts`.
            context: See `note`.
            channel: See `note`.
            chat_id: See `note`.

        Raises:
            ConfigError: An argument has the wrong type.
            ImageError: An image cannot be sent.
        """
        if not isinstance(current_message, str):
            raise ConfigError(f"current_message={current_message!r:.80} must be text.")
        before = list(history)
        if before and before[0].get("role") in ("system", "developer"):
            before.pop(0)
        note = self.note(context, channel, chat_id, is_first=not before)
        messages = [user_message(note)] if note else []
        messages += [user_message(current_message, media_parts(media))]
        prompt = {"role": "system", "content": self.build_system_prompt()}
        return [prompt, *before, *map(dict, messages)]

    def add_tool_result(self, messages: list[Message], call_id: str, name: str, result: Any) -> list[Message]:
        """Append the result of a call, and return the list.

        Args:
            messages: The list; modified in place.
            call_id: The id of the call.
            name: The tool.
            result: The result; anything but text becomes JSON.
        """
        messages.append({**tool_message(call_id, as_text(result)), "name": name})
        return messages

    def add_assistant_message(
        self,
        messages: list[Message],
        content: str | None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
    ) -> list[Message]:
        """Append a model response, and return the list.

        Args:
            messages: The list; modified in place.
            content: Text of the response.
            tool_calls: Calls of the response, as `ToolCall` objects or protocol dicts.
        """
        message: Message = {"role": "assistant", "content": None if content is None else clean_text(content)}
        calls = [wire_call(call) if isinstance(call, ToolCall) else dict(call) for call in tool_calls or ()]
        if calls:
            message["tool_calls"] = calls
        elif content is None:
            message["content"] = ""
        messages.append(message)
        return messages


def in_language_of(language: str | None, builder: ContextBuilder) -> ContextBuilder:
    """Return a builder with its texts in a language; a builder with its own language is unchanged."""
    if builder.language is not None or language is None:
        return builder
    builder = copy(builder)
    builder._set_language(language)
    return builder


def _wrap_note(note: Note) -> str:
    text = note.text.replace("</notes", "<\\/notes")  # a file must not close the tag that encloses it
    return f'<notes file="{_one_line(note.name)}">\n{text}\n</notes>'


def _one_line(text: object) -> str:
    return " ".join(clean_text(str(text)).replace('"', "'").split())[:200]


def are_messages(value: object) -> TypeGuard[Sequence[Message]]:
    """Return True if a context is a list of messages, not text or a mapping."""
    return isinstance(value, (list, tuple)) and all(
        isinstance(entry, Mapping) and "role" in entry for entry in value
    )


def _context_text(context: Context) -> str:
    if isinstance(context, Mapping):
        text = "\n".join(f"{_one_line(key)}: {as_text(value)}" for key, value in context.items())
    elif isinstance(context, str):
        text = clean_text(context)
    elif are_messages(context):
        text = "\n".join(
            f"{_one_line(message['role'])}: {text_of(message.get('content') or '')}" for message in context
        )
    else:
        raise ConfigError(
            f"context={context!r:.80} must be text, a mapping or a list of messages with a role."
        )
    if len(text) > MAX_CONTEXT_CHARS:
        raise ConfigError(f"context has {len(text):,} characters; the limit is {MAX_CONTEXT_CHARS:,}.")
    return text
