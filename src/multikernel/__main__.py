"""``python -m multikernel`` is the command ``multikernel``."""

import sys

from multikernel.cli import main

if __name__ == "__main__":
    sys.exit(main())
