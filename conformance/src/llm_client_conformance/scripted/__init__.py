"""Scripts, faults and the loopback server that plays them; the modules are copies, see their first lines."""
