"""The Agent Client Protocol, version 1: editors drive an agent over standard input and output.

    connection    the protocol's methods
    session       one session: prompts, and questions to the person
    updates       conversion of events and history to session updates
    calls         presentation of tool calls
    content       conversion of prompts to tasks
    files         workspace files through the editor
    shell         sandboxed commands in a terminal of the editor (`in_terminal` runs there)
    host          interfaces of the application behind the protocol
    wire          JSON-RPC over lines
    params        validation of parameters

See docs/acp.md for the setup of editors and the supported parts of the protocol.
"""

from pure_agent_loop.acp.connection import serve
from pure_agent_loop.acp.files import THROUGH_EDITOR, EditorFiles, EditorShell
from pure_agent_loop.acp.host import Asked, Editor, Host, Known, NoModelError, Option, Planned, Work

__all__ = [
    "THROUGH_EDITOR",
    "Asked",
    "Editor",
    "EditorFiles",
    "EditorShell",
    "Host",
    "Known",
    "NoModelError",
    "Option",
    "Planned",
    "Work",
    "serve",
]
