#!/bin/bash
# Before each instance: prepare_instance.sh v1 CATEGORY ONNX VNNLIB
# Nothing is prepared: an exit code other than 0 says that the model cannot be read, and why.
set -u
if [ "$#" -ne 4 ] || [ "$1" != v1 ]; then
  echo "usage: $0 v1 CATEGORY ONNX VNNLIB" >&2
  exit 2
fi
[ -r "$4" ] || { echo "cannot read $4" >&2; exit 1; }
vhagar inspect "$3" --layout chw > /dev/null
