#!/bin/bash
# The competition's first step: install_tool.sh v1
# Installs the program into the Python that `python3` is; a virtual environment must be active.
set -eu
if [ "$#" -ne 1 ] || [ "$1" != v1 ]; then
  echo "usage: $0 v1" >&2
  exit 2
fi
python3 -m pip install "$(dirname "$0")/../.."
