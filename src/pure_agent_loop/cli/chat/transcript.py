"""What a person sees of a conversation: events go in, finished lines come out, and the few lines that still move.

The application owns the terminal (prompt_toolkit, not full screen); this module says what stands there:

    screen = Transcript(80, color=True, language="en")
    above = screen.feed(event)      # "" or whole lines, each with its "\\n": print them above, once, as they are
    above = screen.asked("my task") # the same for: what the person said; a long paste is folded
    above = screen.say("saved")     # words of the application; role="error" or "warning" for others
    above = screen.markdown(text)   # a whole text as Markdown: help, a memory, an old answer
    above = screen.diff(name, text) # a whole diff in colours, for a question; `most=` cuts it
    above = screen.close()          # what is unfinished is finished now: before a question, after a stop
    above = screen.unfold(1)        # the last folded thing (reasoning, call, diff, paste) in full; 2: the one before
    lines = screen.live()           # at most `screen.live_lines` lines to draw below, without "\\n"
    line = screen.status(model="m", mode="ask", cost=0.02, seconds=65.0, note="2 queued")

`live()` and `status()` read the clock and change nothing, so they may be called at any rate; 8 times a second is
plenty. Each of their lines fits in `screen.width` columns, so prompt_toolkit need not wrap them. All texts are ANSI with
colours only (`prompt_toolkit.formatted_text.ANSI` reads them); without `color` they have no escape at all.

`screen.width` and `screen.live_lines` may be set at any time, such as after a resize: what is printed stays as it is.
Nothing foreign reaches the terminal unclean: every text passes `safe.Ink`. What the application itself shows of
foreign text (a picker, a completion, a question) passes `safe.clean` (may have lines) or `safe.one_line`.
"""
