"""A process that `serving.run` has started; people call `lethevec serve`."""

import sys

from lethevec.errors import LethevecError

from .serving import run_process

if __name__ == "__main__":
    try:
        run_process(sys.argv[1])
    except LethevecError as error:
        sys.exit(f"lethevec: {error}")
