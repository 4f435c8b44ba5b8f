# The project's front door. Every target says what it does; `make help` lists them.
# The work itself is in xtask/ (Rust) so that it is one definition, tested and portable.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Pinned: a tool that changes under us changes what "green" means.
DENY_VERSION    := 0.20.2
MUTANTS_VERSION := 27.1.0

CARGO  ?= cargo
XTASK  := $(CARGO) xtask
SEEDS  ?= 0..10000
DRAWN  ?= 1000
FUZZ_SECONDS ?= 60
NAME   ?= foundation
ONLY   ?=
VS     ?=
NET    ?=
ROUNDS ?= 9
SHARD  ?=
TIMES  ?= 200
PYTHON ?= python3
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

# cargo-deny parses metadata for a second; optimising it would cost minutes of building. Tests get it in their last
# step: its build fills idle cores meanwhile.
TOOL_PROFILE := CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
	CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16

# Needed to build, as command:package pairs: linker, libc and, for rustup, curl with certificates.
BUILD_TOOLS := cc:gcc cc:libc6-dev curl:curl curl:ca-certificates

# Used by the tests, as pairs of a command, or of a file with its whole path, and its package.
HOST_TOOLS := ip:iproute2 tc:iproute2 ethtool:ethtool nft:nftables sysctl:procps \
	g++:g++ git:git valgrind:valgrind mandoc:mandoc cmake:cmake pkg-config:pkgconf swipl:swi-prolog-nox clang:clang python3:python3 \
	fi_pingpong:libfabric-bin /usr/include/rdma/fabric.h:libfabric-dev

# Programs that the preloaded library is tried with, as command:package pairs.
PRELOAD_TOOLS := iperf3:iperf3 sockperf:sockperf redis-server:redis-server redis-benchmark:redis-tools \
	nginx:nginx-light wrk:wrk memcached:memcached memcslap:libmemcached-tools curl:curl sshd:openssh-server ssh:openssh-client

# Needed by the contenders of the bench in C, as file:package pairs.
BENCH_FILES := /usr/bin/gcc:gcc /usr/include/zmq.h:libzmq3-dev /usr/include/rdma/fabric.h:libfabric-dev \
	/usr/include/ucp/api/ucp.h:libucx-dev /usr/include/enet/enet.h:libenet-dev \
	/usr/bin/mpiexec.mpich:mpich /usr/bin/mpicc.mpich:libmpich-dev \
	/usr/bin/mpirun.openmpi:openmpi-bin /usr/bin/mpicc.openmpi:libopenmpi-dev

# rustup puts its commands there; a shell that was open before does not know.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: advisories install deb help setup setup-build setup-rust setup-host setup-bench setup-preload setup-deny setup-mutants prolog python python-wheels demo test nightly sim fuzz bench bench-report doc ladders mutants show soak conformance-shmem evaluate-suci evaluate-dse evaluate-cdp evaluate-cores

help: ## This list
	@echo "make TARGET, where TARGET is"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: setup-rust setup-host setup-deny ## Install what is missing: toolchain, system tools, cargo-deny

setup-rust: setup-build
	@echo "== setup: the Rust toolchain of rust-toolchain.toml"
	@command -v rustup >/dev/null || { \
	  echo "rustup is missing: installing it by the script of https://rustup.rs into your home folder"; \
	  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -q --no-modify-path --default-toolchain none; }
	@channel=$$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml); \
	list() { sed -n "s/^$$1 = \[\(.*\)\]/\1/p" rust-toolchain.toml | tr -d '",'; }; \
	cd /; \
	rustup run "$$channel" rustc --version 2>/dev/null || rustup toolchain install "$$channel" --profile minimal; \
	cd - >/dev/null; components=$$(list components); targets=$$(list targets); \
	have=$$(rustup component list --toolchain "$$channel" --installed); \
	for c in $$components; do grep -q "^$$c" <<<"$$have" || rustup component add --toolchain "$$channel" "$$c"; done; \
	have=$$(rustup target list --toolchain "$$channel" --installed); \
	for t in $$targets; do grep -qx "$$t" <<<"$$have" || rustup target add --toolchain "$$channel" "$$t"; done

