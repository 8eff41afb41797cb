# make run: set up, then the demo.  make test: set up, then every test.  make check: lint, types, layers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
STAMP := $(VENV)/.installed

.PHONY: install run test lowest rooms restorable walk docs check slow draws fuzz mutants bench clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Penstock needs Python 3.11 or later, found %d.%d" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

run: install
	$(BIN)/penstock demo

# The same cases in every run: `make draws` draws others. Three processes on two cores: the one with the tests of Spark waits for most of its time.
test: install
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m 'not slow'

# Every test with the lowest versions that pyproject.toml allows.
lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tests/lowest.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/lowest.txt -e '.[dev]'
	$(LOWEST)/bin/python -m pytest -n 3 --dist loadgroup -m 'not slow'

slow: install
	$(BIN)/python -m pytest -m slow

# Cases that nobody has drawn before, for so long; what fails becomes a named case: make draws MINUTES=60
MINUTES ?= 10
TIMES ?= 1
TESTS ?= tests
draws: install
	PYTHONPATH=tests $(BIN)/python -m draws.main --minutes $(MINUTES) --times $(TIMES) $(TESTS)

# Engines driven through everything at once, asked at many instants what DuckDB says: make fuzz DRAWS=20000
DRAWS ?= 1000
FAILURES ?= 1
fuzz: install
	PYTHONPATH=tests:tests/help:tests/laws $(BIN)/python -m fuzz.main --draws $(DRAWS) --failures $(FAILURES) $(if $(SEED),--seed $(SEED))

# Wrong versions of the engine that some test ought to notice, a new sample each time: make mutants SAMPLE=300
SAMPLE ?= 40
mutants: install
	PYTHONPATH=tests $(BIN)/python -m mutants.main --sample $(SAMPLE)

# docs/rooms.md from the heads of rooms and modules.
rooms: install
	$(BIN)/python docs/write_rooms.py

# The site of docs/, into build/site; nothing else needs what this installs.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

# What a checkpoint may hold, anew, when a class of the engine's state has changed: make restorable SEEN=tests/checkpoints/test_checkpoint.py
# also looks at what engines of these tests hold.
restorable: install
	PYTHONPATH=tests:tests/help:tests/laws $(BIN)/python tests/write_restorable.py $(SEEN)

# The files that one push passes, and how often it goes from one to another.
walk: install
	$(BIN)/python -m penstock.bench.walk

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/write_rooms.py --check

bench: install
	$(BIN)/penstock bench

clean:
	rm -rf $(VENV) $(LOWEST) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
