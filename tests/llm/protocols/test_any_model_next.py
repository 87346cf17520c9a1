"""One history, any model next: random conversations over strict servers of all protocols.

No server refuses, no known result gets lost, and nothing is invented. ``python -m benchmarks.any_model`` runs
more of them.
"""

import os

import pytest

from tests.llm.protocols.conversations import Conversation, running_servers

CONVERSATIONS = int(os.environ.get("CONVERSATIONS", "60"))  # of each of four parts


@pytest.mark.parametrize("part", range(4))
def test_random_conversations_are_refused_by_no_server(part):
    with running_servers() as servers:
        for seed in range(part * CONVERSATIONS, (part + 1) * CONVERSATIONS):
            Conversation(seed, servers).run()
