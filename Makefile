# Every target builds what it needs: a fresh checkout needs only Python 3.11 or newer and make.
#
#   make demo      a network compiled and run, and the algebra at work
#   make test      the quick suite            make test-all   with the slow tests too
#   make test-mpi  what takes several ranks: 2 and 4 processes on this machine
#   make test-gpu  what needs an NVIDIA GPU, with the Python that is there
#   make sanitize-gpu  one kernel of each kind under compute-sanitizer
#   make fuzz      long random testing        make lint       ruff and mypy
#   make bench     against the pinned peers   make clean      remove everything built
#   make onnx      all of ONNX's own test cases, as machine code
#   make docs      the site, into build/site   (strictly; offline; its search wants a server: python -m http.server -d build/site)
#   make native    the C of planish/runtime/native again as LLVM IR and machine code (takes clang and opt of LLVM 14), and the routines as machine code
#   make page      the page of `planish viz` again from web/ (takes Node and npm)
#   make pictures  those of it in the documents (takes Chromium)
#   make replay    what a change does to generated code; make replay UPDATE=1 accepts it

PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.installed-run
DEV := .venv/.installed-dev
BENCH := .venv/.installed-bench
DOCS := .venv/.installed-docs
# Long random testing takes this seed, so that a failure can be repeated.
SEED ?= 0

.DELETE_ON_ERROR:
.PHONY: demo test test-all test-mpi test-gpu sanitize-gpu fuzz onnx lint bench native page pictures replay docs clean

# The pip that is there installs into the environment, which is ready in a moment without one of its own.
HAS_PIP := $(shell $(PYTHON) -m pip --python "$$(command -v $(PYTHON))" --version 2> /dev/null)
PIP := $(if $(HAS_PIP),$(PYTHON) -m pip --python $(BIN)/python,$(BIN)/python -m pip) install --quiet --disable-pip-version-check

$(BIN)/python:
	$(PYTHON) -m venv $(if $(HAS_PIP),--without-pip) .venv

# What the package needs to run, as pyproject.toml says it; nothing is built for it.
$(RUN): pyproject.toml | $(BIN)/python
	$(PIP) --no-compile $$($(BIN)/python -c \
	  'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"])')
	touch $@

# The extras change only with pyproject.toml; the package itself is installed editable.
$(DEV): pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	touch $@

$(BENCH): pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev,bench]'
	touch $@

$(DOCS): pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	touch $@

demo: $(RUN)
	PYTHONPATH=. $(BIN)/python examples/demo.py

test: $(DEV)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

test-all: $(DEV)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not fuzz and not gpu and not mpi"

# Each test starts its own ranks.
test-mpi: $(DEV)
	$(BIN)/python -m pytest -q -m mpi tests/distributed

# On a machine with a GPU, with the Python that is there: it has the driver's packages.
test-gpu:
	PYTHONPATH=. $(PYTHON) -m tests.gpu.shards

# One kernel of each kind under compute-sanitizer, which comes with the CUDA toolkit.
sanitize-gpu:
	PYTHONPATH=. $(PYTHON) -m tests.gpu.sanitized

fuzz: $(DEV)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -q -m fuzz --hypothesis-seed=$(SEED)

onnx: $(DEV)
	$(BIN)/python tests/onnx/onnx_suite.py

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Pages of stages, rules and the API are made from the source while the site is built.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

native: $(RUN)
	PYTHONPATH=. $(BIN)/python tools/native.py
	PYTHONPATH=. $(BIN)/python tools/routines.py

# npm installs exactly what package-lock.json says; that is asked again only when it has changed.
web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	touch $@

page: web/node_modules/.package-lock.json
	cd web && npm run build

pictures: $(DEV)
	$(BIN)/python tools/pictures.py

replay: $(DEV)
	$(BIN)/python tools/replay.py $(if $(UPDATE),--update) $(if $(ONLY),--only '$(ONLY)')

# Each script prints its table and leaves its rows as JSON; report.py and the programs they run on are what they share.
bench: $(BENCH)
	mkdir -p bench/results
	set -e; for script in $(filter-out bench/report.py bench/%_programs.py bench/%_layers.py bench/onnx_packages.py,$(wildcard bench/[a-z]*.py)); do \
	  $(BIN)/python $$script --json bench/results/$$(basename $$script .py).json; \
	done

clean:
	rm -rf .venv build dist web/node_modules *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find planish tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
