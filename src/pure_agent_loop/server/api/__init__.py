"""The interface of a server for programs.

models      what is sent and answered, as types: they check requests, and write the OpenAPI document
operation   an operation: where it is, what it takes and gives, who may
actions     what can be done to runs and sessions, by REST and by WebSocket alike
runs        runs, and what is said to them
sessions    sessions, their questions, forks and undo
about       agents, tools, usage, tasks, people
schedules   schedules, where there is an engine
streams     events as Server-Sent Events
sockets     events and messages over one WebSocket
openapi     the document
"""
