"""The commands that speak protocols of others, one module each."""
