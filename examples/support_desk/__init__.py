"""A support desk with approvals: an application."""
