#!/usr/bin/env bash
# The tests of one adapter in the environment of its framework: tools/test_integration.sh NAME
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
# Tests send nothing anywhere: the frameworks would report that they are used.
export MEM0_TELEMETRY=False ANONYMIZED_TELEMETRY=False HAYSTACK_TELEMETRY_ENABLED=False CREWAI_DISABLE_TELEMETRY=true OTEL_SDK_DISABLED=true
run=("build/environments/$name/bin/python" -m pytest -c tests/integrations/pytest.ini --rootdir=.)
"${run[@]}" "tests/integrations/$name" $(ls -d "src/lethevec/integrations/$name" "src/lethevec/integrations/$name.py" 2>/dev/null)
page=docs/integrations/$name.md
if [ -f "$page" ]; then "${run[@]}" tests/test_docs.py -k "examples_run and integrations/$name.md"; fi
