"""The loop that drives one run. Read `loop` first: it shows the order of a step."""
