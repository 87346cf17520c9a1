"""One run, from inside. `loop` is the order of a step; read it first."""
