# `make run` measures this machine, `make test` runs the tests. Both first install the
# packages that they need (scripts/packages lists them).

# The shell evaluates this when it runs a recipe, because scripts/packages may have just
# installed cargo.
CARGO := "$$(command -v cargo || echo "$$HOME/.cargo/bin/cargo")"
PREFIX ?= /usr/local
LAGGARD := target/release/laggard
DIST := target/dist/laggard
# A measurement needs root; a build does not.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Removes the build directory from the programs, so that builds are reproducible. The
# compiler splits its flags at spaces, so a path with a space is not removed.
UNROOTED := case "$$PWD$$HOME$$CARGO_HOME" in *' '*) ;; *) \
	RUSTFLAGS="$$RUSTFLAGS --remap-path-prefix=$$PWD=. --remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=cargo"; \
	esac; export RUSTFLAGS;

# Leaves out the strategies of zstd that level 1 does not use. laggard compresses with level 1 only.
ZSTD_FAST := CFLAGS="$$CFLAGS $(patsubst %,-DZSTD_EXCLUDE_%_BLOCK_COMPRESSOR,DFAST GREEDY LAZY LAZY2 BTLAZY2 BTOPT BTULTRA)"; \
	export CFLAGS;

.PHONY: build dist page book fleet ship run test test-system test-fleet test-cluster test-ship test-statistics fuzz check bench prove public-reports install reproducible clean \
	test-kernels compare-kernels static loads windows check-windows test-windows driver test-driver deb rpm

# Without link-time optimisation. `make dist` has it.
PROGRAMS ?= laggard laggard-serve

build:
	@scripts/packages build
	$(UNROOTED) $(CARGO) build --release $(addprefix -p ,$(PROGRAMS))

# Programs for packages and `make install`: smaller, with link-time optimisation.
dist:
	@scripts/packages build
	$(UNROOTED) $(ZSTD_FAST) $(CARGO) build --profile dist -p laggard -p laggard-serve

# Page of `laggard report`. The repository contains the result, web/dist. Run this and
# commit the result after a change of the page's sources or packages.
page:
	@scripts/page build

# Documentation as a book, target/book/index.html. Needs mdbook.
book: build
	@scripts/book

# laggard-fleet, which analyses the recordings of many machines. It is a separate program,
# because its query engine takes longer to build than everything else. `make test` skips
# its tests, `make test-fleet` runs them. FEATURES=cluster adds the client of a Ballista
# cluster, which `make test-cluster` tests with a scheduler and two executors.
fleet:
	@scripts/packages build
	@FEATURES='$(FEATURES)' scripts/fleet build

test-fleet:
	@scripts/packages build
	$(CARGO) build -p laggard
	@scripts/fleet test
	@scripts/fleet test-ship

test-cluster:
	@scripts/packages build
	@scripts/fleet cluster

# laggard-ship, which sends the recordings of a machine to an object store. It is a
# separate program, so that the measuring program has no network client.
ship:
	@scripts/packages build
	@scripts/fleet ship

test-ship:
	@scripts/packages build
	@scripts/fleet test-ship

RUN := run-$(shell date +%Y-%m-%d-%H%M%S)

run:
	@scripts/run $(RUN)

test:
	@scripts/test

# Tests that need root, BPF, a test host or real time.
test-system:
	@scripts/test system

# Coverage of the printed intervals; takes minutes and rewrites docs/validation/coverage.md.
test-statistics:
	@scripts/packages build test
	$(CARGO) test --release -p laggard-analyze --test statistics -- --nocapture

# Runs commands on mutated recordings and files. `make test` uses a few hundred.
# `make fuzz MUTANTS=100000`.
MUTANTS ?= 10000

fuzz:
	@scripts/packages build test
	LAGGARD_MUTANTS=$(MUTANTS) $(CARGO) test -p laggard --test it mutated::

