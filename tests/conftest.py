"""One thread for every library, whoever starts the tests: more of them only wait for each other."""

import os

# Read when a library loads, so this stands before any test module is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
