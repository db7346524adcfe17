# The servers, models and Python environment that end-to-end tests, the demo and the benches use.
VENV := build/venv/requirements.sha256
PYTHON := build/venv/bin/python
SERVERS := build/servers/native_server
MODELS := build/models/stamp
GEN_PYTHON := $(PROTOS:lib/proto/%.proto=$(GEN)/python/%_pb2.py)

$(VENV): tests/install-deps tests/requirements.txt
	./tests/install-deps

# TensorFlow's C headers and libraries are those of the wheel, found again at run time beside the binary.
NATIVE_SRC := $(wildcard tests/servers/*.c)
NATIVE_DEP := $(wildcard tests/servers/*.h) lib/base/macro.h tests/servers/reference_profiler.cc
build/servers/native_server: $(NATIVE_SRC) $(NATIVE_DEP) $(VENV)
	@mkdir -p $(@D)
	rm -f $@.*.o
	set -e; wheel=$$(echo build/venv/lib/python3*/site-packages/tensorflow); \
	$(CXX) -std=gnu++17 -Wall -Wextra -Werror -O2 -g -fPIE -I. -c -o $@.profiler.o \
		tests/servers/reference_profiler.cc; \
	for source in $(NATIVE_SRC); do \
		$(CC) -std=gnu11 $(WARNINGS) -O2 -g -fPIE -I. -D_GNU_SOURCE -isystem $$wheel/include \
			-c -o $@.$$(basename $$source .c).o $$source; \
	done; \
	$(CXX) -pie -o $@ $@.*.o -L$$wheel -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -lpthread \
		"-Wl,-rpath,\$$ORIGIN/../../$$wheel"

$(MODELS): tests/servers/make_models.py $(VENV)
	@mkdir -p $(@D)
	$(PYTHON) tests/servers/make_models.py $(@D)
	@touch $@

$(GEN)/python/%_pb2.py: lib/proto/%.proto
	@mkdir -p $(@D)
	protoc -Ilib/proto --python_out=$(@D) $<

.PHONY: servers
servers: $(SERVERS) $(MODELS) $(GEN_PYTHON)

# A make of its own after deps, which may have installed the very tools that the rest needs.
demo: deps
	$(MAKE) all servers
	$(PYTHON) tests/demo/demo.py

# What follows are the targets of the tests themselves.
