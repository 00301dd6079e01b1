# SPDX-License-Identifier: Apache-2.0
# Every target first makes the environment if it is missing or out of date. No target needs root.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= # an interpreter of Python 3.11 to 3.13; if empty, the first of 3.11, 3.12 and 3.13 on PATH, or a 3.11 that uv fetches
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)
MODEL    ?= facile
PLATFORM ?= u250
WHOLE    ?= all# which of the tests with the mark `whole` run in test-all: all, or changed (those that have not passed on these files)
LINTS    := lint-style lint-types lint-imports lint-rtl lint-cpp
TORCH    := .venv-torch
TORCH_PACKAGES := torch==2.13.0 brevitas==0.13.4 onnx==1.23.2 onnxscript==0.7.2 onnxoptimizer==0.4.2 onnxruntime==1.32.0 qonnx==1.0.0
# Container images often set this. Each process would then compile TensorFlow's Python again, which takes longer than its import.
unexport PYTHONDONTWRITEBYTECODE
# uv trusts the certificates of the system, if it has any, as git and Debian's pip do: a site may have an authority of its own.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt),)
export UV_SYSTEM_CERTS ?= 1
endif

.PHONY: help dev dev-hgq dev-torch test-torch run needs check fast test-quick test test-all test-serving wheel lint $(LINTS) deploy-check serve bitstream ecpix5 gate-level bench formal timing docs lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

dev: $(STAMP) ## make the environment in .venv/, exactly as locked

$(STAMP):
	@rm -f $(VENV)/.stamp-*
	@bash deploy/tools.sh run
	@PYTHON="$(strip $(PYTHON))" bash deploy/environment.sh $(VENV) "$$(sed -n 's/^\(uv==[0-9.]*\).*/\1/p' requirements.lock)"
	@echo "installing the locked environment into $(VENV)/ ..."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

dev-hgq: $(STAMP) ## install HGQ2 into the cache, for models of HGQ2; otherwise the first such model does
	@$(BIN)/python -m hypersonic.hls.frontend.hgq

dev-torch: $(STAMP) ## make the environment .venv-torch/ with PyTorch and Brevitas, for models of these and for test-torch
	@test -x $(TORCH)/bin/python || $(BIN)/python -m venv $(TORCH)
	@echo "installing torch and Brevitas into $(TORCH)/ ..."
	@$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH_PACKAGES)
	@echo "export HYPERSONIC_TORCH_PYTHON=$(CURDIR)/$(TORCH)/bin/python"

test-torch: dev-torch ## test the conversion of PyTorch modules, which no other target does: about 5 minutes on two cores
	HYPERSONIC_TORCH_PYTHON=$(CURDIR)/$(TORCH)/bin/python $(BIN)/python -m pytest tests/torch

lint: $(STAMP) ## check style, types, imports, RTL and C++
	@$(MAKE) --no-print-directory --output-sync=target -j$(words $(LINTS)) $(LINTS)

lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-types:
	$(BIN)/mypy

lint-imports:
	$(BIN)/lint-imports

lint-rtl:
	$(BIN)/python -m hypersonic.sim.lint
	$(BIN)/python -m hypersonic.sim.elaborate tests/f2/cl_ports.vh
	$(BIN)/python -m hypersonic.sim.vivado

lint-cpp:
	$(BIN)/python -m tests.support.cpp_lint

needs:
	@bash deploy/tools.sh test $(VENV)

check: needs lint fast ## run lint and the fast tests, for every change: about 3 minutes on two cores

fast: $(STAMP) ## run the fast tests
	$(BIN)/python -m pytest -m "not slow"

test-quick: needs lint ## run lint and all tests but the longest: about 10 minutes on two cores
	$(BIN)/python -m pytest -m "not long"

test: ## run lint and the tests, those of slow parts only if these have changed: about half an hour on two cores, with empty caches
	@echo "make test: lint and the tests, about half an hour on two cores with empty caches; make test-quick takes 10 minutes, make check 3"
	@$(MAKE) --no-print-directory needs lint
	$(BIN)/python -m pytest --whole=changed -m "not hours"

test-all: needs lint ## run lint and all tests, with the builds of the whole zoo: some hours on two cores with empty caches
	$(BIN)/python -m pytest --whole=$(WHOLE)

test-serving: ## test the client and the server from a wheel, on any Python: make test-serving PYTHON=python3.14
	@bash deploy/test_serving.sh $(or $(strip $(PYTHON)),python3)

wheel: ## build the source distribution and the wheel into build/dist/, and check them with twine: make wheel PYTHON=python3.11
	@bash deploy/wheel.sh $(or $(strip $(PYTHON)),python3)

deploy-check: $(STAMP) ## render, validate and run what is in deploy/, and compare the planner with the published figures
	$(BIN)/python -m pytest --whole=all -m "not hours" tests/deploy tests/end_to_end/test_prometheus.py
	$(BIN)/hypersonic plan --check
	$(BIN)/python -m bench.plan_servers

run: $(STAMP) ## build FACILE for hw_emu, serve it, send events, check every answer, show figures and a picture
	@$(BIN)/hypersonic run $(MODEL) --target hw_emu --model-repository models --output result

serve: $(STAMP) ## serve models/ (ports 8000 HTTP, 8001 gRPC, 8002 metrics)
	$(BIN)/hypersonic serve --model-repository models

bitstream: $(STAMP) ## build the hw xclbin of MODEL for PLATFORM, with the vendor's tools
	$(BIN)/hypersonic build $(MODEL) --target hw --platform $(PLATFORM)

ecpix5: $(STAMP) ## build the example for an ECPIX-5 with open tools (examples/ecpix5)
	$(BIN)/python -m examples.ecpix5.build build/ecpix5

gate-level: $(STAMP) ## simulate Yosys' netlists of kernels, cores and rf modules: a quarter of an hour or more
	$(BIN)/python -m pytest --gate-level $(wildcard sim/tb/rf_*)
	$(BIN)/python -m pytest --whole=all tests/sim/test_gate_level.py

bench: $(STAMP) ## measure the kernel and the server
	$(BIN)/hypersonic bench

formal: $(STAMP) ## prove the RTL between host, memory and network, and the stages of rf cores (docs/formal.md)
	$(BIN)/python -m hypersonic.firmware.formal.prove

timing: $(STAMP) ## route each module of the RTL on an ECP5 and update the ledger (docs/timing.md): some hours without the cache
	$(BIN)/python -m hypersonic.sim.timing --changed --rank

docs: $(STAMP) ## build the documentation site, build/docs/index.html, and execute its notebooks
	$(BIN)/sphinx-build -W --keep-going -q docs build/docs
	@echo "open build/docs/index.html"

lock: $(STAMP) ## update requirements.lock from pyproject.toml, and the hashes in the locked requirements below tests/ and examples/
	$(BIN)/uv pip compile pyproject.toml --extra build --extra triton --extra columnar --extra onnxruntime --extra trace --extra jwt --group dev --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links --quiet --output-file requirements.lock
	$(BIN)/python -m tests.support.lock

clean: ## remove what was built here, except the cache of long builds and build/bitstream
	@test ! -d build || find build -mindepth 1 -maxdepth 1 ! -name bitstream -exec rm -rf {} +
	rm -rf result models .mypy_cache .ruff_cache .pytest_cache
