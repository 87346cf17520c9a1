"""Typed answers: the form of a type, what a model wrote read into it, and the corrections it is sent."""
