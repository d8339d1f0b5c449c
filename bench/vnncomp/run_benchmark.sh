#!/bin/bash
# Runs every instance of a benchmark: run_benchmark.sh INSTANCES.csv OUTPUT.csv
# A line of INSTANCES.csv is onnx,vnnlib,timeout, with files relative to its folder.
set -u
here=$(dirname "$0") folder=$(dirname "$1") output=$2
: > "$output"
while IFS=, read -r onnx vnnlib limit; do
  [ -n "$onnx" ] || continue
  results=$(mktemp)
  begun=$(date +%s.%N)
  "$here/run_instance.sh" v1 benchmark "$folder/$onnx" "$folder/$vnnlib" "$results" "${limit%$'\r'}"
  took=$(awk -v a="$begun" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
  echo "$onnx,$vnnlib,$(head -n 1 "$results"),$took" | tee -a "$output"
  rm -f "$results"
done < "$1"
