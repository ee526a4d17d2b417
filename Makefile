# The usual entry points. Meson and ninja do the work; `make help` lists the targets.

BUILD = build
PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
DIRS = -Dprefix='$(PREFIX)' -Dlibdir='$(LIBDIR)'
# What developers build in addition to the program.
ALL = -Dtests=true -Dbench=true -Dwerror=true
PROGRAMS =# that `make all` builds; none: all of them

PORT ?= 8808
FUZZ_SECONDS ?= 60
SOAK_FUZZ_SECONDS ?= 600
SOAK_OPERATIONS ?= 50000000
SOAK_SECONDS ?= 600
SOAK_TIMES ?= 50

.DEFAULT_GOAL = build
.PHONY: build run all examples picture test coverage bench fuzz soak format reference install
.PHONY: clean help setup

# The program, the libraries, and nothing else.
build: setup
	@test -f '$(BUILD)/build.ninja' || scripts/configure '$(BUILD)' $(DIRS)
	@ninja -C '$(BUILD)' installed

run: build
	@scripts/run '$(BUILD)/tidings' '$(PORT)'

all:
	@scripts/setup test
	@test -f '$(BUILD)/build.ninja' || scripts/configure '$(BUILD)' $(DIRS) $(ALL)
	@scripts/configure '$(BUILD)' $(ALL)
	@ninja -C '$(BUILD)' $(PROGRAMS)

examples: build
	@ninja -C '$(BUILD)' example-programs

# What the README shows of it.
picture: build
	@scripts/picture '$(BUILD)/tidings' >'$(BUILD)/run.svg'
	@mv '$(BUILD)/run.svg' docs/run.svg

test:
	@scripts/setup test fuzz format
	@scripts/test

# Which lines the unit tests run, room by room.
coverage:
	@scripts/setup test coverage
	@scripts/coverage

bench:
	@scripts/setup bench
	@test -f '$(BUILD)/build.ninja' || scripts/configure '$(BUILD)' $(DIRS) -Dbench=true
	@scripts/configure '$(BUILD)' -Dbench=true
	@ninja -C '$(BUILD)' installed bench-programs
	@scripts/setup-node >/dev/null
	@'$(BUILD)/bench/engine' --svg '$(BUILD)/bench'
	@'$(BUILD)/bench/fanout' --svg '$(BUILD)/bench'
	@'$(BUILD)/bench/sources' --svg '$(BUILD)/bench'
	@'$(BUILD)/bench/client' --svg '$(BUILD)/bench'
	@'$(BUILD)/bench/abuse'
	@echo 'Plots are in $(BUILD)/bench/*.svg.'

fuzz:
	@scripts/setup fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_RUNS=-1 FUZZ_SEED=0 FUZZ_FOUND=build-fuzz/found \
	    scripts/test long-fuzz

# Long versions of what `make test` runs, and what it leaves out.
soak: all
	'$(BUILD)/tests/sim' --operations $(SOAK_OPERATIONS) --seed random
	TDG_LONG=$(SOAK_TIMES) meson test -C '$(BUILD)' --suite chance --timeout-multiplier 0
	SOAK_SECONDS=$(SOAK_SECONDS) tests/stress/soak.py
	tests/stress/oracle_test.py --seconds $(SOAK_SECONDS)
	tests/stress/reload_test.py --program '$(BUILD)/tidings' --seconds $(SOAK_SECONDS)
	tests/stress/folder_test.py --program '$(BUILD)/tidings'
	scripts/test plain-unit plain-interop plain-conformance
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(SOAK_FUZZ_SECONDS)

format:
	@scripts/setup format
	@scripts/format

# What docs/config.md and the man page say about config files, from the program's tables.
reference: build
	@scripts/reference '$(BUILD)/tidings'

# The folders are written into the pkg-config file, so new ones configure again.
install: setup
	@scripts/configure '$(BUILD)' $(DIRS)
	@ninja -C '$(BUILD)' installed
	DESTDIR='$(DESTDIR)' meson install -C '$(BUILD)' --no-rebuild
	@test -n '$(DESTDIR)' || test "$$(id -u)" != 0 || ldconfig

clean:
	rm -rf build build-*

setup:
	@scripts/setup

help:
	@echo 'make            build the program and the libraries'
	@echo 'make run        build, serve examples/live on PORT (default $(PORT)), show every change in it'
	@echo 'make install    install under PREFIX (default $(PREFIX)); DESTDIR is supported'
	@echo 'make examples   build the programs of examples/'
	@echo 'make all        build tests, benchmarks and examples as well; warnings are errors then'
	@echo 'make test       run everything that has to pass; the last line counts the results'
	@echo 'make coverage   show which lines the unit tests run, as a table and in build-coverage/html'
	@echo 'make bench      measure the engine, sources, server and client, compared with others'
	@echo 'make fuzz       fuzz every parser for FUZZ_SECONDS each (default $(FUZZ_SECONDS))'
	@echo 'make soak       run a long simulation and random unit tests; 10,000 streams, random clients and'
	@echo '                reloads for SOAK_SECONDS each; a folder of 100,000 files; long fuzzing;'
	@echo '                unit tests and real clients without a sanitizer'
	@echo 'make format     format the C files in place'
	@echo 'make reference  write the options of config files into docs/ and man/'
	@echo 'make picture    draw what make run shows, for the README'
	@echo 'make clean      remove build/ and build-*/'
	@echo
	@echo 'BUILD=DIR builds elsewhere. Each target installs the packages that it needs, and no others.'
	@echo 'scripts/test PART... runs some parts of the tests; scripts/test --list names them.'
