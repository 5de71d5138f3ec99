"""Whether the server of this machine answers: the health check of a container.

    python -m lethevec.server.health        # exit code 0 or 1; the port is LETHEVEC_SERVER_PORT, or 8765

It asks in the clear, and if that is no HTTP by TLS. The certificate is not looked at: it names the machine as callers
know it, and nothing is sent that anybody must not see.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
from contextlib import closing

__all__ = ["answers"]

_PATIENCE = 2.0


def answers(port: int) -> bool:
    """Whether `/healthz` on this port of loopback answers 200."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for connection in (
        http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE),
        http.client.HTTPSConnection("127.0.0.1", port, timeout=_PATIENCE, context=context),
    ):
        with closing(connection):
            try:
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                continue
    return False


if __name__ == "__main__":
    sys.exit(0 if answers(int(os.environ.get("LETHEVEC_SERVER_PORT", "8765"))) else 1)
