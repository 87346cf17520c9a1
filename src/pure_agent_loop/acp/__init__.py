"""The Agent Client Protocol, version 1: editors drive an agent over standard input and output.

    connection    the protocol's methods
    session       one session: its prompts, options and questions to the person
    prompts       conversion of prompts to tasks
    updates       conversion of events and history to session updates
    calls         presentation of tool calls
    files         workspace files through the editor
    shell         sandboxed commands in an editor terminal (`in_terminal` runs there)
    host          interfaces of the application behind the protocol
    wire          JSON-RPC over lines, with validation of parameters

See docs/acp.md for the setup of editors and the supported parts of the protocol.
"""

from pure_agent_loop.acp.connection import serve
from pure_agent_loop.acp.files import THROUGH_EDITOR, EditorFiles
from pure_agent_loop.acp.host import Asked, Editor, Host, Known, NoModelError, Option, Planned, Work
from pure_agent_loop.acp.shell import EditorShell

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
