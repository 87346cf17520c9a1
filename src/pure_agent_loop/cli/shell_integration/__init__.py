"""Shell completion, generated from the parser."""
