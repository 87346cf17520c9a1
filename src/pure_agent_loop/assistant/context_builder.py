"""What the assistant's model is told: a prompt that stays the same, and what is new beside the message."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pure_agent_loop.assistant.memory import MemoryStore
from pure_agent_loop.assistant.notes import Note, user_notes
from pure_agent_loop.assistant.persona import PersonaConfig, personas
from pure_agent_loop.assistant.skills import SkillsLoader
from pure_agent_loop.assistant.trust import guidance_of, is_trusted
from pure_agent_loop.assistant.words import AssistantWords, words_for
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.messages import Message, tool_message, user_message, wire_call
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.media import MediaItem, media_parts
from pure_agent_loop.support.paths import data_folder
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import as_text, clean_text
from pure_agent_loop.toolbox.files.workspace import Workspace

LOG = logging.getLogger("pure_agent_loop")
MAX_REMEMBERED_CHARS = 2_000
MAX_CONTEXT_CHARS = 20_000


def _local_now() -> datetime:
    return datetime.now().astimezone()


class ContextBuilder:
    """Builds the system prompt and the messages of an assistant.

        builder = ContextBuilder("workspace", MemoryStore("workspace"), SkillsLoader(), PersonaConfig("Ada"))
        print(builder.build_system_prompt())

    The prompt has no date in it and nothing that changes from message to message, so that servers can keep
    it in their caches. What changes goes beside the message: see `note`.

    Args:
        workspace: A `Workspace`, or a folder that exists.
        memory: What is remembered; None for no memory.
        skills: What is known how to do; None for no skills.
        persona_config: Who it is; the persona ``assistant`` if None.
        language: ``en`` or ``zh``; else the persona's, else the default of the environment.
        words: Words of your own, section by section: ``dataclasses.replace(words_for("en"), safety="...")``.
        read_notes: Whether the ``AGENTS.md`` of the project belong to the prompt, where they are trusted.
        trust_folder: Whether the texts of this folder may guide the model; None for what a person has said
            about them, as they are, when ``pal run`` asked. What is left out is logged.
        now: Gives the time that the model is told.

    Raises:
        ConfigError: It is no folder, or there are no words in that language.
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
        trust_folder: bool | None = None,
        now: Callable[[], datetime] = _local_now,
    ) -> None:
        self.workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.memory = memory
        self.skills = skills
        self.language = language or (persona_config.language if persona_config else None)
        self.persona = persona_config or personas(self.language)["assistant"]
        self.words = words or words_for(self.language)
        self._read_notes, self._trust_folder, self._told = read_notes, trust_folder, ""
        self._now = now

    def build_system_prompt(self) -> str:
        """The system prompt: what stays the same first, what belongs to the workspace last."""
        return "\n\n".join(part for part in self.sections().values() if part)

    def sections(self) -> dict[str, str]:
        """The parts of the prompt by name, in order; an empty one is left out."""
        words, skills = self.words, self.skills
        identity = words.identity.format(name=self.persona.name, description=self.persona.description)
        always = skills.always() if skills else []
        catalogue = skills.catalogue() if skills else ""
        return {
            "identity": "\n\n".join(part for part in (identity.strip(), self.persona.text()) if part),
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
        return "\n\n".join([self.words.notes, *map(_framed, notes)]) if notes else ""

    def _project_notes(self) -> Sequence[Note]:
        """Those of the folder, as they were when it was looked whether somebody trusts them."""
        if self._trust_folder is False:
            return ()
        guidance = guidance_of(self.workspace.root)
        if self._trust_folder or is_trusted(guidance):
            return guidance.notes
        both = self.skills is not None and self.skills.leaves_out_project
        left_out = guidance.shown if both else ", ".join(note.name for note in guidance.notes)
        if left_out and self._told != guidance.digest:
            self._told = guidance.digest
            about = "left out, as nobody has trusted it: %s (trust_folder=True uses it)"
            LOG.warning(about, one_line(left_out))
        return ()

    def note(
        self,
        context: Mapping[str, Any] | str | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
        *,
        is_first: bool = False,
    ) -> str:
        """What is told beside a message: the time, where it came from, and what the caller knows.

        Args:
            context: More about this message: a text, or names and values.
            channel: Where the message came from, such as ``telegram``.
            chat_id: Which conversation there.
            is_first: The session begins: the newest of memory is told too.

        Raises:
            ConfigError: `context` is neither text nor a mapping, or is too long.
        """
        words = self.words
        lines = [words.now.format(now=f"{self._now():%Y-%m-%d %H:%M %Z (%A)}")]
        lines += [words.channel.format(channel=_one_line(channel))] if channel else []
        lines += [words.chat.format(chat=_one_line(chat_id))] if chat_id else []
        lines += [_context_text(context)] if context else []
        remembered = self.memory.digest(MAX_REMEMBERED_CHARS) if is_first and self.memory else ""
        lines += [words.remembered.format(text=remembered)] if remembered else []
        return words.context.format(text="\n".join(lines)) if words.context else ""

    def build_messages(
        self,
        history: Iterable[Message],
        current_message: str,
        media: Iterable[MediaItem] | None = None,
        *,
        context: Mapping[str, Any] | str | None = None,
        channel: str | None = None,
        chat_id: str | None = None,
    ) -> list[Message]:
        """The messages of a request: system prompt, history, the new message with its images, the note.

        Args:
            history: What was said before; a leading system message in it is replaced.
            current_message: What the user says now.
            media: Images that come with it; see `media_parts`.
            context: See `note`.
            channel: See `note`.
            chat_id: See `note`.

        Raises:
            ConfigError: Something has the wrong type.
            ImageError: An image cannot be sent.
        """
        if not isinstance(current_message, str):
            raise ConfigError(f"current_message must be text; it is {current_message!r:.80}.")
        before = list(history)
        if before and before[0].get("role") in ("system", "developer"):
            before.pop(0)
        said = user_message(current_message, media_parts(media))
        note = self.note(context, channel, chat_id, is_first=not before)
        prompt = {"role": "system", "content": self.build_system_prompt()}
        return [prompt, *before, said, *([user_message(note)] if note else [])]

    def add_tool_result(self, messages: list[Message], call_id: str, name: str, result: Any) -> list[Message]:
        """Append the result of a call, and return the list.

        Args:
            messages: The list; it is changed.
            call_id: The id of the call.
            name: The tool.
            result: What it gave; what is no text becomes JSON.
        """
        messages.append({**tool_message(call_id, as_text(result)), "name": name})
        return messages

    def add_assistant_message(
        self,
        messages: list[Message],
        content: str | None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
    ) -> list[Message]:
        """Append an answer of the model, and return the list.

        Args:
            messages: The list; it is changed.
            content: What it says.
            tool_calls: The calls in it, as `ToolCall` or in the shape of the protocol.
        """
        message: Message = {"role": "assistant", "content": None if content is None else clean_text(content)}
        calls = [wire_call(each) if isinstance(each, ToolCall) else dict(each) for each in tool_calls or ()]
        if calls:
            message["tool_calls"] = calls
        elif content is None:
            message["content"] = ""
        messages.append(message)
        return messages


def _framed(note: Note) -> str:
    text = note.text.replace("</notes", "<\\/notes")  # a file must not end its own frame
    return f'<notes file="{_one_line(note.name)}">\n{text}\n</notes>'


def _one_line(text: object) -> str:
    return " ".join(clean_text(str(text)).replace('"', "'").split())[:200]


def _context_text(context: Mapping[str, Any] | str) -> str:
    if isinstance(context, Mapping):
        text = "\n".join(f"{_one_line(key)}: {as_text(value)}" for key, value in context.items())
    elif isinstance(context, str):
        text = clean_text(context)
    else:
        raise ConfigError(
            f"context must be text or a mapping; it is {context!r:.80}. What was said before is no context: "
            "the session keeps it; loop.agent.arun(message, messages, session_id=...) begins one with it."
        )
    if len(text) > MAX_CONTEXT_CHARS:
        raise ConfigError(f"context has {len(text):,} characters; at most {MAX_CONTEXT_CHARS:,}. Shorten it.")
    return text
