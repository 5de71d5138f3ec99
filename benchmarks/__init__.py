"""Speed beside the peers, as ratios in one run. `python -m benchmarks` runs all of it, short.

Importing this package limits the process to one thread where libraries read that from the environment. It must happen
before NumPy or any peer is loaded, which is why it stands here.
"""

import os

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)

for _name in THREAD_VARIABLES:
    os.environ.setdefault(_name, "1")
