"""Run random conversations that switch models and protocols: does a strict server reject any request?

    python -m benchmarks.any_model [--conversations 20000] [--seed 0]

Each request is also compared with the history: it must contain every result and nothing else. A conversation
is decided
by its seed: the first one has ``--seed``, each further one the next number. Failures are printed with their
seed; ``--conversations 1 --seed N`` repeats one. Exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from contextlib import suppress

from tests.llm.protocols.conversations import Conversation, running_servers

from pure_agent_loop.testing import ScriptError

BATCH = 200  # conversations per set of servers, which remember their signatures


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.any_model")
    parser.add_argument("--conversations", type=int, default=20_000, help="how many [20000]")
    parser.add_argument("--seed", type=int, default=0, help="of the first one [0]")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)  # tools fail on purpose
    seeds = range(options.seed, options.seed + options.conversations)
    start, failed, turns = time.monotonic(), [], 0
    for first in range(0, len(seeds), BATCH):
        with (
            suppress(ScriptError),
            running_servers() as servers,
        ):  # the servers' errors repeat the findings of the checks
            for seed in seeds[first : first + BATCH]:
                conversation = Conversation(seed, servers)
                try:
                    conversation.run()
                except Exception as error:  # noqa: BLE001 - counted
                    failed.append(seed)
                    print(f"seed {seed}: {error}"[:2000], flush=True)
                    servers.take_requests()
                turns += conversation.turns
    seconds = time.monotonic() - start
    print(f"{len(seeds)} conversations, {turns} questions, {seconds:.0f} s; {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
