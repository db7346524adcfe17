# SPDX-License-Identifier: Apache-2.0
# tfprofd. `make help` lists the targets; everything generated goes under build/.
#   CC=gcc|clang   the compiler of the user-space code       SAN=address,undefined   a build with sanitizers, in build/san
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules
# V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))

CC := gcc
CXX := g++
# If installed, it caches compiled objects.
CCACHE := $(shell command -v ccache)
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PROTOC_C ?= protoc-c
PREFIX ?= /usr/local
DESTDIR ?=
ARCH := $(subst x86_64,x86,$(shell uname -m))

# Generated sources are the same for every compiler; objects and binaries are not.
GEN := build/gen
OUT := build
ifneq ($(SAN),)
OUT := build/san
endif
ifneq ($(VARIANT),)
OUT := build/$(VARIANT)
endif
OBJ := $(OUT)/obj

WARNINGS := -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wno-unused-parameter -Wno-missing-field-initializers
VERSION := 0.1.0
CPPFLAGS := -I. -I$(GEN) -D_GNU_SOURCE -DTFPROFD_VERSION=\"$(VERSION)\"
CFLAGS ?= -O2 -g
HARDENING := -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
# Clang 14 takes zeros only with a flag that later releases refuse.
HARDENING += -ftrivial-auto-var-init=$(if $(findstring clang,$(CC)),pattern,zero)
ALL_CFLAGS := -std=gnu11 $(WARNINGS) $(HARDENING) $(CFLAGS)
LDFLAGS += -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code
LDLIBS := -lbpf -lelf -lz -llzma -lprotobuf-c -lnghttp2 -lZydis -lcap -linih -lssl -lcrypto -lmicrohttpd -lm -lpthread -l:libsupc++.a
ifneq ($(SAN),)
ALL_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SAN)
else
CPPFLAGS += -D_FORTIFY_SOURCE=3
endif

PROTOS := $(wildcard lib/proto/*.proto)
PROTO_C := $(PROTOS:lib/proto/%.proto=$(GEN)/proto/%.pb-c.c)
BPF_SRC := $(wildcard bpf/*.bpf.c)
BPF_OBJ := $(BPF_SRC:bpf/%.bpf.c=$(GEN)/bpf/%.bpf.o)
SKEL := $(GEN)/bpf/tfprofd.skel.h
LIB_SRC := $(wildcard lib/*/*.c)
DAEMON_SRC := $(wildcard daemon/*/*.c daemon/*/*/*.c)
CLI_SRC := $(wildcard cli/*.c cli/*/*.c)
UNIT_SRC := $(wildcard tests/unit/test_*.c)

objects = $(patsubst %.c,$(OBJ)/%.o,$(1))
LIB_OBJ := $(call objects,$(LIB_SRC)) $(PROTO_C:$(GEN)/%.c=$(OBJ)/gen/%.o)
DAEMON_OBJ := $(call objects,$(DAEMON_SRC))
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(OUT)/tests/%)

.PHONY: all format help deps demo test check long bench lint install uninstall clean unit e2e
all: $(OUT)/tfprofd $(OUT)/tfprofctl $(OUT)/libtfprof.so

help:
	@echo "make all      build/tfprofd and build/tfprofctl"
	@echo "make deps     install missing Debian packages (as root) and the Python environment of the tests"
	@echo "make demo     serve a real model, capture it, print the result (KEEP=1 leaves TensorBoard running)"
	@echo "make test     lint, unit tests, replays and a short end-to-end set: a few minutes"
	@echo "make check    every test (SHARD=I/N: a part)     make lint | clang | unit | e2e   single parts"
	@echo "make long     tests that take an hour: kernels in an emulator, all random cases (SHARD=I/N: a part)"
	@echo "make format   format the C sources       make golden   accept the current output of replays as expected"
	@echo "make kernels  the important tests on Debian's kernels in an emulator; writes docs/kernels.md"
	@echo "make releases tests of each runtime with several of its releases; writes docs/releases.md"
	@echo "make analyze  static analysis by gcc and clang-tidy (part of make long)"
	@echo "make fuzz     fuzzers of every parser of untrusted input (SECONDS=60 of CPU time each)"
	@echo "make bench    measurements                 make install | uninstall | clean"

$(OUT)/tfprofd: $(OBJ)/daemon/main.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(OUT)/tfprofctl: $(call objects,$(CLI_SRC)) $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The marks of include/tfprof.h for other languages: no other code, and no dependencies.
$(OUT)/libtfprof.so: include/tfprof.c include/tfprof.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(WARNINGS) -std=gnu11 -O2 -g -I. -fPIC -shared -fvisibility=hidden -nostdlib -Wl,-soname,libtfprof.so -o $@ $<

$(OUT)/libcommon.a: $(LIB_OBJ)
$(OUT)/libtfprofd.a: $(DAEMON_OBJ)
$(OUT)/lib%.a:
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^

