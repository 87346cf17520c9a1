"""Model clients: values, the client port, stream assembly and the OpenAI-compatible client."""
