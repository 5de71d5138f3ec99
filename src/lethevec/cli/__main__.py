"""`python -m lethevec.cli`, for where the installed command is not on the path."""

from . import main

if __name__ == "__main__":
    main()
