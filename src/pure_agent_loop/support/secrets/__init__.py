"""Detect secrets in text and redact them."""

from pure_agent_loop.support.secrets.secret_shapes import holds_key

__all__ = ["holds_key"]
