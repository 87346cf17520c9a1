"""HTTP transports: aiohttp, the SDK's HTTP library, or the SDK for options that only it supports.

`choice` selects one, `connections` keeps one for each event loop, `plain` is the base without the SDK.
"""
