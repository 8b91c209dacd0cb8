# Everything here happens in .venv, .anabranch/demo and the cache (~/.cache/anabranch or $ANABRANCH_CACHE).
# As root missing Debian packages are installed; without root they are unpacked into the cache.

PYTHON = python3
VENV   = .venv
BIN    = $(VENV)/bin
EMPTY  = $(VENV)/.made
STAMP  = $(VENV)/.installed
# The compiled decoder: built where cargo is, and installed.
BUILT  = native/target/built
WHEEL  = $(VENV)/.wheel
NATIVE = $(VENV)/.native
RUST   = native/Cargo.toml native/Cargo.lock native/pyproject.toml $(wildcard native/src/*.rs)
ARGS   =
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Workers of the tests that speak to servers, which wait for a third of their time. Each has servers of its own, and Spark: 3 GB.
JOBS  := $(shell memory=`awk '/^MemTotal/ { print int($$2 / 3000000) }' /proc/meminfo 2>/dev/null`; \
  most=`expr $(CORES) + $(CORES) / 2`; [ "$${memory:-2}" -lt "$$most" ] && most=$${memory:-2}; [ "$$most" -gt 2 ] || most=2; echo $$most)
# Failed tests that are run once more at the end of `make test` (tests/second_run.py).
AGAIN  = $(VENV)/.second-run
BESIDE = $(VENV)/.beside
FAILED = $(VENV)/.failed
SEEDS  = 1..300
# The first of the six histories behind the tests: of all six in a row that restart or hold up nothing, those that meet most of what
# the slice in tests/torture does not.
BEHIND = 18253
TARGET = postgresql
# Tests that ask for the compiled code where it is installed also run as where it is not, as does a slice of torture. Not here,
# since they would only say the same again: tests that never ask, those that run with the Python decoder besides (`[python-…]`,
# tests/live/conftest.py), and those that compare both decoders. tests/unit/test_without_compiled.py checks the list.
WITHOUT = tests/unit/connectors/mysql/binlog/test_mysql_replay_reader.py \
  tests/unit/connectors/mysql/binlog/test_mysql_native_agrees.py::test_rule_26_what_cannot_be_converted_is_left_out_and_marked \
  tests/unit/connectors/mysql/test_mysql_native_lines.py \
  tests/unit/connectors/test_marked_transactions.py \
  tests/unit/connectors/test_minimal_connector.py::test_a_job_loads_from_it \
  tests/unit/connectors/test_postgresql_native_agrees.py::test_native_is_asked_for_and_missing \
  tests/unit/rows/test_fingerprint.py tests/unit/verify/test_verify_digest.py tests/unit/cli/test_command_line.py \
  tests/live/test_postgresql_fingerprint.py tests/live/test_postgresql_load_raw.py
# The Java runtime that the Spark tests use: found, or fetched.
JAVA   = $(BIN)/python -c 'import sys; sys.excepthook = lambda kind, error, at: print(error, file=sys.stderr); \
  from anabranch.testing.packages import find_java; print(find_java().parent.parent)'

.PHONY: help venv native demo check style types test test-unit test-servers test-faults torture torture-sites bench docs screenshots wheels clean \
  collected fetched part-unit part-servers part-beside part-python

help:
	@echo 'make demo         MariaDB -> PostgreSQL on private servers, from nothing to verified (ARGS="--seconds 20", "--forever", "--scenario dmz")'
	@echo 'make test         everything that CI runs; starts its own MariaDB, MySQL and PostgreSQL'
	@echo 'make test-unit    the tests without servers and Spark (seconds)'
	@echo 'make test-servers the decoder, the values and a whole job on MySQL 5.5, 5.6, 9, on clusters and PostgreSQL 11, 12, 15, 17; writes docs/reference/servers.md'
	@echo 'make test-faults  the long runs: processes killed in every phase, a full disk, every scenario with Spark'
	@echo 'make torture      histories with faults, on private servers: make torture SEEDS=1..3000 (TARGET=mysql, kafka, mysql-changes, …); keeps tests/torture/results-TARGET.json'
	@echo 'make torture-sites  histories of two active sites with faults, between four pairs of servers: make torture-sites SEEDS=1..250; keeps tests/torture/two-sites.json'
	@echo 'make bench        the figures of bench/README.md, each beside its ceiling and its peers (W=2 SIZE=full SOURCE=mysql TARGET=mysql); writes docs/explanation/performance.md'
	@echo 'make docs         the reference pages, from the code'
	@echo 'make screenshots  the pictures of the console in docs/howto/console, by the test that goes through all its pages'
	@echo 'make native       the compiled decoder of logs (native/) into .venv; needs cargo, which is installed where make runs as root'
	@echo 'make wheels       what a release consists of, into dist/: wheels for manylinux and musllinux (abi3), checked; needs cargo'
	@echo 'make venv         the virtual environment in .venv (PYTHON=python3.12 for another Python)'
	@echo 'make clean        remove .venv, caches and build results, and what killed test runs left in /dev/shm'

venv: $(STAMP)

$(EMPTY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'anabranch needs Python 3.11 or later, and $(PYTHON) is missing or older; name another one: make PYTHON=python3.12 …' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  package=`$(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'`; \
	  if [ "`id -u`" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing $$package"; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$package >/dev/null 2>&1 || { \
	      apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$package >/dev/null; }; \
	  else \
	    echo "$(PYTHON) cannot make a virtual environment: apt-get install $$package (as root)" >&2; exit 1; \
	  fi; }
	@$(PYTHON) -m venv $(VENV)
	@touch $(EMPTY)

$(STAMP): pyproject.toml | $(EMPTY)
	@echo 'installing anabranch and what it needs into $(VENV) (Spark is large: this takes a minute or two)'
	@printf '[bdist_wheel]\ncompression = stored\n' >$(VENV)/stored.cfg  # Spark comes as its source, of which pip makes a wheel
	@DIST_EXTRA_CONFIG="`pwd`/$(VENV)/stored.cfg" \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --editable '.[dev]'
	@$(BIN)/python -m compileall -q anabranch || true  # as an installed package is: where Python may write none, each start compiles all
	@touch $(STAMP)

# Where there is no cargo, root gets Debian's (cargo-web is Debian 12's newer one: 0.66 cannot read today's index); without either the Python decoder does everything, and tests say so.
native: $(NATIVE)

$(NATIVE): $(STAMP) $(WHEEL)
	@if ls $(BUILT)/*.whl >/dev/null 2>&1; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILT)/*.whl; \
	fi
	@touch $(NATIVE)

# It needs pip alone, so that cargo works while what the tests need is installed (`make --jobs=2`).
$(WHEEL): $(RUST) native/find-cargo.sh | $(EMPTY)
	@sh native/find-cargo.sh >/dev/null || { [ "`id -u`" = 0 ] && command -v apt-get >/dev/null && { \
	  echo 'installing cargo'; apt-get update -qq; \
	  for package in cargo-web cargo; do \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$package >/dev/null 2>&1 && break; \
	  done; }; } || true
	@rm -rf $(BUILT); mkdir -p $(BUILT)
	@if PATH="`sh native/find-cargo.sh 2>/dev/null`:$$PATH" && export PATH && \
	  cargo fetch --quiet --locked --manifest-path native/Cargo.toml 2>/dev/null; then \
	  echo 'building the compiled decoder'; \
	  CARGO_TARGET_DIR=$(CURDIR)/native/target \
	    $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(BUILT) ./native; \
	else \
	  echo 'THE COMPILED DECODER IS LEFT OUT: no cargo (1.70 or later) starts here, or crates.io cannot be reached. Python decodes;' \
	    'the header of the tests says so. apt-get install cargo, then: rm $(WHEEL); make native' >&2; \
	fi
	@touch $(WHEEL)

# Where cargo is at hand the compiled decoder is built meanwhile, with what the demo leaves of the processor, and installed behind it.
demo: $(STAMP)
	@if [ ! -f $(NATIVE) ] && cargo=`sh native/find-cargo.sh 2>/dev/null`; then \
	  rm -rf $(BUILT); PATH="$$cargo:$$PATH" CARGO_TARGET_DIR=$(CURDIR)/native/target \
	    nice -n 19 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(BUILT) ./native >/dev/null 2>&1 & \
	fi; \
	$(BIN)/anabranch demo $(ARGS); code=$$?; wait; \
	if ls $(BUILT)/*.whl >/dev/null 2>&1 && [ ! -f $(NATIVE) ]; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILT)/*.whl && touch $(WHEEL) $(NATIVE) && \
	  echo 'the compiled decoder has been built meanwhile: from now on capture uses it' >&2; \
	fi; exit $$code

check: style types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/lint-imports

# The parts go two at a time, each with a line of its own below. What part-beside prints comes behind the tests with servers.
test:
	@$(MAKE) --no-print-directory --jobs=2 style collected $(NATIVE)
	@rm -f $(AGAIN) $(FAILED)
	@$(MAKE) --no-print-directory --jobs=2 part-unit fetched
	@$(MAKE) --no-print-directory --jobs=2 part-servers part-beside; code=$$?; cat $(BESIDE); cat $(FAILED) 2>/dev/null; exit $$code
	ANABRANCH_COMPILED=off $(BIN)/anabranch torture --seed $(BEHIND) --histories 6 --workers $(CORES)
	@JAVA_HOME=`$(JAVA)` && export JAVA_HOME && $(BIN)/python tests/second_run.py $(AGAIN)

# What has changed since `make venv` is compiled, and all tests are collected once, so that their rewritten asserts are written
# down: else each of 1,000 processes, and each of seven workers, does that where none may write.
collected: $(STAMP)
	@$(BIN)/python -m compileall -q anabranch || true
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -qq --collect-only tests >/dev/null 2>&1 || true

# What the tests with servers need and would wait for; where something cannot be had, the tests that need it say so.
fetched: $(STAMP)
	@JAVA_HOME=`$(JAVA)` && export JAVA_HOME && $(BIN)/python -m anabranch.testing.fetch >/dev/null 2>&1 || true

part-unit: $(NATIVE)
	$(BIN)/python -m pytest -n $(CORES) --second-run $(AGAIN) --timeout 300 --durations=10 tests/unit

part-servers: $(NATIVE)
	JAVA_HOME=`$(JAVA)` && export JAVA_HOME && \
	  $(BIN)/python -m pytest -n $(JOBS) --second-run $(AGAIN) --dist worksteal --durations=25 --ignore=tests/unit tests $(ARGS) || \
	  { echo 'failed: tests with servers; their summary is above' >>$(FAILED); exit 1; }

# What speaks to hardly any server has the processor time that the tests with servers leave while they wait.
part-beside: $(NATIVE)
	@nice $(MAKE) --no-print-directory --keep-going types part-python >$(BESIDE) 2>&1 || \
	  { echo 'failed: types, or tests without compiled code; what they printed is above' >>$(FAILED); exit 1; }

part-python: $(NATIVE)
	ANABRANCH_COMPILED=off $(BIN)/python -m pytest --second-run $(AGAIN) $(WITHOUT)

# MySQL 5.5 and 5.6 by Maven, MySQL 9 from Debian sid, PostgreSQL 11 to 17: 600 MB to fetch the first time.
test-servers: $(STAMP)
	JAVA_HOME=`$(JAVA)` && export JAVA_HOME && \
	  $(BIN)/python -m pytest -m servers --durations=10 --servers-report=tests/servers/last_run.json \
	    tests/conformance tests/live tests/scenarios $(ARGS)
	$(BIN)/python docs/generate.py

test-unit: $(NATIVE)
	$(BIN)/python -m pytest --durations=10 tests/unit $(ARGS)

test-faults: $(STAMP)
	JAVA_HOME=`$(JAVA)` && export JAVA_HOME && \
	  $(BIN)/python -m pytest -m '' --durations=0 tests/faults $(ARGS) && \
	  $(BIN)/python -m pytest -m 'long or quick' --spark --durations=0 tests/scenarios tests/live tests/spark $(ARGS)

# No more than the seeds that are asked for; what they show goes into docs/explanation/torture.md. TARGET: postgresql, mysql, mariadb, kafka,
# and change tables: postgresql-changes, mysql-changes, mariadb-changes.
torture: $(STAMP)
	$(BIN)/anabranch torture --seed $(firstword $(subst .., ,$(SEEDS))) \
	  --histories `expr $(lastword $(subst .., ,$(SEEDS))) - $(firstword $(subst .., ,$(SEEDS))) + 1` \
	  --target $(TARGET) --workers $(CORES) --results tests/torture/results-$(TARGET).json $(ARGS)
	$(BIN)/python docs/generate.py

# The same of two active sites; what comes of each pair is kept as soon as it is through. PAIR: one of them ("mariadb and mysql").
torture-sites: $(STAMP)
	TWO_SITES=$(SEEDS) TWO_SITES_KEEP=tests/torture/two-sites.json $(if $(PAIR),TWO_SITES_ENDS="$(PAIR)") \
	  $(BIN)/python -m pytest -q -s -p no:cacheprovider tests/torture/test_torture_two_sites.py $(ARGS)
	$(BIN)/python docs/generate.py

# W: numbers of workloads (all), SIZE: reduced or full, SOURCE: of which kind (each). The pages are written in any case.
bench: $(NATIVE)
	@JAVA_HOME=`$(JAVA)` && export JAVA_HOME && \
	  $(BIN)/python -m bench $(W) $(if $(SIZE),--size $(SIZE)) $(if $(SOURCE),--source $(SOURCE)) $(if $(TARGET),--target $(TARGET)) --keep bench/results $(ARGS); \
	code=$$?; $(BIN)/python docs/generate.py && exit $$code

docs: $(STAMP)
	$(BIN)/python docs/generate.py

# The test writes them only when it is asked to: their times and positions differ each time.
screenshots: $(NATIVE)
	$(BIN)/python -m pytest -q tests/scenarios/test_scenario_console.py --screenshots docs/howto/console

# ARCH: x86_64 or aarch64. The wheels of macOS are built by .github/workflows/release.yml, which calls this for Linux.
wheels: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --editable '.[release]'
	@sh native/wheels.sh $(BIN) dist

clean:
	-@PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m anabranch.testing.places
	rm -rf $(VENV) native/target build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
	find anabranch tests docs bench -name __pycache__ -type d -prune -exec rm -rf {} +
