"""Strict servers of other protocols, on loopback, that refuse what the real ones refuse.

Each plays a script, as `ScriptedServer` does, and names the source of each refusal.
"""

from pure_agent_loop.testing.protocols.messages import (
    MessageBlocks,
    MessagesServer,
    check_messages_request,
    message_blocks,
)

__all__ = ["MessageBlocks", "MessagesServer", "check_messages_request", "message_blocks"]
