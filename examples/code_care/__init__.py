"""Code maintenance on a schedule: an application."""
