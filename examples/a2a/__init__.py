"""A bridge to A2A, on the interface of the server."""
