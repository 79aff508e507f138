"""``python -m ldpflow``, and the command ``ldpflow``."""

import sys


def start() -> int:
    """Run the command line. An interrupt prints one line, also while the program loads."""
    try:
        from ldpflow.cli import main

        return main()
    except KeyboardInterrupt:
        print("ldpflow: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":  # Ray's workers import the main module again
    sys.exit(start())
