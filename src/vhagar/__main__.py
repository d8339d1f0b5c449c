"""`python -m vhagar`."""

import sys

try:
    from vhagar.cli.entry import main

    sys.exit(main())
except KeyboardInterrupt:  # it came before the program's own handler
    sys.stderr.write("vhagar: interrupted\n")
    sys.exit(130)
