"""The choice of instruction set: by itself, by LETHEVEC_ISA, and refused; and what `cpu_info` says of it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import lethevec
from lethevec._native import core, default_threads, resolve_threads
from lethevec.errors import ParameterError

BUILT, SUPPORTED = core.built_isas(), core.supported_isas()


def run(code, isa):
    environment = {k: v for k, v in os.environ.items() if k != "LETHEVEC_ISA"}
    if isa is not None:
        environment["LETHEVEC_ISA"] = isa
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


SHOW = "import lethevec; i = lethevec.cpu_info(); print(i.isa, i.reason, sep='|')"


@pytest.mark.parametrize("isa", [None, "", "  "])
def test_the_widest_is_the_default(isa):
    done = run(SHOW, isa)
    assert done.returncode == 0, done.stderr
    name, reason = done.stdout.strip().split("|")
    assert name == SUPPORTED[-1]
    assert "widest" in reason
    for known in (*SUPPORTED, *BUILT):
        assert known in reason


@pytest.mark.parametrize("isa", SUPPORTED)
@pytest.mark.parametrize("spelling", [str, str.upper, " {} ".format], ids=["plain", "upper", "spaces"])
def test_the_variable_overrides(isa, spelling):
    done = run(SHOW, spelling(isa))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{isa}|LETHEVEC_ISA={isa}"


REFUSED = """
import sys
try:
    import lethevec
except ImportError as error:
    print(type(error).__module__, type(error).__name__, isinstance(error, ImportError), error, sep='|')
    sys.exit(3)
"""


@pytest.mark.parametrize("isa", [i for i in BUILT if i not in SUPPORTED])
def test_what_the_cpu_lacks_is_refused(isa):
    done = run(REFUSED, isa)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.strip() == (
        f"lethevec.errors|IsaError|True|LETHEVEC_ISA={isa}: this CPU lacks it; expected one of {', '.join(SUPPORTED)}"
    )


@pytest.mark.parametrize("isa", ["sse9", "avx", "none", "avx2,scalar"])
def test_an_unknown_name_is_refused(isa):
    done = run(REFUSED, isa)
    assert done.returncode == 3, done.stdout + done.stderr
    module, name, _, message = done.stdout.strip().split("|")
    assert (module, name) == ("lethevec.errors", "IsaError")
    assert message == f"LETHEVEC_ISA={isa}: expected one of {', '.join(BUILT)}, which this build has"


def test_codes_are_the_same_in_every_process():
    code = (
        "import lethevec, numpy as np; x = np.sin(np.arange(500.0)).reshape(5, 100);"
        "print(lethevec.hasher('usr', dim=100, bits=300, seed=5).values(x).tobytes().hex())"
    )
    assert len({run(code, isa).stdout for isa in (None, *SUPPORTED)}) == 1


def test_cpu_info(isa):
    info = lethevec.cpu_info()
    assert info.isa == isa
    assert info.supported == tuple(SUPPORTED)
    assert info.built == tuple(BUILT)
    assert set(info.supported) <= set(info.built)
    assert info.built[0] == "scalar"
    assert info.threads == default_threads() >= 1
    assert info.reason


def test_cpu_info_cannot_be_changed():
    with pytest.raises(AttributeError):
        lethevec.cpu_info().isa = "scalar"


def test_what_is_supported_follows_from_the_features():
    info = lethevec.cpu_info()
    needs = {
        "scalar": set(),
        "avx2": {"avx2", "fma"},
        "avx512": {"avx2", "fma"}
        | {f"avx512{x}" for x in ("f", "bw", "dq", "vl", "vbmi", "vbmi2", "vpopcntdq", "vnni")},
        "neon": {"neon"},
    }
    assert set(info.supported) == {name for name in info.built if needs[name] <= set(info.features)}


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="Linux only")
def test_the_features_are_those_the_kernel_reports():
    with open("/proc/cpuinfo") as file:
        flags = next(
            (set(line.split(":")[1].split()) for line in file if line.startswith(("flags", "Features"))), set()
        )
    spelt = {f"avx512{x}": f"avx512_{x}" for x in ("vbmi2", "vpopcntdq", "vnni")}
    ours = {spelt.get(name, name) for name in lethevec.cpu_info().features}
    assert ours - {"neon"} <= flags


def test_use_isa_refuses_and_changes_nothing():
    before = core.active_isa()
    for name in ("nonsense", "", *(i for i in BUILT if i not in SUPPORTED)):
        with pytest.raises(ValueError, match="not supported"):
            core.use_isa(name)
    assert core.active_isa() == before


def test_resolve_threads():
    assert resolve_threads(None) == default_threads()
    assert resolve_threads(1) == 1
    assert resolve_threads(1024) == 1024
    for bad in (0, -1, 1025, 1.0, "1", True):
        with pytest.raises(ParameterError, match="threads: expected an integer from 1 to 1024"):
            resolve_threads(bad)


def test_the_bindings_refuse_wrong_shapes():
    """They trust values, not shapes: a wrong one must be an error and never a read past the end."""
    frame = core.Frame.hadamard(np.ones((4, 2, 8), dtype=np.float32))  # m = 2, d = 8
    x, codes = np.ones((3, 8), dtype=np.float32), np.zeros((3, 2), dtype=np.uint8)
    core.superbit(frame, 16, x, None, codes, 1)
    wrong = [
        lambda: core.superbit(frame, 17, x, None, codes, 1),
        lambda: core.superbit(frame, 0, x, None, codes, 1),
        lambda: core.superbit(frame, 16, x[:, :7].copy(), None, codes, 1),
        lambda: core.superbit(frame, 16, x, None, codes[:2].copy(), 1),
        lambda: core.superbit(frame, 16, x, np.ones((3, 15), dtype=np.float32), None, 1),
        lambda: core.usr(frame, 1.0, 0, x, None, codes, 1),
        lambda: core.progressive(frame, np.ones(3, dtype=np.float32), 0, x, None, codes, 1),
        lambda: core.decode(frame, np.ones(2, dtype=np.float32), 1.0, codes[:, :1].copy(), x, 1),
        lambda: core.decode(frame, np.ones(2, dtype=np.float32), 1.0, codes, x[:2].copy(), 1),
        lambda: core.Frame.hadamard(np.ones((2, 2, 8), dtype=np.float32)),
        lambda: core.Frame.hadamard(np.ones((4, 1, 8), dtype=np.float32)),
        lambda: core.Frame.hadamard(np.ones((4, 3, 8), dtype=np.float32)),
        lambda: core.Frame.hadamard(np.ones((4, 2, 0), dtype=np.float32)),
        lambda: core.Frame.dense(np.ones((1, 3, 4), dtype=np.float32)),
    ]
    for call in wrong:
        with pytest.raises(ValueError, match=r"wrong|out of range"):
            call()


def test_the_bindings_refuse_silent_copies():
    frame = core.Frame.hadamard(np.ones((3, 2, 8), dtype=np.float32))
    codes = np.zeros((3, 1), dtype=np.uint8)
    for x in (np.ones((3, 8)), np.ones((3, 16), dtype=np.float32)[:, ::2], [[1.0] * 8] * 3):
        with pytest.raises(TypeError):
            core.superbit(frame, 8, x, None, codes, 1)
