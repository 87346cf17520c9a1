"""llama.cpp's server as a child process, the models it can load, and servers that run already."""
