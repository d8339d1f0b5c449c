"""`python -m vhagar`."""

import sys

from vhagar.cli import main

sys.exit(main())
