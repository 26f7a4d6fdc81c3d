# Two commands after a clone: `make demo` and `make test`. Each does all of its own set-up.
# A set-up is done once per environment and extra, and again when pyproject.toml changes. Modules are compiled by the
# first process that imports them: most are never imported.

VENV ?= .venv
BENCH_VENV ?= .venv-bench
DOCS_VENV ?= .venv-docs
PYTEST_ARGS ?= -n auto
LAW_SHARE ?= 0.1
LAW_SEED ?= 0
BENCH_ARGS ?=
VERSIONS ?= oldest newest
VERSION_TESTS ?= tests/core tests/xla_backend tests/lang tests/kernels tests/checkpoints tests/frontend/test_export.py \
    tests/triton_backend tests/mosaic_gpu tests/mosaic_tpu

# A process that may not keep compiled modules compiles all of them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo gpt gpt-sharded test test-all test-rest test-compilers test-targets test-versions test-gpu lint types layers \
    unit bench bench-gpu docs dist sbom clean

demo: $(VENV)/.installed-demo
	$(VENV)/bin/python examples/digits.py
	$(VENV)/bin/python examples/machine_code.py

# Trains a small language model on a book: a few minutes.
gpt: $(VENV)/.installed-demo
	$(VENV)/bin/python examples/gpt.py

# The same model on eight virtual devices, then on two processes of two, split in three ways, against one device.
gpt-sharded: $(VENV)/.installed-demo
	$(VENV)/bin/python examples/gpt_sharded.py
	$(VENV)/bin/tilewright launch -n 2 --devices 2 examples/gpt_sharded.py

PYTEST = $(VENV)/bin/python -m pytest $(PYTEST_ARGS)
DRAW = --law-share $(LAW_SHARE) --law-seed $(LAW_SEED)

# All tests written by hand, and a drawn share of each law that is stated of every operation.
test: lint types layers unit

# The same with every case of every law.
test-all: lint types layers
	$(PYTEST)

# The tests of `test-all` that `test` with the same share and seed leaves out.
test-rest: $(VENV)/.installed-test
	$(PYTEST) $(DRAW) --law-rest

lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .

types: $(VENV)/.installed-test
	$(VENV)/bin/pyright --threads --pythonpath $(VENV)/bin/python

layers: $(VENV)/.installed-test
	$(VENV)/bin/lint-imports

# The size of files, the guards of the layers and what may be imported are tests like any other.
unit: $(VENV)/.installed-test
	$(PYTEST) $(DRAW)

# The tests that were skipped when they last ran, with the compilers for GPUs and TPUs: no device is needed.
test-compilers: $(VENV)/.installed-test,cuda,tpu
	$(PYTEST) --skipped

# Everything for every TPU and GPU, through their own compilers: no device, but many minutes.
test-targets: $(VENV)/.installed-test,cuda,tpu
	$(PYTEST) -m targets

# A chosen set with the oldest and the newest supported jaxlib, Triton and libtpu, each in an environment of its own;
# VERSIONS=newest runs one of them. PYTHON=python3.13 sets them up with another interpreter.
.SECONDARY: $(VERSIONS:%=.venv-%/.installed-versions)
test-versions: $(VERSIONS:%=test-versions-%)

test-versions-%: .venv-%/.installed-versions
	.venv-$*/bin/python -m pytest $(PYTEST_ARGS) $(DRAW) $(VERSION_TESTS)

# On a machine with a GPU: numerics on the device. Without one every test skips itself.
test-gpu: $(VENV)/.installed-test,cuda
	$(PYTEST) -n 0 -m device

# The baseline is installed beside this package, in an environment of its own.
bench: $(BENCH_VENV)/.installed-bench
	$(BENCH_VENV)/bin/python -m benchmarks spine $(BENCH_ARGS)

# On a machine with a GPU, in an environment that has torch with CUDA: BENCH_VENV names one that is to be set up,
# GPU_PYTHON an interpreter that has all that is needed.
bench-gpu: $(if $(GPU_PYTHON),,$(BENCH_VENV)/.installed-cuda)
	PYTHONPATH=src:. $(or $(GPU_PYTHON),$(BENCH_VENV)/bin/python) -m benchmarks.gpu $(BENCH_ARGS)

# The documentation as a site in build/site, which needs no server: open build/site/index.html.
docs: $(DOCS_VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(DOCS_VENV)/bin/mkdocs build --strict

# The wheel and the sdist, each tried in an empty environment.
dist:
	PYTHON="$(PYTHON)" sh .ci/dist

# What is installed beside this package, with versions and licences, as CycloneDX.
sbom: $(VENV)/.installed-test
	$(VENV)/bin/python .ci/sbom.py dist/sbom.json

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(DOCS_VENV) $(VERSIONS:%=.venv-%) .venv-dist .venv-try build dist \
	    src/tilewright.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache

comma := ,

define install
	@set -e; \
	if ! [ -x $(@D)/bin/python ]; then \
	    python=$$(PYTHON="$(PYTHON)" sh .ci/find-python); \
	    echo "setting up $(@D) with $$python"; \
	    "$$python" -m venv $(@D); \
	fi; \
	echo "installing tilewright[$(1)] and what it needs into $(@D)"; \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(2) --editable ".[$(1)]"; \
	touch $@
endef

$(VENV)/.installed-%: pyproject.toml
	$(call install,$*)

$(BENCH_VENV)/.installed-%: pyproject.toml
	$(call install,$*)

$(DOCS_VENV)/.installed-%: pyproject.toml
	$(call install,$*)

.venv-%/.installed-versions: .ci/versions/%.txt pyproject.toml
	$(call install,test$(comma)cuda$(comma)tpu,--constraint $<)
