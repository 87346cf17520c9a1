"""A data assistant in a notebook: an application."""
