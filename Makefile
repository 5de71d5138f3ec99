# What a person runs, and what CI runs. Each target does its own set-up, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find native CMakeLists.txt -type f 2>/dev/null)
CPP := $(wildcard native/*.h native/*.cpp native/*/*.h native/*/*.cpp native/*/*/*.h native/*/*/*.cpp tests/native/*.h tests/native/*.cpp)

# Each has a folder in tests/integrations, with what its environment needs.
FRAMEWORKS := crewai frames haystack langchain llama_index mcp mem0 sklearn sources

.PHONY: help demo test lint docs pictures bench format clean test-wheel test-native test-neon test-windows test-asan test-tsan serve test-server-load test-server-crash test-chroma-suite test-cluster chromium test-console console-demo console-pictures test-long fuzz \
  test-integrations $(addprefix test-,$(FRAMEWORKS))

help:
	@echo "make demo    a person is forgotten, on real word vectors, and every claim is checked"
	@echo "make test    the test suite"
	@echo "make lint    ruff, mypy, import rules, Dockerfile and compose.yaml"
	@echo "make docs    the documents as a site, in site/"
	@echo "make bench   the paper and the peers, a short run with a report"
	@echo "make test-integrations    the adapters, each in an environment with its framework; test-sklearn and so on for one"
	@echo "make test-cluster   the cluster on Ray: several nodes on this machine, which are killed"
	@echo "make serve   a server on the demo's words; Ctrl-C ends it"
	@echo "make console-demo   the same with a key, for the console at /console; it prints the address and the key"
	@echo "make test-console   the console in a browser (Debian's chromium)"
	@echo "make test-wheel     the wheel and the sdist: built, and tried in an empty environment"
	@echo "make test-native    the native core without Python: kernels against the golden files, and no memory"
	@echo "make test-neon, test-asan, test-tsan    the native core on aarch64 (under qemu), and under sanitizers"
	@echo "make test-windows   the native core for Windows, cross-compiled and linked"
	@echo "make test-long      kills, power cuts, full disks, damaged files, histories and readers beside a writer, for an hour"
	@echo "make fuzz    the readers of snapshots and receipts by a coverage-guided fuzzer, for FUZZ_SECONDS=60 each"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("lethevec needs Python 3.10 or later, got " + sys.version) if sys.version_info < (3, 10) else 0'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The stamp is renewed when the native code or the dependencies change; Python code is used in place.
$(VENV)/.installed-%: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

# What an extra asks for, where the package itself need not be built.
$(VENV)/.needs-%: $(BIN)/python pyproject.toml tools/extra.py
	$(BIN)/python tools/extra.py $* > $(VENV)/needs-$*.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/needs-$*.txt
	@touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/python -m lethevec.demo

serve: $(VENV)/.installed-server
	$(BIN)/python tools/serve_words.py build/serve

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.installed-lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	@# mypy looks for the stub of the compiled module beside the sources, not where the build installs it.
	@cp $(VENV)/lib/python3*/site-packages/lethevec/_core.pyi src/lethevec/
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec compose.yaml

# Strict: a link that leads nowhere, or a name that the reference does not find, is an error.
docs: $(VENV)/.needs-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html; to search in it as well: python3 -m http.server --directory site"

# The pictures of docs/hashing.md are committed; this draws them again.
pictures: $(VENV)/.installed-bench
	$(BIN)/python tools/make_pictures.py

# In a temporary folder, from the files that git knows: what is lying about must not get into a package.
test-wheel: $(VENV)/.needs-package
	$(BIN)/python tools/test_wheel.py

format: $(VENV)/.installed-lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(CPP)

JOBS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')

# The kernels by themselves, without Python, against the golden files: here, and for aarch64 under an emulator.
GOLDEN := tests/golden/hashing-v1.bin
need = command -v $(1) >/dev/null || { echo "$@ needs $(1): sudo apt install $(2)"; exit 1; }

test-native:
	@$(call need,cmake,cmake)
	cmake -S . -B build/native-tests -DLETHEVEC_NATIVE_TESTS=ON
	cmake --build build/native-tests --parallel $(JOBS)
	build/native-tests/golden_check $(GOLDEN)
	build/native-tests/agreement_check
	build/native-tests/no_memory
	build/native-tests/registers_check
	build/native-tests/damaged_pages

test-neon:
	@$(call need,cmake,cmake)
	@$(call need,aarch64-linux-gnu-g++,g++-aarch64-linux-gnu)
	@$(call need,qemu-aarch64,qemu-user)
	cmake -S . -B build/neon-tests -DLETHEVEC_NATIVE_TESTS=ON -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake
	cmake --build build/neon-tests --parallel $(JOBS)
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/neon-tests/golden_check $(GOLDEN) scalar neon
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/neon-tests/agreement_check neon
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/neon-tests/registers_check

# The native core for Windows: compiled and linked, with its kernels' tests; run where there is Wine.
WINE := $(firstword $(wildcard $(shell command -v wine64) $(shell command -v wine) /usr/lib/wine/wine64))
test-windows:
	@$(call need,cmake,cmake)
	@$(call need,x86_64-w64-mingw32-g++-posix,g++-mingw-w64-x86-64)
	cmake -S . -B build/windows-tests -DLETHEVEC_NATIVE_TESTS=ON -DCMAKE_TOOLCHAIN_FILE=cmake/x86_64-w64-mingw32.cmake
	cmake --build build/windows-tests --parallel $(JOBS) --target engine golden_check agreement_check
	@test -n "$(WINE)" || echo "compiled and linked; not run, because there is no wine"
	test -z "$(WINE)" || $(WINE) build/windows-tests/golden_check.exe $(GOLDEN)
	test -z "$(WINE)" || $(WINE) build/windows-tests/agreement_check.exe

# The native core under sanitizers: stray reads and undefined behaviour, and races between a writer and its readers.
test-asan:
	@$(call need,cmake,cmake)
	cmake -S . -B build/asan -DLETHEVEC_NATIVE_TESTS=ON -DLETHEVEC_SANITIZE=address,undefined
	cmake --build build/asan --parallel $(JOBS)
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build/asan/golden_check $(GOLDEN)
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build/asan/agreement_check
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build/asan/no_memory
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build/asan/damaged_pages
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build/asan/stress

test-tsan:
	@$(call need,cmake,cmake)
	cmake -S . -B build/tsan -DLETHEVEC_NATIVE_TESTS=ON -DLETHEVEC_SANITIZE=thread
	cmake --build build/tsan --parallel $(JOBS)
	TSAN_OPTIONS=halt_on_error=1 build/tsan/stress

# The frameworks disagree about versions, so each has an environment of its own; the native core is that of .venv.
ENVIRONMENTS := build/environments
$(ENVIRONMENTS)/%/.installed: $(VENV)/.installed-test tools/environment.py tests/integrations/%/requirements.txt
	$(BIN)/python tools/environment.py $*
	@touch $@

# An adapter's tests, which hold the framework's own suite, the examples of its docstrings, and its page in docs.
$(addprefix test-,$(FRAMEWORKS)): test-%: $(ENVIRONMENTS)/%/.installed
	tools/test_integration.sh $*

test-integrations: $(addprefix test-,$(FRAMEWORKS))

# The tests that try at random, many times as long as in the suite: killed processes, power cuts, full disks, damaged
# files, histories, and readers beside a writer. About an hour on two cores; `make test-long TIMES=1` for a few minutes.
TIMES ?= 20
test-long: $(VENV)/.installed-test
	LETHEVEC_KILLS=$$((22 * $(TIMES))) $(BIN)/python -m pytest -n auto tests/store/test_crash.py tests/store/test_power_cut.py tests/store/test_killed_moves.py tests/collections/test_kills.py tests/collections/test_killed_backups.py tests/collections/test_power_cut.py
	LETHEVEC_PAGES=1 $(BIN)/python -m pytest tests/mounts
	LETHEVEC_FUZZ=$(TIMES) $(BIN)/python -m pytest -n auto tests/fuzz tests/store/test_damaged_stores.py tests/collections/test_damaged_catalog.py
	LETHEVEC_EXAMPLES=$(TIMES) $(BIN)/python -m pytest -n auto tests/properties tests/store/test_history.py
	LETHEVEC_SECONDS=$$((15 * $(TIMES))) $(BIN)/python -m pytest tests/store/test_readers.py

# The readers of snapshots and receipts by a coverage-guided fuzzer, each for so many seconds; what it finds is in build/fuzz.
FUZZ_SECONDS ?= 60
FUZZ := -max_total_time=$(FUZZ_SECONDS) -timeout=30 -rss_limit_mb=2048 -artifact_prefix=build/fuzz/ -verbosity=0 -print_final_stats=1
$(ENVIRONMENTS)/fuzz/.installed: $(VENV)/.installed-test tools/environment.py tests/fuzz/guided/requirements.txt
	$(BIN)/python tools/environment.py fuzz tests/fuzz/guided/requirements.txt
	@touch $@

fuzz: $(ENVIRONMENTS)/fuzz/.installed
	@mkdir -p build/fuzz
	$(ENVIRONMENTS)/fuzz/bin/python tests/fuzz/guided/readers.py snapshots build/fuzz/snapshots $(FUZZ)
	$(ENVIRONMENTS)/fuzz/bin/python tests/fuzz/guided/readers.py receipts build/fuzz/receipts $(FUZZ)

# The server under load for ten minutes, and killed fifty times, alone and with two readers. The suite has short versions of both.
SERVER_LOAD ?= --seconds 600 --workers 2
SERVER_CRASH ?= --kills 50
test-server-load: $(VENV)/.installed-test
	$(BIN)/python -m tests.server.load load $(SERVER_LOAD)

test-server-crash: $(VENV)/.installed-test
	$(BIN)/python -m tests.server.load crash --workers 0 $(SERVER_CRASH)
	$(BIN)/python -m tests.server.load crash --workers 2 $(SERVER_CRASH)

# The console in a browser. Chromium comes from Debian's packages where root may install them; without a browser every
# test is skipped, and says what is missing.
CONSOLE_TESTS := $(BIN)/python -m pytest -o addopts="--import-mode=importlib -q" -n auto
chromium:
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	  || { [ "$$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq install --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
	  || echo "no browser: sudo apt install chromium"

test-console: $(VENV)/.installed-test $(VENV)/.needs-browser chromium
	$(CONSOLE_TESTS) tests/console

# The pictures of docs/console.md are committed; this takes them again.
console-pictures: $(VENV)/.installed-test $(VENV)/.needs-browser chromium
	$(BIN)/python -m tests.console.pictures docs/console

console-demo: $(VENV)/.installed-server
	$(BIN)/python tools/console_demo.py build/console/people

# Chroma's own suite, from its wheel, against our server. tests/chroma/differences.txt says what differs, and why.
$(ENVIRONMENTS)/chroma-suite/.installed: tests/chroma/requirements.txt
	$(PYTHON) -m venv $(ENVIRONMENTS)/chroma-suite
	$(ENVIRONMENTS)/chroma-suite/bin/python -m pip install --quiet --requirement tests/chroma/requirements.txt
	@touch $@

test-chroma-suite: $(VENV)/.installed-test $(ENVIRONMENTS)/chroma-suite/.installed
	$(BIN)/python tests/chroma/run.py $(ENVIRONMENTS)/chroma-suite/bin/python $(CHROMA_MODULES)

# The cluster on Ray: several nodes on this machine, killed at random, and the memory of all processes searched.
# `make test-cluster CLUSTER_KILLS=100` for the long run, about a quarter of an hour.
CLUSTER_KILLS ?= 6
$(ENVIRONMENTS)/ray/.installed: $(VENV)/.installed-test tools/environment.py tests/ray/requirements.txt
	$(BIN)/python tools/environment.py ray tests/ray/requirements.txt
	@touch $@

test-cluster: $(ENVIRONMENTS)/ray/.installed
	LETHEVEC_CLUSTER_KILLS=$(CLUSTER_KILLS) $(ENVIRONMENTS)/ray/bin/python -m pytest -c tests/ray/pytest.ini --rootdir=. tests/ray

# `make bench BENCH='all --data FILE'` for more than a short run on the bundled words.
BENCH ?= all --quick
bench: $(VENV)/.installed-bench
	$(BIN)/python -m lethevec.bench $(BENCH)

clean:
	rm -rf build dist site $(VENV)/.installed-* $(VENV)/.needs-*
