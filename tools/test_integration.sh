#!/usr/bin/env bash
# The tests of one adapter in the environment of its framework: tools/test_integration.sh NAME
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
python=build/environments/$name/bin/python
# pytest's settings are those of pyproject.toml, but for the folder that the main suite leaves out.
settings=(-o addopts="--import-mode=importlib --doctest-modules -q" -p no:cacheprovider)
"$python" -m pytest "${settings[@]}" "tests/integrations/$name" $(ls -d "src/lethevec/integrations/$name" "src/lethevec/integrations/$name.py" 2>/dev/null)
page=docs/integrations/$name.md
if [ -f "$page" ]; then "$python" -m pytest "${settings[@]}" tests/test_docs.py -k "examples_run and integrations/$name.md"; fi
