"""`python -m vhagar`."""

import sys

from vhagar.cli.entry import main

sys.exit(main())
