"""Shell completion and the manual page, generated from the parser."""