# Installs the packages of those commands and files that are missing, and says so first.
define INSTALL
	@missing=(); \
	for pair in $(1); do \
	  what="$${pair%%:*}"; [[ $$what == /* && -e $$what ]] && continue; \
	  PATH="$$PATH:/usr/sbin:/sbin" command -v "$$what" >/dev/null || missing+=("$${pair#*:}"); \
	done; \
	if [ "$${#missing[@]}" -gt 0 ]; then \
	  echo "missing: $${missing[*]}"; \
	  install="apt-get update -q && apt-get install -q -y --no-install-recommends $${missing[*]}"; \
	  if ! command -v apt-get >/dev/null; then \
	    echo "no apt-get here: install them with your package manager" >&2; exit 1; \
	  elif [ "$$(id -u)" = 0 ]; then bash -c "$$install"; \
	  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo bash -c "$$install"; \
	  else echo "as root run:  $$install" >&2; exit 1; fi; \
	fi
endef

setup-build:
	@echo "== setup: a linker, and what fetches rustup"
	$(call INSTALL,$(BUILD_TOOLS))

setup-host:
	@echo "== setup: system tools for fuzzing and for tests in network namespaces"
	$(call INSTALL,$(HOST_TOOLS))

# What is missing is left out by the bench itself, with the command that installs it.
setup-bench:
	@echo "== setup: the libraries of the bench's contenders"
	@missing=(); \
	for pair in $(BENCH_FILES); do [ -e "$${pair%%:*}" ] || missing+=("$${pair#*:}"); done; \
	if [ "$${#missing[@]}" -gt 0 ] && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  { apt-get update -q && apt-get install -q -y --no-install-recommends "$${missing[@]}"; } || \
	    echo "not installed: $${missing[*]}" >&2; \
	elif [ "$${#missing[@]}" -gt 0 ]; then \
	  echo "as root: apt-get install $${missing[*]}" >&2; \
	fi

setup-preload:
	@echo "== setup: programs of TCP for the preloaded library"
	$(call INSTALL,$(PRELOAD_TOOLS))

setup-deny:
	@echo "== setup: cargo-deny $(DENY_VERSION) (about a minute when it must be built)"
	@$(CARGO) deny --version 2>/dev/null | grep -q ' $(DENY_VERSION)$$' || \
	  $(TOOL_PROFILE) $(CARGO) install --locked --no-default-features --version $(DENY_VERSION) cargo-deny

setup-mutants:
	@echo "== setup: cargo-mutants $(MUTANTS_VERSION)"
	@$(CARGO) mutants --version 2>/dev/null | grep -q ' $(MUTANTS_VERSION)$$' || \
	  $(TOOL_PROFILE) $(CARGO) install --locked --version $(MUTANTS_VERSION) cargo-mutants

prolog: setup-rust setup-host ## library(suci) for SWI-Prolog: built, tested, and used by its example
	@echo "== prolog: library(suci) installed as a pack, its tests and its programs"
	$(XTASK) prolog

python: setup-rust ## The Python package: its wheel (bindings/python/dist), tested in a new environment
	@echo "== python: the command suci, which goes into the wheel"
	$(CARGO) build --release --locked --bin suci
	@mkdir -p bindings/python/suci._suci.data/scripts
	@strip -o bindings/python/suci._suci.data/scripts/suci "$(TARGET)/release/suci"
	@echo "== python: a virtual environment in $(TARGET)/python, with what PyPI has for the tests"
	@$(PYTHON) -m venv --clear "$(TARGET)/python" || \
	  { echo "no venv here: install it (Debian: python3-venv), or set PYTHON" >&2; exit 1; }
	"$(TARGET)/python/bin/pip" install -q -r bindings/python/requirements.txt
	@echo "== python: the wheel"
	rm -rf bindings/python/dist
	"$(TARGET)/python/bin/maturin" build --release -m bindings/python/Cargo.toml \
	  -i "$(TARGET)/python/bin/python" -o bindings/python/dist --target-dir "$(TARGET)"
	"$(TARGET)/python/bin/pip" install -q --no-index --no-deps bindings/python/dist/*.whl
	@echo "== python: the tests"
	cd bindings/python && "$(abspath $(TARGET))/python/bin/python" -m pytest -q

# zig links against the symbols of an older glibc; it comes from PyPI. The command suci of this machine
# would not run there, so this wheel has none.
python-wheels: python ## A Python wheel for glibc 2.28 and newer (bindings/python/dist/manylinux)
	rm -rf bindings/python/suci._suci.data
	PATH="$(abspath $(TARGET))/python/bin:$$PATH" maturin build --release --zig \
	  --compatibility manylinux_2_28 -m bindings/python/Cargo.toml \
	  -i "$(TARGET)/python/bin/python" -o bindings/python/dist/manylinux --target-dir "$(TARGET)"
	"$(TARGET)/python/bin/auditwheel" show bindings/python/dist/manylinux/*.whl

demo: setup-rust ## Four processes, all to all: a file to everyone, then figures beside TCP
	@echo "== demo: building the release command, then running the demonstration"
	$(CARGO) build --release --locked --bin suci
	$(XTASK) demo

test: setup-rust setup-host ## Everything that a change must pass (under 20 minutes on 2 cores)
	@echo "== test: every step of cargo xtask ci"
	$(XTASK) ci

nightly: setup-rust setup-host setup-bench ## The tests of make test with every compiler, function and emulated link, and snippets five times
	@echo "== nightly: every combination of which make test tries a selection"
	$(XTASK) nightly

sim: setup-rust ## The simulator over SEEDS (default 0..10000) and DRAWN new ones of each profile, then the planted faults
	@echo "== sim: simulated clusters, seeds $(SEEDS)"
	$(CARGO) run --release --locked --bin suci-sim -- --seeds $(SEEDS)
	@echo "== sim: $(DRAWN) seeds of each profile, drawn anew"
	$(XTASK) seeds $(DRAWN)
	@echo "== sim: planted faults must be found"
	$(XTASK) planted

fuzz: setup-rust setup-host ## Each fuzz target for FUZZ_SECONDS (default 60)
	@echo "== fuzz: each target for $(FUZZ_SECONDS) s"
	$(XTASK) fuzz --seconds $(FUZZ_SECONDS)

bench: setup-rust setup-host setup-bench ## Suci beside its alternatives; ONLY=rtt,mix VS=tcp,zeromq ROUNDS=9 NET=loopback pick
	@echo "== bench: Suci beside its alternatives (subsets: make bench ONLY=rtt VS=tcp-cubic,zeromq)"
	$(XTASK) bench run --rounds $(ROUNDS) $(if $(ONLY),--only '$(ONLY)') $(if $(VS),--vs '$(VS)') $(if $(NET),--net '$(NET)')

bench-report: setup-rust ## bench/RESULTS.md and its plots, from what make bench measured here
	$(XTASK) bench report

# Where the C libraries go; see crates/suci-capi/packaging/install.sh.
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
DESTDIR ?=
# The folder in which cargo builds.
TARGET   = $(or $(CARGO_TARGET_DIR),target)

PACKED   = -p suci-capi -p suci-shmem -p suci-preload -p suci-cli

install: ## The C libraries into PREFIX (default /usr/local): libsuci, libsma, libsuci-preload, headers, man pages; DESTDIR for packages
	@echo "== install: the C libraries below $(DESTDIR)$(PREFIX)"
	@# Root often has no cargo, and installs what a user built before.
	if command -v $(CARGO) >/dev/null; then $(CARGO) build --release --locked $(PACKED); fi
	for crate in suci-capi suci-shmem; do \
	  PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' \
	    crates/$$crate/packaging/install.sh $(TARGET)/release; \
	done
	install -s -m 755 $(TARGET)/release/libsuci_preload.so $(DESTDIR)$(LIBDIR)/libsuci-preload.so

deb: setup-rust ## The Debian packages of libsuci and libsma, in target/deb
	@echo "== deb: Debian packages of the C libraries into $(TARGET)/deb"
	$(CARGO) build --release --locked $(PACKED)
	for crate in suci-capi suci-shmem; do crates/$$crate/packaging/deb.sh $(TARGET)/release $(TARGET)/deb; done

advisories: setup-rust setup-deny ## Known weaknesses of dependencies; ADVISORY_DB=a clone of github.com/RustSec/advisory-db
	@echo "== advisories: lock files against the RustSec database"
	$(XTASK) advisories $(ADVISORY_DB)

doc: setup-rust ## The API documentation, in target/doc
	@echo "== doc: API documentation into target/doc"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

ladders: setup-rust setup-host ## Goodput over emulated links from step to step, beside TCP's (20 minutes); plots in target/ladders
	@echo "== ladders: goodput from step to step (fewer: cargo xtask ladders --quick)"
	$(XTASK) ladders

# A clone of github.com/openshmem-org/tests-sos, and faults of the network (loss=0.03).
TESTS  ?= tests-sos
FAULTS ?=

conformance-shmem: setup-rust ## The public unit tests of OpenSHMEM in TESTS (a clone of tests-sos); FAULTS=loss=0.03 loses packets
	@echo "== conformance-shmem: tests of OpenSHMEM with 2 and 4 processes"
	$(XTASK) conformance-shmem '$(TESTS)' $(if $(ONLY),--only '$(ONLY)') $(if $(FAULTS),--faults '$(FAULTS)')

evaluate-suci: setup-rust setup-host ## The evaluations of the Suci papers on the classic C interface (6 minutes); results in examples/classic
	@echo "== evaluate-suci: between namespaces of 10 and 100 Mbit/s, and without a limit"
	$(XTASK) evaluate suci

evaluate-dse: setup-rust ## The evaluation of the DSE paper: its programs over Suci and TCP (10 minutes); results in examples/dse
	@echo "== evaluate-dse: over loopback (less: cargo xtask evaluate dse --quick)"
	$(XTASK) evaluate dse

evaluate-cdp: setup-rust setup-host ## Throughput and round trips by size beside TCP and UDP, as CDP's and Fast Messages' papers (10 minutes); results in bench/cdp
	@echo "== evaluate-cdp: between namespaces, at 1 Gbit/s and without a limit (less: cargo xtask evaluate cdp --quick)"
	$(XTASK) evaluate cdp

evaluate-cores: setup-rust ## A model of cores, ports and locks, fitted to one figure of CDP's thesis (1 minute); results in bench/cores
	@echo "== evaluate-cores: costs measured here, then the model (the costs of before: suci-bench cores --recorded)"
	$(CARGO) run --release --locked --bin suci-bench -- cores

mutants: setup-rust setup-mutants ## Mutation tests of recovery, credit and reassembly (at least 85 % caught); SHARD=0/8 for a part
	@echo "== mutants: mutation tests of recovery, credit and reassembly"
	$(XTASK) mutants $(if $(SHARD),--shard $(SHARD))

show: setup $(if $(filter speed layers,$(NAME)),setup-bench) $(if $(filter sockets faults,$(NAME)),setup-preload) ## What capability NAME (default foundation) must show; ONLY=text picks lines
	@echo "== show: what '$(NAME)' must show"
	$(XTASK) show $(NAME) $(if $(ONLY),--only '$(ONLY)')

soak: setup-rust setup-host ## Every README snippet and each example TIMES times in a row (default 200)
	@echo "== soak: every snippet and example $(TIMES) times, with the time that is left"
	$(XTASK) soak --rounds $(TIMES)
