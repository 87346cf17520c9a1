"""What a model is: values, the client port, assembling a stream, and the OpenAI-compatible client."""
