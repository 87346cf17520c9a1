"""The command ``python -m llm_client_conformance``."""

import sys

from llm_client_conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
