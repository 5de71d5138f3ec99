"""The OpenAPI document: it is valid, it is what the routes are, and real answers are what it says."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from lethevec.server.api import OPERATIONS
from lethevec.server.app import make_app
from lethevec.server.openapi import document
from lethevec.server.settings import Settings

from .conftest import Running, fill

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")


def test_every_operation_is_a_route_and_every_route_is_described(start):
    server = start(chroma=False, console=False)
    app = make_app(server.core)
    routes = {(route.path, method) for route in app._router.routes for method in route.endpoint._endpoints}
    described = {(path, method.upper()) for path, methods in document()["paths"].items() for method in methods}
    assert routes == described == {(operation.path, operation.method) for operation in OPERATIONS}
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)


def test_no_path_and_no_query_string_can_name_a_person():
    for operation in OPERATIONS:
        assert set(re.findall(r"{(\w+)}", operation.path)) <= {"collection", "number"}
        assert set(operation.query) <= {"k", "effort", "radius", "include", "after", "limit", "order", "brief"}


def test_what_is_served_is_the_document(start):
    assert start().call("GET", "/openapi.json").json() == document()


ROOT = Path(__file__).parents[2]

#: That a status is described, that its content and its type are as described.
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One server for all operations: what one leaves behind, another meets."""
    folder = tmp_path_factory.mktemp("served") / "people"
    server = Running(Settings(folder=folder, port=0, log="none"))
    fill(server)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    """A server for the call that makes keys: the first key of all closes the door to the other calls."""
    server = Running(Settings(folder=tmp_path_factory.mktemp("alone") / "people", port=0, log="none"))
    yield server
    server.stop()


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_real_answers_are_what_the_document_says(operation, mode, served, left_alone):
    """Whatever schemathesis thinks up: no answer that is not described, none that breaks its schema, no 500."""
    if operation.body is None and operation.other_bodies:
        pytest.skip("it takes no JSON")
    if operation.name == "make key":
        served = left_alone
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    described = schema[operation.path][operation.method]
    wanted = schemathesis.GenerationMode(mode)
    try:
        cases = described.as_strategy(generation_mode=wanted)

        @settings(
            max_examples=4, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=cases)
        def one(case):
            if "collection" in (case.path_parameters or {}) and operation.name not in ("drop", "rename"):
                case.path_parameters["collection"] = "books"
            answer = case.call()
            assert answer.status_code != 500, answer.text
            case.validate_response(answer, checks=CHECKS)

        one()
    except Unsatisfiable:
        assert mode == "negative"  # there is nothing in such a request that could be wrong


def test_the_reference_page_has_every_call():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import api_table
    finally:
        sys.path.pop(0)
    page = (ROOT / "docs" / "server-api.md").read_text()
    assert api_table.table() in page, "python tools/api_table.py prints what docs/server-api.md should hold"
    assert api_table.fields() in page


def test_the_container_files_are_what_they_should_be():
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    (service,) = compose["services"].values()
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    words = [line.split()[0] for line in lines if line and not line.startswith((" ", "#"))]
    assert words.index("USER") > words.index("COPY")
    assert {"HEALTHCHECK", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"} <= set(words)
    for line in lines:
        if line.startswith("COPY ") and not line.startswith("COPY --from"):
            assert all((ROOT / name).exists() for name in line.split()[1:-1]), line
    settings = {field.name for field in dataclasses.fields(Settings)}
    names = re.findall(
        r"LETHEVEC_SERVER_(\w+)", (ROOT / "Dockerfile").read_text() + (ROOT / "compose.yaml").read_text()
    )
    assert {name.lower() for name in names} <= settings


def test_every_setting_is_in_the_documents():
    page = (ROOT / "docs" / "how-to" / "run-a-server.md").read_text()
    for field in dataclasses.fields(Settings):
        assert field.name == "folder" or f"`{field.name}`" in page, field.name
