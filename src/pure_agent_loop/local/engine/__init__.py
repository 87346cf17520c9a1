"""llama.cpp's server as a child process, its models, and detection of running servers."""
