#!/bin/bash
# One instance of the verification competition: run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT
# The results file gets sat (with a counterexample), unsat, unknown, timeout or error.
set -u
if [ "$#" -ne 6 ] || [ "$1" != v1 ]; then
  echo "usage: $0 v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT" >&2
  exit 2
fi
onnx=$3 vnnlib=$4 results=$5 limit=$6
# A little less than allowed, for the start of Python.
own=$(awk -v limit="$limit" 'BEGIN { print (limit > 10) ? limit - 5 : limit / 2 }')
timeout "$limit" vhagar local "$onnx" --vnnlib "$vnnlib" --timeout "$own" > "$results"
case $? in
  0) exit 0 ;;
  124) echo timeout > "$results" ;;
  *) echo error > "$results" ;;
esac
