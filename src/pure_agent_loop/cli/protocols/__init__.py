"""The commands that serve or use protocols (ACP, MCP), one module per command."""
