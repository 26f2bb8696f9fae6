# Everything runs in .venv, which is set up on first use and again when its inputs change.
# PYTHON=python3.12 picks the interpreter, JOBS the test processes, ARGS goes to pytest or the
# benchmark: make test ARGS="-k pau"

PYTHON ?= python3
JOBS ?= 2
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq -c constraints.txt

# Where there is a compiler a native library that does not build is an error; without one the
# checks run on the plain PyTorch path. PADENET_REQUIRE_NATIVE=0 lets a broken build pass.
PADENET_REQUIRE_NATIVE ?= $(shell command -v "$${CXX:-c++}" >/dev/null && echo 1 || echo 0)
export PADENET_REQUIRE_NATIVE

.PHONY: help demo test check lint types format bench reports clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.ready ## train on the embedded digits and write a report
	@$(BIN)/padenet sweep demo --out runs/demo --jobs $(JOBS)
	@$(BIN)/padenet report runs/demo --out runs/demo-report

check: .venv/.complete lint types test ## lint, types and all tests: what CI runs

test: .venv/.installed ## run the tests
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

lint: .venv/.installed ## ruff: rules and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

types: .venv/.installed ## mypy on src
	@$(BIN)/mypy --no-error-summary

format: .venv/.installed ## let ruff format and fix what it can
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

bench: .venv/.installed ## measure the CPU kernels
	@$(BIN)/python benchmarks/cpu.py $(ARGS)

reports: .venv/.ready ## figures, tables and pages of the recorded runs, in runs/reports
	@$(BIN)/python tools/reports.py $(ARGS)

clean: ## remove builds and caches; the next make rebuilds the native library
	@rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .venv/.ready .venv/.installed .venv/.complete
	@rm -f src/padenet/*padenet_native.*
	@find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Editable, so edits under src/ count at once; C++ edits come through the prerequisites.
# Without build isolation, so a rebuild takes seconds and needs no network.
# .ready has what the commands need, .installed what development needs besides, .complete what
# every test needs. Each is one install, for each compiles the native library.
SOURCES := pyproject.toml CMakeLists.txt constraints.txt $(wildcard native/*)

define install
@echo "installing into .venv (the first time takes a minute or two)"
@$(PYTHON) -m venv .venv
@$(PIP) cmake ninja scikit-build-core
@$(PIP) --no-build-isolation -e ".[$(1)]"
endef

.venv/.ready: $(SOURCES)
	$(call install,train)
	@touch $@

.venv/.installed: $(SOURCES)
	$(call install,dev)
	@touch .venv/.ready $@

.venv/.complete: $(SOURCES)
	$(call install,ci)
	@touch .venv/.ready .venv/.installed $@

.NOTPARALLEL: # the installs share .venv; compiling and testing use all cores by themselves