# Static program for test hosts and boards. `make static ARCH=arm64` builds it for another
# architecture with Debian packages. PROFILE=dev builds faster, for tests. `laggard serve` is not in
# it; FEATURES=serve adds it (1.6 MB).
MACHINE := $(shell uname -m)
ARCH ?= $(if $(findstring arm64-,$(KERNEL)),arm64,$(MACHINE))
PROFILE ?= dist
TARGET := $(patsubst arm64,aarch64,$(patsubst amd64,x86_64,$(ARCH)))
TRIPLE := $(TARGET)-unknown-linux-gnu
BUILT := target/$(TRIPLE)/$(patsubst dev,debug,$(PROFILE))/laggard
ifeq ($(TARGET),$(MACHINE))
STATIC := target/static/laggard
STRIP := strip
else
STATIC := target/static/$(TARGET)/laggard
STRIP := $(TARGET)-linux-gnu-strip
# Directory for the libraries of that architecture, which are unpacked, not installed.
CROSS := target/cross/$(TARGET)
CROSS_LIBRARIES := $(CURDIR)/$(CROSS)/usr/lib/$(TARGET)-linux-gnu
CROSS_FLAGS := -L $(CROSS_LIBRARIES) -L $(CURDIR)/$(CROSS)/usr/lib/rustlib/$(TRIPLE)/lib
TRIPLE_NAME := $(subst -,_,$(TRIPLE))
CROSS_BUILD := \
	CARGO_TARGET_$(shell echo $(TRIPLE_NAME) | tr a-z A-Z)_LINKER=$(TARGET)-linux-gnu-gcc \
	CC_$(TRIPLE_NAME)=$(TARGET)-linux-gnu-gcc \
	PKG_CONFIG_ALLOW_CROSS=1 \
	PKG_CONFIG_LIBDIR=$(CROSS_LIBRARIES)/pkgconfig \
	PKG_CONFIG_SYSROOT_DIR=$(CURDIR)/$(CROSS)
endif

# Keeps one copy of identical functions, which generic code creates. Cross compilers look for lld only
# in their own directories and in those that -B names.
ONE_COPY := -C link-arg=-fuse-ld=lld $(if $(CROSS),-C link-arg=-B/usr/bin) -C link-arg=-Wl,--icf=all

# 0.8 MB less. A dynamic program with these relocations would need glibc 2.36.
SMALL_RELOCATIONS := -C link-arg=-Wl,-z,pack-relative-relocs

static: $(CROSS)
	@scripts/packages build static $(if $(CROSS),cross-$(TARGET))
	@[ -z '$(CROSS)' ] || [ -z $(RUSTUP) ] || $(RUSTUP) -q target add $(TRIPLE)
	RUSTFLAGS='-C target-feature=+crt-static $(SMALL_RELOCATIONS) $(ONE_COPY) $(CROSS_FLAGS)'; $(UNROOTED) $(ZSTD_FAST) \
		$(CROSS_BUILD) $(CARGO) build --profile $(PROFILE) -p laggard --no-default-features --features "$(FEATURES)" \
		--target $(TRIPLE)
	mkdir -p $(dir $(STATIC))
	$(STRIP) -o $(STATIC) $(BUILT)

# The standard library of another architecture comes from rustup, or from a Debian package.
RUSTUP := "$$(command -v rustup || ls "$$HOME/.cargo/bin/rustup" 2>/dev/null)"

target/cross/%:
	@scripts/packages build cross-$*
	scripts/packages unpack $* $@ libelf-dev libzstd-dev zlib1g-dev \
		$$([ -n $(RUSTUP) ] || echo libstd-rust-web-dev)

# Packages for this machine's architecture, with the unit of `laggard-serve`, in target/rpm
# and target/deb.
rpm: dist
	@scripts/packages rpm
	scripts/rpm target/dist target/rpm

deb: dist
	@scripts/packages deb
	CARGO=$(CARGO) scripts/deb target/dist target/deb

# laggard for Windows (windows/TRY.md), target/windows/laggard.exe.
windows:
	@scripts/packages windows
	$(UNROOTED) scripts/windows build

# Checks that it compiles, and that its output under Wine equals the output on Linux.
# Without a compiler for Windows or Wine, the tests print that they are skipped and why.
check-windows:
	@scripts/packages windows || true
	@scripts/windows check

test-windows:
	@scripts/packages build windows wine || true
	@scripts/windows test

# Windows driver as in the papers, target/driver/wdmlat.sys.
driver:
	@scripts/packages windows
	@scripts/driver build

# Tests the image of the driver, and loading and unloading under Wine. Without a compiler
# for Windows or Wine, the tests print that they are skipped and why.
test-driver:
	@scripts/packages windows wine || true
	@scripts/driver test

