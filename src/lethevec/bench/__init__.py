"""Speed and quality beside the peers: `lethevec bench`, or `python -m lethevec.bench`; `--help` lists the parts.

Figures are for one thread. Libraries read how many threads they may have from the environment when they are loaded,
and importing this package has loaded NumPy already: so every benchmark runs in a process that was started with the
variables set (see `measuring.process`).
"""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
