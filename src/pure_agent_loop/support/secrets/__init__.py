"""Detect secrets in text and redact them."""