# Tests all six amd64 kernels, or one: `make test-kernels KERNEL=6.12-rt`. `ARCH=arm64` or
# `KERNEL=arm64-6.12` tests arm64 kernels with a cross-built program.
test-kernels: KERNEL ?= $(if $(filter aarch64,$(TARGET)),arm64)
test-kernels: static
	@scripts/packages hosts $(if $(filter aarch64,$(TARGET)),hosts-arm64)
	$(if $(CROSS),$(CARGO) build -p laggard)
	LAGGARD_TEST_HOSTS=required LAGGARD_KERNELS='$(KERNEL)' LAGGARD_PROGRAM=$(CURDIR)/$(if $(CROSS),target/debug/laggard,$(STATIC)) \
		$(if $(filter aarch64,$(TARGET)),LAGGARD_PROGRAM_ARM64=$(CURDIR)/$(STATIC)) \
		$(CARGO) test -p laggard-testkit --test system kernels:: -- --ignored --nocapture --test-threads=1

# Compares stock and real-time kernels under four loads, and prints the comparisons of
# docs/validation/kernels-compared.csv. `make compare-kernels SERIES=6.12`.
SERIES ?= 6.12,7.2

compare-kernels: static
	@scripts/packages hosts
	$(CARGO) run --release -p laggard-testkit --bin compare-kernels -- --program $(STATIC) \
		--series $(SERIES) --results target/compare-kernels-$(shell date +%Y-%m-%d-%H%M%S)

check:
	@scripts/packages build test
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@# --all-targets leaves out targets that `cargo test` does not run by default.
	$(CARGO) clippy --workspace --test system -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --quiet
	@scripts/fleet check
	scripts/supply check
	@scripts/dependencies

# Installs the programs of the application loads.
loads:
	@scripts/packages loads
	@echo 'All loads are available; `$(LAGGARD) load list` lists them.'

bench: build
	@scripts/packages bench
	$(AS_ROOT) python3 bench/bench.py $(LAGGARD)

# Reproduces public reports of late programs and compares the answers of laggard and other tools
# with the truth; rewrites docs/validation/public-reports.md. ONLY="fsync rwlock" prints some rows.
public-reports: build
	@scripts/packages reports
	$(AS_ROOT) python3 bench/public-reports/run.py --laggard $(LAGGARD) $(if $(ONLY),--only $(ONLY))

# Tests whether `why` names the faults of `provoke`. KIND=softirq,irq tests only these, and
# does not change the table in docs/validation/accuracy.md. HOST=6.12 uses a test host. On
# this machine, vm.max_map_count is raised during the test, for `preempt-off`.
DURATION ?= 12s
PROVE := --duration $(DURATION) $(if $(KIND),--kinds $(KIND),--page docs/validation/accuracy.md)

PROVEN := $(if $(HOST),target/hosts/proven/laggard,$(LAGGARD))

# Debug information does not fit into a test host.
prove: build
	@scripts/packages prove $(if $(HOST),hosts)
	@mkdir -p target/hosts/proven
	@strip -o target/hosts/proven/laggard $(LAGGARD)
	$(if $(HOST),$(CARGO) build -p laggard-testkit --bin testhost)
	$(if $(HOST),,$(AS_ROOT)) python3 bench/prove $(PROVEN) $(PROVE) \
		$(if $(HOST),--host $(HOST),--mappings 262144)

install: dist
	@scripts/packages install
	install -s -D -m 755 $(DIST) $(DESTDIR)$(PREFIX)/bin/laggard
	install -s -D -m 755 $(DIST)-serve $(DESTDIR)$(PREFIX)/bin/laggard-serve
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	$(DIST) man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(DIST) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/laggard
	install -d $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(DIST) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_laggard
	$(DIST) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/laggard.fish
	install -d $(DESTDIR)$(PREFIX)/share/doc/laggard
	CARGO=$(CARGO) scripts/supply notices $(DESTDIR)$(PREFIX)/share/doc/laggard/third-party.txt
	CARGO=$(CARGO) scripts/supply sbom $(DESTDIR)$(PREFIX)/share/doc/laggard/laggard.cdx.json
	@echo 'Measuring needs root. To let users measure without root, run once:'
	@echo '  sudo setcap cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep $(DESTDIR)$(PREFIX)/bin/laggard'

# Builds the packaged programs twice, in different directories, and compares them byte by
# byte.
reproducible:
	@scripts/packages build
	@scripts/reproducible

clean:
	$(CARGO) clean
