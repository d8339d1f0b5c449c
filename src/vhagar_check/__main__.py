"""`python -m vhagar_check CERTIFICATE --model MODEL`."""

import sys

from vhagar_check.cli import main

if __name__ == "__main__":
    sys.exit(main())
