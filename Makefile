# Two commands do everything on a fresh machine: `make demo` and `make check`.
CARGO ?= cargo
DESTDIR ?=
PREFIX ?= /usr
# Tests and demo use one binary; failpoints and test switches exist only in builds with this feature.
TEST_FEATURES = --features rpm-ostree-transient/test-hooks

.PHONY: demo check build setup fmt lint test bench vm-image check-vm man soak deny install clean

demo: setup
	$(CARGO) build --locked -p rpm-ostree-transient
	ci/demo

check: setup fmt lint test deny

setup:
	ci/setup

build:
	$(CARGO) build --locked --release -p rpm-ostree-transient

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --locked --workspace --all-targets $(TEST_FEATURES) -- -D warnings

test:
	ci/test

# The disk of tests/vm; every test of tests/kola on it, then the short list with Linux 6.1. `make check` has the short list.
# See docs/testing-vm.md.
vm-image: setup
	tests/vm/image target/vm

check-vm: setup
	tests/vm/kola --all
	tests/vm/kola --old-kernel

bench:
	ci/setup bench
	$(MAKE) build
	ci/bench

# The committed pages and schemas; tests hold them against the program.
man:
	$(CARGO) run --locked -q -p xtask -- man man
	$(CARGO) run --locked -q -p xtask -- schemas docs/schemas

# Random sequences of changes and accidents, many of them; the seed is printed.
soak: setup
	$(CARGO) build --locked -p rpm-ostree-transient $(TEST_FEATURES)
	SOAK_SEED=$${SOAK_SEED:-$$(date +%s)} SOAK_SEQUENCES=$${SOAK_SEQUENCES:-50} \
	    $(CARGO) test --locked -p transient-tests --test host -- soak:: --nocapture

deny:
	ci/deny

install: build
	install -D -m 755 target/release/rpm-ostree-transient $(DESTDIR)$(PREFIX)/bin/rpm-ostree-transient
	install -d $(DESTDIR)$(PREFIX)/share/man/man8 $(DESTDIR)$(PREFIX)/share/man/man5 $(DESTDIR)$(PREFIX)/libexec/libostree/ext
	install -m 644 man/*.8 $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 644 man/*.5 $(DESTDIR)$(PREFIX)/share/man/man5
	$(CARGO) run --locked -q -p xtask -- completions $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in packaging/systemd/*; do sed 's|/usr/bin/|$(PREFIX)/bin/|' "$$unit" \
	    > "$(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/}"; done
	ln -sfn ../../../bin/rpm-ostree-transient $(DESTDIR)$(PREFIX)/libexec/libostree/ext/ostree-transient

clean:
	$(CARGO) clean
