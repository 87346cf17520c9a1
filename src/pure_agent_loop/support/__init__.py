"""Low-level helpers that do not depend on agents."""
