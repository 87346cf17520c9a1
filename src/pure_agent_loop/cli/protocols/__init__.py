"""Commands that speak the protocols of others: editors, servers of tools."""