# The compiler is part of what an object depends on.
FLAGS_STAMP := $(OBJ)/flags
FLAGS_NOW := $(CC) $(CPPFLAGS) $(ALL_CFLAGS)
ifneq ($(file <$(FLAGS_STAMP)),$(FLAGS_NOW))
$(shell mkdir -p $(OBJ))
$(file >$(FLAGS_STAMP),$(FLAGS_NOW))
endif

$(OBJ)/%.o: %.c $(FLAGS_STAMP) | $(PROTO_C) $(GEN)/proto/descriptor_set.h $(SKEL)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CCACHE) $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(OBJ)/gen/%.o: $(GEN)/%.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CCACHE) $(CC) $(CPPFLAGS) -I$(GEN)/proto $(ALL_CFLAGS) -Wno-unused-variable -MMD -MP -c -o $@ $<

$(GEN)/proto/%.pb-c.c: lib/proto/%.proto
	@mkdir -p $(@D)
	$(call say,PROTO,$<)
	$(Q)$(PROTOC_C) -Ilib/proto --c_out=$(@D) $<

# The services that the daemon describes by reflection.
SERVED_PROTOS := $(addprefix lib/proto/,profiler_service.proto control.proto health.proto reflection_v1alpha.proto)
$(GEN)/proto/descriptor_set.h: $(SERVED_PROTOS) lib/proto/reflection.proto
	@mkdir -p $(@D)
	$(call say,PROTO,$@)
	$(Q)$(PROTOC_C) -Ilib/proto --include_imports --descriptor_set_out=$(@:.h=.bin) $(SERVED_PROTOS)
	$(Q){ echo 'static const unsigned char descriptor_set[] = {'; od -An -v -tx1 $(@:.h=.bin) | sed 's/ \(..\)/0x\1,/g'; echo '};'; } > $@

# The headers are generated with the sources: without this rule, make would check the files that include them too early.
$(GEN)/proto/%.pb-c.h: $(GEN)/proto/%.pb-c.c ;

# bpf/: CO-RE objects, linked into one, embedded by the skeleton.
# -mcpu=v3: atomic exchange, and 32-bit arithmetic (Linux 5.12).
BPF_CFLAGS := -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -O2 -g -Wall -Werror -Ivmlinux/$(ARCH) -I.
$(GEN)/bpf/%.bpf.o: bpf/%.bpf.c Makefile
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
$(GEN)/bpf/tfprofd.linked.o: $(BPF_OBJ)
	$(Q)$(BPFTOOL) gen object $@ $^
$(SKEL): $(GEN)/bpf/tfprofd.linked.o
	$(Q)$(BPFTOOL) gen skeleton $< name tfprofd_bpf > $@

# Tests
$(OUT)/tests/test_%: $(OBJ)/tests/unit/test_%.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

include tests/tests.mk

lint: $(OBJ)/daemon/main.o $(LIB_OBJ) $(DAEMON_OBJ) $(call objects,$(CLI_SRC))
	./tests/lint

# The C sources as .clang-format has them.
format:
	$(Q)git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cc' | grep -v '^vmlinux/' | xargs clang-format -i

deps:
	./tests/install-deps

install: all
	install -D -m 0755 $(OUT)/tfprofd $(DESTDIR)$(PREFIX)/sbin/tfprofd
	install -D -m 0755 $(OUT)/tfprofctl $(DESTDIR)$(PREFIX)/bin/tfprofctl
	install -D -m 0755 $(OUT)/libtfprof.so $(DESTDIR)$(PREFIX)/lib/libtfprof.so
	install -D -m 0644 include/tfprof.h $(DESTDIR)$(PREFIX)/include/tfprof.h
	install -D -m 0644 include/tfprof.py $(DESTDIR)$(PREFIX)/share/tfprof/tfprof.py
	install -D -m 0644 docs/security.md $(DESTDIR)$(PREFIX)/share/doc/tfprofd/security.md
	install -D -m 0644 packaging/systemd/tfprofd.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/tfprofd.conf
	install -D -m 0644 packaging/systemd/tfprofd.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/tfprofd.conf
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	set -e; for unit in tfprofd.service tfprofd.socket; do \
		sed 's|@PREFIX@|$(PREFIX)|g' packaging/systemd/$$unit >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; \
		chmod 0644 $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; \
	done

# Users, groups and /var/lib/tfprofd remain.
INSTALLED := sbin/tfprofd bin/tfprofctl lib/libtfprof.so include/tfprof.h share/tfprof/tfprof.py share/doc/tfprofd/security.md \
	lib/sysusers.d/tfprofd.conf lib/tmpfiles.d/tfprofd.conf lib/systemd/system/tfprofd.service lib/systemd/system/tfprofd.socket
uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)$(PREFIX)/%)

clean:
	rm -rf build

-include $(shell find $(OBJ) $(GEN) -name '*.d' 2>/dev/null)
