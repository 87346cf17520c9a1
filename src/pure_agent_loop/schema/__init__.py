"""Convert functions to JSON Schemas, arguments to calls, and results to outcomes. Entry point: `tool`."""
