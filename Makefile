# Every target sets up all that it needs: a virtual environment in .venv, and a second one with Hermes in .venv-hermes.
# PYTHON picks the interpreter (3.11 to 3.13); everything else is installed at the versions in constraints.txt.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
HERMES := .venv-hermes
FIT    := .venv-fit
KERNEL := src/strongroom/engines/lexical/_kernel.c
# One more than a small machine has cores: tests wait for processes and disks a third of their time.
WORKERS ?= 3

.DEFAULT_GOAL := test
.PHONY: test test-long test-s3 test-ceph check check-code check-pages bench fit demo generators vectors format clean

test: $(READY) $(HERMES)/.ready  ## run the tests
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not long"

test-long: $(READY) $(HERMES)/.ready  ## run the tests with the large counts, and the properties with newly drawn examples
	$(BIN)/python -m pytest -q -m "long or hypothesis" --hypothesis-profile=drawn

test-s3: $(READY)  ## run the S3 tests on SeaweedFS, installed into .cache
	$(BIN)/python -m tests.s3.install seaweedfs rclone
	STRONGROOM_TEST_S3=seaweedfs $(BIN)/python -m pytest -q -m "not long" tests/s3

test-ceph: $(READY)  ## run the S3 tests on Ceph, from Debian's packages: 3 mons, 3 OSDs, 2 gateways, some of them killed
	$(BIN)/python -m tests.s3.install ceph rclone
	STRONGROOM_TEST_S3=ceph $(BIN)/python -m pytest -q tests/s3 --ignore tests/s3/test_moving_many.py

check: $(READY) $(HERMES)/.ready  ## style, types, import rules, names, messages, generated pages, and the core next to Hermes
	@$(MAKE) --no-print-directory -j2 check-code check-pages

check-code:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_names.py
	$(BIN)/python scripts/check_commits.py
	$(BIN)/mypy

check-pages:
	$(HERMES)/bin/python scripts/beside_hermes.py
	$(HERMES)/bin/python scripts/make_conformance_report.py --check
	$(BIN)/python scripts/make_cli_reference.py --check
	$(BIN)/python scripts/make_http_reference.py --check
	$(BIN)/python scripts/make_openapi.py --check
	$(BIN)/python scripts/make_pictures.py --check
	$(BIN)/python scripts/walk.py --check

bench: $(READY) $(HERMES)/.ready  ## measure, each figure beside its baseline
	$(BIN)/python -m bench

fit: $(FIT)/.ready  ## fit the weights of the default engine and cross-validate them; WRITE=1 writes them
	$(FIT)/bin/python -m bench.fit $(if $(WRITE),--write)

demo: $(READY) $(HERMES)/.ready  ## see recalls, denials, tampering found, forgetting, a server, a fleet on S3, hosted providers, Hermes
	$(BIN)/python -m tests.s3.install seaweedfs
	$(BIN)/python -m harness.beside_seaweedfs $(BIN)/python -m demo --require-extras --hermes $(HERMES)/bin/python

generators: $(READY)  ## generate clients from docs/openapi.json with two generators, and use them; needs npm
	$(BIN)/python scripts/try_generators.py

vectors: $(READY)  ## write the test vectors anew
	$(BIN)/python scripts/make_vectors.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt scripts/setup.sh hatch_build.py $(KERNEL)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV) -e ".[dev,hermes,host,mcp,s3,server]"

# Hermes pins its own versions, so the core must live with those: no constraints here.
$(HERMES)/.ready: pyproject.toml scripts/setup.sh hatch_build.py $(KERNEL)
	@PYTHON="$(PYTHON)" UNPINNED=1 sh scripts/setup.sh $(HERMES) -e ".[hermes]" "hermes-agent==0.19.0" "aiohttp==3.14.1"

# Fitting needs numpy and scipy, which nothing else here does.
$(FIT)/.ready: pyproject.toml constraints.txt scripts/setup.sh hatch_build.py $(KERNEL)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(FIT) -e . numpy scipy

clean:
	rm -rf $(VENV) $(HERMES) $(FIT) $(KERNEL:.c=.abi3.so)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
