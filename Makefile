# The front door. Meson and ninja do the work; `make help` lists the targets.

BUILD = build
PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
DIRS = --prefix='$(PREFIX)' --libdir='$(LIBDIR)'

PORT ?= 8808
FUZZ_SECONDS ?= 60
SOAK_FUZZ_SECONDS ?= 600
SOAK_OPERATIONS ?= 50000000
SOAK_SECONDS ?= 600

.DEFAULT_GOAL = build
.PHONY: build run picture test bench fuzz soak format reference install clean help setup

build: setup
	@test -f $(BUILD)/build.ninja || \
	    { meson setup $(BUILD) $(DIRS) && echo "$(DIRS)" >$(BUILD)/dirs; }
	@ninja -C $(BUILD)

run: build
	@scripts/run $(BUILD)/tidings '$(PORT)'

# What the README shows of it.
picture: build
	@scripts/picture $(BUILD)/tidings >$(BUILD)/run.svg
	@mv $(BUILD)/run.svg docs/run.svg

test:
	@scripts/setup test
	@scripts/test

bench: build
	@scripts/setup bench
	@scripts/setup-node >/dev/null
	@$(BUILD)/bench/engine --svg $(BUILD)/bench
	@$(BUILD)/bench/fanout --svg $(BUILD)/bench
	@$(BUILD)/bench/sources --svg $(BUILD)/bench
	@$(BUILD)/bench/client --svg $(BUILD)/bench
	@$(BUILD)/bench/abuse
	@echo 'Plots are in $(BUILD)/bench/*.svg.'

fuzz: setup
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_RUNS=-1 FUZZ_SEED=0 FUZZ_FOUND=build-fuzz/found \
	    scripts/test fuzz

# The large versions of what `make test` does small.
soak: build
	$(BUILD)/tests/sim --operations $(SOAK_OPERATIONS) --seed random
	SOAK_SECONDS=$(SOAK_SECONDS) tests/stress/soak.py
	tests/stress/oracle_test.py --seconds $(SOAK_SECONDS)
	tests/stress/reload_test.py --program $(BUILD)/tidings --seconds $(SOAK_SECONDS)
	tests/stress/folder_test.py --program $(BUILD)/tidings
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(SOAK_FUZZ_SECONDS)

format: setup
	@scripts/format

# What docs/config.md and the man page say about config files, from the program's tables.
reference: build
	@scripts/reference $(BUILD)/tidings

# The folders are written into the pkg-config file, so new ones configure again.
install: build
	@test "$$(cat $(BUILD)/dirs 2>&1)" = "$(DIRS)" || \
	    { meson configure $(BUILD) $(DIRS) && echo "$(DIRS)" >$(BUILD)/dirs; }
	@ninja -C $(BUILD)
	DESTDIR='$(DESTDIR)' meson install -C $(BUILD) --no-rebuild
	@test -n '$(DESTDIR)' || test "$$(id -u)" != 0 || ldconfig

clean:
	rm -rf build build-*

setup:
	@scripts/setup

help:
	@echo 'make            build the library, the program, examples, tests and benchmarks'
	@echo 'make run        build, serve examples/live on PORT (default $(PORT)), show every change in it'
	@echo 'make test       everything that has to pass; ends with one line of numbers'
	@echo 'make bench      build, then measure the engine, server and client beside others, the sources'
	@echo 'make fuzz       fuzz every parser for FUZZ_SECONDS each (default $(FUZZ_SECONDS))'
	@echo 'make soak       long simulation, 10,000 streams and random clients for SOAK_SECONDS, a folder of'
	@echo '                100,000 files, long fuzzing'
	@echo 'make format     format the C files in place'
	@echo 'make reference  write the options of config files into docs/ and man/'
	@echo 'make picture    draw what make run shows, for the README'
	@echo 'make install    install under PREFIX (default $(PREFIX)); DESTDIR is honoured'
	@echo 'make clean      remove everything that was built'
	@echo
	@echo 'scripts/test PART... runs some parts of the tests; scripts/test --list names them.'
