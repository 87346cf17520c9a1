"""``python -m llm_client_conformance``: the command."""

import sys

from llm_client_conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
