"""`python -m vhagar_check CERTIFICATE --model MODEL`."""

import sys

try:
    from vhagar_check.cli import main

    if __name__ == "__main__":
        sys.exit(main())
except KeyboardInterrupt:  # while it imports
    sys.stderr.write("interrupted\n")
    sys.exit(130)
