"""The tool ``fetch``: a page of the public web as text.

    fetch      the tool, with redirects and pages
    addresses  what is public, and what is not
    wire_read  one request, bounded in every way
    html_text  from HTML to text

docs/fetch.md says what is refused and why.
"""
