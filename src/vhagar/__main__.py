"""`python -m vhagar`."""

import sys

from vhagar.cli.main import main

sys.exit(main())
