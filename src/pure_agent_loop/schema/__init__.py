"""From a function to a JSON Schema, from arguments to a call, and to its outcome; one door, `tool`."""
