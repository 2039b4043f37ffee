"""MCP inside the daemon: one server of the official SDK for each client that `fleettrio mcp` carries here.

    shim ── lines ──► wire ──► the SDK's server ──► tools ──► the methods of the local socket

What a tool does is what the socket's methods do; here is only how a model asks for it and how it is told. The SDK is
imported when the first client comes (`door`), since it costs a second and tens of megabytes; `server` and `wire` alone
know it.
"""
