"""The server: many programs share the collections of a folder, over HTTP, with the same promise.

`lethevec serve FOLDER` starts it. It needs the extra `server`. It uses the public names of lethevec only.

| file | what it does |
|---|---|
| `settings` | every setting, from a file, the environment and flags |
| `serving`, `processes` | processes, how they start and end, and what they say to each other |
| `app`, `calls` | routes; a request on its way: let in, work, write down, answer, count |
| `core` | what the requests of a process share, and the work between requests |
| `keys`, `limits` | who may, and how much at a time |
| `fields`, `problems`, `schemas`, `openapi` | what a request may hold, what goes wrong, and the description of both |
| `api` | the operations of `/v1` |
| `chroma` | the operations of `/api/v2`, for Chroma's clients |
| `audit`, `logs`, `metrics`, `telemetry`, `repeats` | what is written down, for auditors, operators and repeats |

Ids, subjects and values of records are in bodies alone: no path, query string, log line, label or error names them.
"""
