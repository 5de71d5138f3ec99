"""The HTTP server in front of a cluster, as a Ray Serve application.

    from lethevec.cluster.serving import application
    ray.serve.run(application(folder="/data/lethevec", port=8765, state="/data/lethevec-server"))

Serve places the server, keeps it running and replaces it when it fails. Requests do not pass through Serve's own proxy:
it hands bodies on through Ray in the clear, where they stay. The server listens on a port of its own, with its keys,
TLS, audit log and limits, as `lethevec serve --cluster` does. There is one replica, because one driver writes.
"""

from __future__ import annotations

import threading
from typing import Any

from ..errors import MissingDependencyError, UnavailableError
from .engine import ENVIRONMENT

__all__ = ["Front", "application"]

_PATIENCE = 60.0


class Front:
    """The server in the process of a replica."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Listen, and begin to serve."""
        import importlib

        # By name: the server is a layer above this one, and needs it only where somebody asks for it.
        settings = importlib.import_module("lethevec.server.settings").load_settings(None, given, {})
        serving = importlib.import_module("lethevec.server.serving")
        core = importlib.import_module("lethevec.server.core").Core(settings)
        socket = serving.listen(settings)
        self.port: int = socket.getsockname()[1]
        application = importlib.import_module("lethevec.server.app").make_app(core)
        self._server = importlib.import_module("uvicorn").Server(serving.configuration(application, settings))
        self._server.install_signal_handlers = lambda: None
        self._thread = threading.Thread(target=self._server.run, args=([socket],), name="http", daemon=True)
        self._thread.start()

    def check_health(self) -> None:
        """What Serve asks now and then: a server that has ended is replaced."""
        if not self._thread.is_alive():
            raise UnavailableError("server: expected it to run, got one that has ended")

    def address(self) -> int:
        """The port that it listens on."""
        return self.port

    def stop(self) -> None:
        """End it when the requests in flight are answered."""
        self._server.should_exit = True
        self._thread.join(_PATIENCE)

    def __del__(self) -> None:
        """Serve lets go of a replica."""
        if hasattr(self, "_thread"):
            self.stop()


def application(*, folder: str, cluster: str = "auto", **settings: Any) -> Any:
    """A Serve application that serves the cluster in `folder`; `settings` are those of `lethevec serve`."""
    try:
        from ray import serve
    except ImportError as error:
        raise MissingDependencyError(f"this needs Ray Serve ({error}): pip install 'ray[serve]'") from None
    options = {"num_cpus": 0, "runtime_env": {"env_vars": ENVIRONMENT}}
    deployment = serve.deployment(Front, name="lethevec", num_replicas=1, ray_actor_options=options)
    return deployment.bind({"folder": folder, "cluster": cluster, **settings})
