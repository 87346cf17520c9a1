"""The programming interface of a server: REST, Server-Sent Events and WebSocket.

models      request and response bodies: validation and OpenAPI schemas
operation   an operation: path, body, response, role
actions     operations on runs and sessions, shared by REST and WebSocket
runs        start, list, steer and stop runs
sessions    sessions, their questions, forks and undo
files       files that tools returned
about       agents, tools, usage, tasks, login
operator    requests to models, audit log, engine; for operators
schedules   schedules of an engine
streams     events as Server-Sent Events
sockets     events and messages over a WebSocket
openapi     the OpenAPI document
"""
