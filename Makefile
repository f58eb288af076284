# `make demo` and `make test` do all their own set-up in .venv; nothing else needs to be installed but Python.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.10 || command -v python3)
VENV := .venv
THESIS_VENV := .venv-thesis
ORACLE_VENV := .venv-oracles
DOCS_VENV := .venv-docs
PIP_FLAGS := --quiet --disable-pip-version-check
TESTED := dev,heif,oracles,serve,tune,keras-hub,mlflow-server,postgres,wandb
ORACLE_TESTS := $(addprefix tests/common/backbones/, \
  torch_oracles_test.py vision_transformer_test.py) tests/experiments/preparation/converted_weights_test.py \
  tests/benchmarks/input_pipeline_test.py tests/benchmarks/peer_losses_test.py
THESIS_TESTS := $(addprefix tests/, conformance gsp_dml ccp_dml milbich_dml experiments/runs experiments/settings/build_test.py experiments/fair_eval_test.py) \
  $(addprefix tests/common/, backbones deployment losses miners ops pooling references retrieval/search training keras_classes_test.py) \
  $(addprefix tests/common/data/, $(addsuffix _test.py, images image_files image_formats input_pipeline views))
# A file stays together, for its fixtures train once; `tests/conftest.py` puts those with slow tests first.
PYTEST := -m pytest -n 3 --dist loadfile --no-loadscope-reorder
# Three workers fill two cores: tests wait for servers and processes of theirs, and threads of libraries for one another.
ONE_THREAD := TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# Programs that run once: most of their time is the compiler's, and a third of that of graphs is TensorFlow's optimiser's
# (tests/support/command_server.py). `make test-release` has both as users do.
QUICKLY_COMPILED := XLA_FLAGS=--xla_backend_optimization_level=0
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Modules are compiled once: a process that compiles TensorFlow's again needs 14 seconds more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-gpu test-release lint format test-thesis test-oracles docs environments clean

# A loss alone, with a memory and with CCP, on half of the emoji; the other half is searched. A second run only reports.
demo: $(VENV)/.installed
	$(VENV)/bin/python -m experiments.demo

test: $(VENV)/.installed-dev
	$(ONE_THREAD) $(QUICKLY_COMPILED) $(VENV)/bin/python $(PYTEST)

# Whole cross products, before a release: `make test` runs samples of them.
test-release: $(VENV)/.installed-dev
	$(ONE_THREAD) $(VENV)/bin/python $(PYTEST) -m release

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/hadolint Dockerfile
	$(VENV)/bin/python tools/check_tree.py
	$(VENV)/bin/mypy common gsp_dml ccp_dml milbich_dml deep_metric_learning experiments photo_search tests/support/planted_type_errors.py

format: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# What the stack can change: layers, losses and their training, searches, runs, and a command. Of a test with many cases
# one in five: the tests of a file take turns, so that each loss and each pooling still meets several of them.
# `make test-thesis SAMPLE=1` runs all cases, before a release.
SAMPLE ?= 5
test-thesis: $(THESIS_VENV)/.installed-dev
	$(ONE_THREAD) $(QUICKLY_COMPILED) $(THESIS_VENV)/bin/python $(PYTEST) --sample=$(SAMPLE) -m "not default_stack and not release" $(THESIS_TESTS)

# Backbones and losses against PyTorch's; here a missing oracle is a failure, not a skipped test.
test-oracles: $(ORACLE_VENV)/.installed
	REQUIRE_ORACLES=1 TF_NUM_INTRAOP_THREADS=1 $(ORACLE_VENV)/bin/python -m pytest $(ORACLE_TESTS)

# Layers, losses and their training on a GPU, one test at a time; without one it fails, saying so.
test-gpu: $(VENV)/.installed-dev
	@$(VENV)/bin/python -c 'import tensorflow as tf; exit(not tf.config.list_physical_devices("GPU"))' \
	  || { echo "TensorFlow sees no GPU: no test ran. dml doctor names the likely reason." >&2; exit 1; }
	TF_FORCE_GPU_ALLOW_GROWTH=true $(VENV)/bin/python -m pytest $(addprefix tests/, conformance gsp_dml ccp_dml common/ops)

# The site, in build/site; a warning is an error.
docs: $(DOCS_VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet --strict

$(DOCS_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install $(PIP_FLAGS) 'pip>=25.1'
	$(DOCS_VENV)/bin/python -m pip install $(PIP_FLAGS) --group docs
	touch $@

$(VENV)/.installed: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -r requirements.txt
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed pyproject.toml
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -r requirements.txt -e '.[$(TESTED)]'
	touch $@

$(THESIS_VENV)/.installed-dev: constraints/thesis.txt pyproject.toml
	$(PYTHON) -m venv $(THESIS_VENV)
	$(THESIS_VENV)/bin/python -m pip install $(PIP_FLAGS) -r constraints/thesis.txt -e '.[dev]'
	touch $@

# PyTorch on top of the default stack, which is not installed again.
$(ORACLE_VENV)/.installed: $(VENV)/.installed-dev constraints/oracles.txt constraints/peers.txt
	$(PYTHON) -m venv $(ORACLE_VENV)
	stack=$$(realpath $(VENV)/lib/python*/site-packages) && cd $(ORACLE_VENV)/lib/python*/site-packages \
	  && echo "$$stack" >default_stack.pth
	$(ORACLE_VENV)/bin/python -m pip install $(PIP_FLAGS) -r constraints/oracles.txt \
	  || { echo "PyTorch could not be installed: the oracle tests of the backbones did not run." >&2; exit 1; }
	$(ORACLE_VENV)/bin/python -m pip install $(PIP_FLAGS) --no-deps -r constraints/peers.txt \
	  || { echo "torchvision, timm, pretrainedmodels or pytorch-metric-learning could not be installed: the oracle tests did not run." >&2; exit 1; }
	$(ORACLE_VENV)/bin/python -c "import torch"
	touch $@

# All that the targets above install, so that `.ci/run` can have it done while tests run.
environments: $(VENV)/.installed-dev $(THESIS_VENV)/.installed-dev $(ORACLE_VENV)/.installed $(DOCS_VENV)/.installed

clean:
	rm -rf $(VENV) $(THESIS_VENV) $(ORACLE_VENV) $(DOCS_VENV) build *.egg-info
