"""The ``fetch`` tool: a public web page as text.

    fetch      the tool, with redirects and paging
    addresses  public and non-public addresses
    wire_read  one bounded HTTP request
    html_text  converts HTML to text

docs/fetch.md lists what is rejected and why.
"""
