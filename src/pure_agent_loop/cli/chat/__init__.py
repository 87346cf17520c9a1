"""The conversation at a terminal: what a person sees of it, and the application around that."""
