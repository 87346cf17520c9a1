"""The assistant: an agent with sessions, memory, skills and a persona.

    agent_loop       the interface for chat surfaces: message in, text out
    context_builder  the system prompt, and the note added to a message
    persona          name, description, style and rules
    memory           ``MEMORY.md`` and its tools
    skills           ``SKILL.md`` folders
    notes            ``AGENTS.md``
    trust            approval of a folder's instructions by a person
    providers        adapter for any object with ``chat_stream``
    words            texts for models

See docs/assistant.md and docs/skills.md.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.assistant.agent_loop import AgentLoop
    from pure_agent_loop.assistant.context_builder import ContextBuilder
    from pure_agent_loop.assistant.memory import MemoryEntry, MemoryStore, MemoryStoreError
    from pure_agent_loop.assistant.notes import project_notes, user_notes
    from pure_agent_loop.assistant.persona import PersonaConfig, personas
    from pure_agent_loop.assistant.situation import Situation
    from pure_agent_loop.assistant.skills import Skill, SkillsLoader
    from pure_agent_loop.assistant.trust import (
        SUBAGENTS_FOLDER,
        Guidance,
        guidance_of,
        is_trusted,
        trust_guidance,
    )
    from pure_agent_loop.assistant.words import AssistantWords, words_for

__all__ = [
    "SUBAGENTS_FOLDER",
    "AgentLoop",
    "AssistantWords",
    "ContextBuilder",
    "Guidance",
    "MemoryEntry",
    "MemoryStore",
    "MemoryStoreError",
    "PersonaConfig",
    "Situation",
    "Skill",
    "SkillsLoader",
    "guidance_of",
    "is_trusted",
    "personas",
    "project_notes",
    "trust_guidance",
    "user_notes",
    "words_for",
]

_LATER = {
    "Guidance": "trust",
    "SUBAGENTS_FOLDER": "trust",
    "guidance_of": "trust",
    "is_trusted": "trust",
    "trust_guidance": "trust",
    "user_notes": "notes",
    "AgentLoop": "agent_loop",
    "AssistantWords": "words",
    "ContextBuilder": "context_builder",
    "MemoryEntry": "memory",
    "MemoryStore": "memory",
    "MemoryStoreError": "memory",
    "PersonaConfig": "persona",
    "Situation": "situation",
    "Skill": "skills",
    "SkillsLoader": "skills",
    "personas": "persona",
    "project_notes": "notes",
    "words_for": "words",
}


__getattr__, __dir__ = lazy_exports(__name__, _LATER)
