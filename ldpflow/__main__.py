"""``python -m ldpflow``."""

import sys

from ldpflow.cli import main

if __name__ == "__main__":  # Ray's workers import the main module again
    sys.exit(main())
