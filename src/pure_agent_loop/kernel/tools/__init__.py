"""The calls of one answer: decided about by the gate, run together, told to those who watch."""
