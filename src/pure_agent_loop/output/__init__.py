"""Typed answers: the schema of a type, parsing of a model's text, and requests for corrections."""
