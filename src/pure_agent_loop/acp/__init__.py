"""The Agent Client Protocol, version 1: editors drive an agent, over standard input and output.

    connection    the methods
    session       one session: prompts, and questions to the person
    updates       events of a run, and what was said before, as updates
    calls         calls of tools as editors show them
    content       what a person has sent
    files         the files of a folder through the editor
    shell         commands in a terminal of the editor, in our sandbox (in_terminal runs there)
    host          what stands behind it: who opens folders, and the work in them
    wire          JSON-RPC in lines
    params        what was sent, checked

docs/acp.md says how editors are set up, and what each part of the protocol does here.
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
