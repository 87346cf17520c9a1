"""From a function to a JSON Schema, and from a model's arguments to its values. The one door is `tool`."""
