"""The assistant: sessions by id, memory, skills, a persona, over the same agent as everything else.

    agent_loop       what a chat surface calls: a message in, text out
    context_builder  the system prompt, and what stands beside a message
    persona          who it is
    memory           ``MEMORY.md`` and its tools
    skills           ``SKILL.md`` folders (`frontmatter` reads their heads)
    notes            ``AGENTS.md``
    provider         any object with ``chat_stream`` as a model
    words            what all of these say to a model

docs/assistant.md and docs/skills.md describe it.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import names_loaded_later

if TYPE_CHECKING:
    from pure_agent_loop.assistant.agent_loop import AgentLoop
    from pure_agent_loop.assistant.context_builder import ContextBuilder
    from pure_agent_loop.assistant.memory import MemoryEntry, MemoryStore, MemoryStoreError
    from pure_agent_loop.assistant.notes import project_notes
    from pure_agent_loop.assistant.persona import PersonaConfig, personas
    from pure_agent_loop.assistant.skills import Skill, SkillsLoader
    from pure_agent_loop.assistant.words import AssistantWords, words_for

__all__ = [
    "AgentLoop",
    "AssistantWords",
    "ContextBuilder",
    "MemoryEntry",
    "MemoryStore",
    "MemoryStoreError",
    "PersonaConfig",
    "Skill",
    "SkillsLoader",
    "personas",
    "project_notes",
    "words_for",
]

_LATER = {
    "AgentLoop": "agent_loop",
    "AssistantWords": "words",
    "ContextBuilder": "context_builder",
    "MemoryEntry": "memory",
    "MemoryStore": "memory",
    "MemoryStoreError": "memory",
    "PersonaConfig": "persona",
    "Skill": "skills",
    "SkillsLoader": "skills",
    "personas": "persona",
    "project_notes": "notes",
    "words_for": "words",
}


__getattr__, __dir__ = names_loaded_later(__name__, _LATER)
