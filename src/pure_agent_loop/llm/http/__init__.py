"""HTTP transports: aiohttp, the SDK's HTTP library, or the SDK for options that only it supports.

`choice` selects one, `connections` keeps one per event loop, and `plain` is the base of those without the
SDK.
"""
