# Two commands do all the set-up: `make demo` and `make test`. Both make their own environment in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test test-slow test-spark check format bench docs transcripts wheel clean

demo: $(READY)
	$(BIN)/python demo/flights.py

test: check
	$(BIN)/pytest -m "not slow" -n 2 --dist loadgroup

test-slow: $(READY)
	$(BIN)/pytest -m slow -n 2 --dist loadgroup --timeout 900 --tb short

test-spark: $(READY)
	$(BIN)/pip install --quiet --editable '.[test,spark]'
	$(BIN)/pytest tests/spark --timeout 900 --tb short

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/pytest tests/test_tidy.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python -m bench

docs: $(READY)
	$(BIN)/python docs/generate.py

transcripts: $(READY)
	$(BIN)/pytest tests --regenerate-transcripts -k transcript

wheel: $(READY)
	$(BIN)/pip wheel --no-deps --wheel-dir dist .

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Tailrace needs Python 3.11 or newer; set PYTHON=python3.12, say")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test]'
	$(BIN)/python -m compileall -q tailrace  # a broker starts in half the time where PYTHONDONTWRITEBYTECODE is set
	touch $(READY)

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
