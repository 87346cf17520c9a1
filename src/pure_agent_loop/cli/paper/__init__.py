"""What is written from the parser, and not by hand: completion for shells, and the manual page."""
