# SPDX-License-Identifier: Apache-2.0
# The servers, models and Python environment that end-to-end tests, the demo and the benches use.
VENV := build/venv/requirements.sha256
PYTHON := build/venv/bin/python
TRITON_BACKEND := build/servers/triton/half_plus_two/libtriton_half_plus_two.so
SERVERS := build/servers/native_server build/servers/onnx_server build/servers/torch_server build/servers/load_client build/servers/hog build/servers/libmodel.so $(TRITON_BACKEND)
MODELS := build/models/stamp
GEN_PYTHON := $(PROTOS:lib/proto/%.proto=$(GEN)/python/%_pb2.py)

$(VENV): tests/install-deps tests/requirements.txt
	./tests/install-deps

# TensorFlow's C headers and libraries are those of the wheel, found again at run time beside the binary.
NATIVE_SRC := $(filter-out $(wildcard tests/servers/load_*.c) tests/servers/hog.c,$(wildcard tests/servers/*.c))
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
	$(CXX) -pie -o $@ $@.*.o -L$$wheel -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -lnghttp2 -lpthread \
		"-Wl,-rpath,\$$ORIGIN/../../$$wheel"

# What runs models, for servers that are not in C.
MODEL_SRC := $(addprefix tests/servers/,model.c wire.c buffer.c)
build/servers/libmodel.so: $(MODEL_SRC) $(NATIVE_DEP) $(VENV)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)set -e; wheel=$$(echo build/venv/lib/python3*/site-packages/tensorflow); \
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -fPIC -shared -I. -D_GNU_SOURCE -isystem $$wheel/include -o $@ $(MODEL_SRC) \
		-L$$wheel -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 "-Wl,-rpath,\$$ORIGIN/../../$$wheel"

# The same server with other runtimes: ONNX Runtime's library for C, which it loads when it starts, and PyTorch's for C++.
OTHER_SRC := $(filter-out tests/servers/model.c,$(NATIVE_SRC)) tests/servers/runtimes/no_profiler.c
OTHER_DEP := $(OTHER_SRC) $(wildcard tests/servers/*.h) lib/base/macro.h
build/servers/onnx_server: tests/servers/runtimes/onnx.c tests/servers/runtimes/onnx_api.h $(OTHER_DEP)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -std=gnu11 $(WARNINGS) -O2 -g -fPIE -pie -I. -D_GNU_SOURCE -o $@ $(OTHER_SRC) $< -lnghttp2 -lpthread -ldl
build/servers/torch.o: tests/servers/runtimes/torch.cc tests/servers/model.h
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=gnu++17 -Wall -Wextra -Werror -O2 -g -fPIE -I. -c -o $@ $<
build/servers/torch_server: build/servers/torch.o $(OTHER_DEP)
	$(call say,LINK,$@)
	$(Q)$(CC) -std=gnu11 $(WARNINGS) -O2 -g -fPIE -pie -I. -D_GNU_SOURCE -o $@ $(OTHER_SRC) $< -lnghttp2 -lpthread -ltorch_cpu -lc10 -lstdc++

# A backend for Triton: what it calls is in the server that loads it.
$(TRITON_BACKEND): tests/servers/triton/backend.c tests/servers/triton/api.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -std=gnu11 $(WARNINGS) -O2 -g -I. -D_GNU_SOURCE -fPIC -shared -o $@ $<

# The load client knows no TensorFlow: what it shares with the server are messages.
LOAD_SRC := $(wildcard tests/servers/load_*.c) $(addprefix tests/servers/,buffer.c predict_json.c predict_proto.c wire.c)
build/servers/load_client: $(LOAD_SRC) $(wildcard tests/servers/*.h) lib/base/macro.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -std=gnu11 $(WARNINGS) -O2 -g -fPIE -pie -I. -D_GNU_SOURCE -o $@ $(LOAD_SRC) -lnghttp2 -lm
build/servers/hog: tests/servers/hog.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -std=gnu11 $(WARNINGS) -O2 -g -fPIE -pie -I. -D_GNU_SOURCE -o $@ $<

$(MODELS): tests/servers/make_models.py $(VENV)
	@mkdir -p $(@D)
	$(PYTHON) tests/servers/make_models.py $(@D)
	@touch $@

$(GEN)/python/%_pb2.py: lib/proto/%.proto
	@mkdir -p $(@D)
	protoc -Ilib/proto --python_out=$(@D) $<

# External tools: each of the release in tests/go.
GO_TOOLS := build/go/bin/grpcurl build/go/bin/h2spec
$(GO_TOOLS) &: tests/go/go.mod tests/go/go.sum tests/go/tools.go
	cd tests/go && GOFLAGS='-mod=readonly -modcacherw' GOTOOLCHAIN=local GOPATH='$(CURDIR)/build/go' GOCACHE='$(CURDIR)/build/go/cache' \
		GOBIN='$(CURDIR)/build/go/bin' go install $$(sed -n 's/^	_ "\(.*\)"$$/\1/p' tools.go)
	@touch $(GO_TOOLS)

# Another CPython than Debian's.
CPYTHON := build/releases/cpython-3.12.3/bin/python3
$(CPYTHON): tests/releases/pythons.py $(VENV)
	$(PYTHON) $< 3.12.3
	@touch $@

.PHONY: servers
servers: $(SERVERS) $(MODELS) $(GEN_PYTHON) $(CPYTHON)

# A separate make after deps, which may have installed the tools that the rest needs.
demo: deps
	$(MAKE) all servers
	$(PYTHON) tests/demo/demo.py

# What follows are the targets of the tests themselves.

# The fixtures of end-to-end tests: a library with the names of a runtime's functions, and a program that throws
# exceptions through them. Their functions begin with endbr64, as those of many distributions do.
FIXTURE_CXXFLAGS := -std=gnu++17 -Wall -Wextra -Werror -O2 -g -I. -fcf-protection=full
build/fixtures/libtensorflow_framework.so.2: tests/fixtures/runtime.cc tests/fixtures/runtime.h
	@mkdir -p $(@D)
	$(CXX) $(FIXTURE_CXXFLAGS) -fPIC -shared -Wl,--build-id=sha1 -o $@ $<
build/fixtures/throwing: tests/fixtures/throwing.cc tests/fixtures/runtime.h build/fixtures/libtensorflow_framework.so.2
	$(CXX) $(FIXTURE_CXXFLAGS) -fPIE -pie -o $@ $< build/fixtures/libtensorflow_framework.so.2 -lpthread '-Wl,-rpath,$$ORIGIN'
# The same as one program that contains the runtime statically, under a name that no probe pack knows.
build/fixtures/one_program: tests/fixtures/throwing.cc tests/fixtures/runtime.cc tests/fixtures/padding.S tests/fixtures/runtime.h
	@mkdir -p $(@D)
	$(CXX) $(FIXTURE_CXXFLAGS) -static-pie -fPIE -o $@ $(filter-out %.h,$^) -lpthread
# Executes commands that are difficult for a profiler.
build/fixtures/actor: tests/fixtures/actor.cc tests/fixtures/runtime.h
	@mkdir -p $(@D)
	$(CXX) $(FIXTURE_CXXFLAGS) -fPIE -pie -o $@ $< -lpthread -ldl
# Another library with the build-id of the first one: its functions are elsewhere.
build/fixtures/impostor/libtensorflow_framework.so.2: tests/fixtures/runtime.cc tests/fixtures/runtime.h \
		build/fixtures/libtensorflow_framework.so.2
	@mkdir -p $(@D)
	$(CXX) $(FIXTURE_CXXFLAGS) -falign-functions=512 -fPIC -shared \
		-Wl,--build-id=0x$$(readelf -n build/fixtures/libtensorflow_framework.so.2 | sed -n 's/.*Build ID: //p') -o $@ $<
# Serves bytes on command; and a program that lists the requests of its recordings.
build/fixtures/sockets: tests/fixtures/sockets.cc tests/fixtures/runtime.h build/fixtures/libtensorflow_framework.so.2
	$(CXX) $(FIXTURE_CXXFLAGS) -fPIE -pie -o $@ $< build/fixtures/libtensorflow_framework.so.2 -lpthread '-Wl,-rpath,$$ORIGIN'
fixtures: build/fixtures/sockets

build/fixtures/marking: tests/fixtures/marking.c include/tfprof.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -I. -fPIE -pie -o $@ $< -ldl
build/fixtures/marking_cxx: tests/fixtures/marking.c include/tfprof.h
	@mkdir -p $(@D)
	$(CXX) -x c++ $(FIXTURE_CXXFLAGS) -Wno-unused-parameter -fPIE -pie -o $@ $< -ldl
# Counts the events that it makes.
build/fixtures/counted: tests/fixtures/counted.c include/tfprof.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -I. -fPIE -pie -o $@ $< -ldl -lpthread
fixtures: build/fixtures/counted
# Functions with known shares of the CPU time.
build/fixtures/shares: tests/fixtures/shares.c include/tfprof.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -I. -D_GNU_SOURCE -fno-omit-frame-pointer -fno-optimize-sibling-calls -fPIE -pie -o $@ $< -ldl -lpthread
fixtures: build/fixtures/shares
# With the names, and names of objects, of interpreters.
build/fixtures/interpreter/python3.%: tests/fixtures/interpreter.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -DRELEASE=3$* -fno-omit-frame-pointer -rdynamic -fPIE -pie -o $@ $< -ldl
fixtures: build/fixtures/interpreter/python3.11 build/fixtures/interpreter/python3.12
# Functions with known shares and callers, without frame pointers.
build/fixtures/unframed: tests/fixtures/unframed.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -I. -D_GNU_SOURCE -fomit-frame-pointer -fno-optimize-sibling-calls -fPIE -pie -o $@ $< -ldl -lpthread
fixtures: build/fixtures/unframed
# Makes itself expensive to profile.
build/fixtures/hostile: tests/fixtures/hostile.cc tests/fixtures/runtime.h build/fixtures/libtensorflow_framework.so.2
	$(CXX) $(FIXTURE_CXXFLAGS) -fPIE -pie -o $@ $< build/fixtures/libtensorflow_framework.so.2 -lpthread '-Wl,-rpath,$$ORIGIN'
fixtures: build/fixtures/hostile
# Serves through OpenSSL's library.
build/fixtures/encrypted: tests/fixtures/encrypted.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -D_GNU_SOURCE -fPIE -pie -o $@ $< -lssl -lcrypto -lpthread
fixtures: build/fixtures/encrypted
# Processes that have the pid of another one.
build/fixtures/reuse: tests/fixtures/reuse.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -O2 -g -D_GNU_SOURCE -fPIE -pie -o $@ $< -lpthread
fixtures: build/fixtures/reuse
# A program with the name, and names of functions, of TensorFlow's model server.
build/fixtures/tensorflow_model_server: tests/fixtures/serving.cc
	@mkdir -p $(@D)
	$(CXX) $(FIXTURE_CXXFLAGS) -fPIE -pie -o $@ $< -lpthread
fixtures: build/fixtures/tensorflow_model_server
fixtures: build/fixtures/marking build/fixtures/marking_cxx
fixtures: build/fixtures/throwing build/fixtures/one_program build/fixtures/actor \
	build/fixtures/impostor/libtensorflow_framework.so.2

# Generated functions, by both compilers, and a program that probes their sites; the seed of each library comes from its name.
SITE_FUNCTIONS := 400
SITE_LEVELS := 0 1 2 3
SITE_NAMES := $(foreach cc,gcc clang,$(foreach level,$(SITE_LEVELS),$(cc)-O$(level) $(cc)-O$(level)-cf))
SITE_LIBRARIES := $(SITE_NAMES:%=build/sites/%.so)
SITE_CFLAGS := -std=gnu11 -g0 -w -I. -fPIC -shared -Wl,-Bsymbolic
# Other options that change prologues.
SITE_CFLAGS_1 := -fno-omit-frame-pointer
SITE_CFLAGS_2 := -fstack-clash-protection
SITE_CFLAGS_3 := -fstack-protector-strong
site_level = $(patsubst O%,%,$(word 2,$(subst -, ,$(1))))
build/sites/%.c: tests/sites/generate.py
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)python3 $< $$(printf '%s' '$*' | cksum | cut -d' ' -f1) $(SITE_FUNCTIONS) $@
build/sites/%.so: build/sites/%.c tests/sites/functions.h
	$(call say,LINK,$@)
	$(Q)$(firstword $(subst -, ,$*)) $(SITE_CFLAGS) -O$(call site_level,$*) $(SITE_CFLAGS_$(call site_level,$*)) \
		-fcf-protection=$(if $(findstring -cf,$*),full,none) -o $@ $<

# The BPF program of these tests, with its skeleton.
$(GEN)/sites/trace.bpf.o: tests/sites/trace.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
$(GEN)/sites/trace.skel.h: $(GEN)/sites/trace.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name trace_bpf > $@
SITE_OBJ := $(call objects,$(filter-out %.bpf.c,$(wildcard tests/sites/*.c)))
$(OBJ)/tests/sites/trace.o: $(GEN)/sites/trace.skel.h
$(OUT)/sites/probe_sites: $(SITE_OBJ) $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) -ldl
build/sites/libstarts.so: tests/sites/starts.S
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -nostdlib -o $@ $<
CHECK_SITES := build/sites/probe_sites check build/sites/*-O*.so
sites: $(OUT)/sites/probe_sites $(SITE_LIBRARIES)
.PHONY: sites

# What lib/elf finds in a file, for tests/e2e/test_sources.py.
build/fixtures/elf_sources: $(OBJ)/tests/sources/elf_sources.o $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
fixtures: build/fixtures/elf_sources

# Made-up requests and batches as an XSpace, for tests/e2e/test_request_pages.py.
build/fixtures/requests_xspace: $(OBJ)/tests/pages/requests_xspace.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
fixtures: build/fixtures/requests_xspace

# The programs with places that can be made to fail, for tests/e2e/test_allocations.py.
FAULTY := malloc calloc realloc reallocarray strdup strndup open_memstream fopen fdopen __asprintf_chk __vasprintf_chk mmap posix_memalign \
	pthread_create syscall bpf_map_create bpf_link_create bpf_prog_load bpf_map_update_elem bpf_iter_create
WRAP := $(FAULTY:%=-Wl,--wrap=%)
build/faults/tfprofd: $(OBJ)/daemon/main.o $(OBJ)/tests/faults/faults.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(WRAP) -o $@ $^ $(LDLIBS)
build/faults/tfprofctl: $(call objects,$(CLI_SRC)) $(OBJ)/tests/faults/faults.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(WRAP) -o $@ $^ $(LDLIBS)
build/faults/tests/test_%: $(OBJ)/tests/unit/test_%.o $(OBJ)/tests/faults/faults.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(WRAP) -o $@ $^ $(LDLIBS)
FAULTY_UNITS := $(UNIT_SRC:tests/unit/%.c=build/faults/tests/%)
fixtures: build/faults/tfprofd build/faults/tfprofctl $(FAULTY_UNITS)

# A front that was taken over, for tests/e2e/test_hostile_front.py.
build/fixtures/hostile_front: $(OBJ)/tests/hostile/hostile_front.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
fixtures: build/fixtures/hostile_front

# Prints the verdict of another kernel's verifier on the programs, for tests/kernels.
$(OUT)/kernels/verifier: $(OBJ)/tests/kernels/verifier.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Daemons for tests/e2e/test_refused.py and test_sockets.py with programs that every verifier refuses: those of the scheduler, the one of
# probes, and those at sockets, in place of which others follow system calls.
REFUSED := build/refused-switches build/refused-probe build/refused-sockets
define refused_rules
$(1)/$(2).bpf.o: bpf/$(2).bpf.c tests/kernels/refused.h $$(BPF_OBJ)
	@mkdir -p $$(@D)/bpf
	$$(call say,BPF,$$@)
	$$(Q)$$(CLANG) $$(BPF_CFLAGS) $(3) -include tests/kernels/refused.h -c -o $$@ $$<
$(1)/bpf/tfprofd.skel.h: $(1)/$(2).bpf.o
	$$(Q)$$(BPFTOOL) gen object $(1)/linked.o $$< $$(filter-out %/$(2).bpf.o,$$(BPF_OBJ))
	$$(Q)$$(BPFTOOL) gen skeleton $(1)/linked.o name tfprofd_bpf > $$@
$(1)/%.o: daemon/broker/kernel/%.c $(1)/bpf/tfprofd.skel.h $$(LIB_OBJ)
	$$(call say,CC,$$@)
	$$(Q)$$(CC) -I$(1) $$(CPPFLAGS) $$(ALL_CFLAGS) -c -o $$@ $$<
$(1)/tfprofd: $$(OBJ)/daemon/main.o $(1)/program_cache.o $(1)/examine.o $$(OUT)/libtfprofd.a $$(OUT)/libcommon.a
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
$(1)/tfprofctl: $$(OUT)/tfprofctl $(1)/tfprofd
	$$(Q)cp $$< $$@
endef
$(eval $(call refused_rules,build/refused-switches,sched,-DREFUSE_SWITCHES))
$(eval $(call refused_rules,build/refused-probe,probe,))
$(eval $(call refused_rules,build/refused-sockets,socket,-DREFUSE_SOCKETS))
PRELOADED := build/fixtures/refuse_returns.so build/fixtures/refuse_sockets.so build/fixtures/skip_programs.so
fixtures: $(REFUSED:%=%/tfprofctl) $(PRELOADED)
$(PRELOADED): build/fixtures/%.so: tests/fixtures/%.c tests/fixtures/system_call.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARNINGS) -I. -D_GNU_SOURCE -O2 -fPIC -shared -o $@ $< -ldl

# A runtime that no release knows, and a daemon and a tfprofctl that do: with packs of their own beside the others.
MACHINE_CFLAGS := -std=gnu11 $(WARNINGS) -O2 -g -I. -D_GNU_SOURCE -fcf-protection=full
build/fixtures/libmachine.so: tests/fixtures/machine.c tests/fixtures/machine.h
	@mkdir -p $(@D)
	$(CC) $(MACHINE_CFLAGS) -fPIC -shared -s -Wl,--build-id=sha1 -o $@ $<
build/fixtures/machine_server: tests/fixtures/machine_server.c tests/fixtures/machine.h build/fixtures/libmachine.so
	$(CC) $(MACHINE_CFLAGS) -fPIE -pie -o $@ $< build/fixtures/libmachine.so -lpthread '-Wl,-rpath,$$ORIGIN'
MACHINE_PACKS := build/machine/packs.o build/machine/machine.o
build/machine/packs.o: daemon/plan/packs.c
build/machine/machine.o: tests/fixtures/packs/machine.c
$(MACHINE_PACKS): tests/fixtures/packs/daemon/plan/packs/list.h tests/fixtures/machine.h $(wildcard daemon/plan/*.h include/*.h)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -Itests/fixtures/packs $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $(filter %.c,$^)
build/machine/tfprofd: $(OBJ)/daemon/main.o $(MACHINE_PACKS) $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
build/machine/tfprofctl: $(call objects,$(CLI_SRC)) $(MACHINE_PACKS) $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
fixtures: build/fixtures/machine_server build/machine/tfprofd build/machine/tfprofctl

# The tests come in three tiers: `make test` before a commit, `make check` before a merge, `make long` before a release. SHARD=I/N runs the
# I-th of N parts of check or long; parts are of about the same length by tests/durations.txt, which a run writes anew as build/durations.txt.
UNIT_NAMES := $(UNIT_BIN:$(OUT)/tests/%=%)
GCC_UNITS := $(UNIT_NAMES:%=build/tests/%)
SAN_UNITS := $(UNIT_NAMES:%=build/san/tests/%)
# Recordings of captures, replayed.
CHECK_GOLDEN := tests/golden/check
# End-to-end tests that measure nothing, name the processes that they capture, and leave other daemons their ports: whole files, and parts of
# files whose other tests run alone. Recorders of other tests record their processes: none relies on a process without probes.
E2E_BESIDE := any_server.py audit.py batches.py bench.py browser.py canaries.py config.py diagnostics.py encrypted.py encrypted_grpc.py grpc.py \
	jax.py modes.py mutations.py onnxruntime.py packaging.py pages.py privileges.py pytorch.py refused.py replay.py request_pages.py serving_names.py \
	sockets.py sources.py stripped.py triton.py usdt.py usdt_header.py
E2E_BESIDE_PARTS := device_plane.py+Replayed+Live faults.py+written_whole+list_of machine.py+own_log+plan_says models.py+.Modules openvino.py+Harmless+Served \
	options.py+.Filters+.Sockets+Address cli.py+BadUsage+.Answers+Private+WithDaemon discovery.py+Plans+Changes+Places \
	plan.py+.Answers+OpsAtEntry make.py+demo recorder.py+.Refusals lifecycle.py+Authorisation+Targets \
	authority.py+Matrix+cannot_be_used+next_broker captures.py+.Limits+.Stop+XprofServer+Later+sanitizers+Windows \
	scripts.py+Hostile+Others stacks.py+BadUsage+replay+of_the_kernel+only_the_target+nothing_is triggers.py+Readers+.Reload+Faults \
	supervisor.py+stay_connected+new_connections+keep_their_ports+last_reload+recorder_goes_on+again_and_again+stops_when_asked \
	listeners.py+h2spec+older_TLS+after_SIGHUP+without_a_certificate+wrong_certificate+.Reload
E2E_FILES := $(patsubst tests/e2e/test_%,%,$(sort $(wildcard tests/e2e/test_*.py)))
part_file = $(firstword $(subst +, ,$(1)))
E2E_ALONE := $(filter-out $(E2E_BESIDE) $(foreach part,$(E2E_BESIDE_PARTS),$(call part_file,$(part))),$(E2E_FILES)) $(subst +,+^,$(E2E_BESIDE_PARTS))
# Each as a file and words: "$(PYTHON) tests/e2e/test_cli.py BadUsage".
e2e_commands = $(foreach test,$(1),"$(PYTHON) tests/e2e/test_$(subst +, ,$(test))")
# What make test runs of them: each a file, with the words that choose its tests.
E2E_SHORT := cli.py+BadUsage+a_capture_writes+it_captures_and_is_gone config.py replay.py+at_every_level+WithoutDaemon \
	sockets.py+pipelined+forms_of+every_form tensorboard.py+native_servers_own_port lifecycle.py+across_every_probed_frame+broker_killed \
	recorder.py+has_ended startup.py+python_server
KERNELS := $(PYTHON) tests/kernels/kernels.py
KERNEL_PROGRAMS := $(OUT)/kernels/verifier
RUN = ./tests/run $(if $(SHARD),--shard $(SHARD))
TEST_PROGRAMS = all servers fixtures sites $(UNIT_BIN)
.PHONY: golden clang test check long e2e kernels sanitized

# Every C source must also compile with clang, with the same warnings; dependencies are noted, so that only what changed is compiled again.
CLANG_SOURCES := $(LIB_SRC) $(DAEMON_SRC) $(CLI_SRC) daemon/main.c $(UNIT_SRC) $(filter-out %.bpf.c,$(wildcard tests/sites/*.c)) \
	$(wildcard tests/sources/*.c tests/pages/*.c tests/kernels/*.c tests/hostile/*.c tests/faults/*.c) tests/bench/empty_probe.c include/tfprof.c
CLANG_CHECKED := $(CLANG_SOURCES:%.c=build/clang/%.checked)
build/clang/tests/sites/trace.checked: $(GEN)/sites/trace.skel.h
build/clang/tests/bench/empty_probe.checked: $(GEN)/bench/empty.skel.h
build/clang/%.checked: %.c | $(PROTO_C) $(GEN)/proto/descriptor_set.h $(SKEL)
	@mkdir -p $(@D)
	$(call say,CLANG,$<)
	$(Q)$(CLANG) $(CPPFLAGS) $(filter-out -ftrivial-auto-var-init=%,$(ALL_CFLAGS)) -fsyntax-only -MMD -MP -MT $@ -MF build/clang/$*.d $<
	@touch $@
clang: $(CLANG_CHECKED)
	@echo "$(words $(CLANG_CHECKED)) passed, 0 failed"
-include $(shell find build/clang -name '*.d' 2>/dev/null)

# Static analysis, for long: gcc's analyzer, and a short list of clang-tidy's checks. Left out are kinds of reports that are wrong for this code:
# the analyzer loses sight of pointers that structures own and of what a cleanup attribute sees, and of the checks those about style, and those
# that reject functions of the C library.
ANALYZER := -fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value
comma := ,
empty :=
TIDY_CHECKS := -* bugprone-* cert-* clang-analyzer-security.* $(addprefix -bugprone-,branch-clone easily-swappable-parameters \
	implicit-widening-of-multiplication-result macro-parentheses misplaced-widening-cast narrowing-conversions not-null-terminated-result \
	reserved-identifier sizeof-expression suspicious-memory-comparison suspicious-string-compare) \
	$(addprefix -cert-,dcl37-c dcl51-cpp err33-c err34-c exp42-c flp37-c) \
	$(addprefix -clang-analyzer-security.insecureAPI.,DeprecatedOrUnsafeBufferHandling strcpy)
ANALYZED := $(LIB_SRC) $(DAEMON_SRC) $(CLI_SRC) daemon/main.c include/tfprof.c
ANALYZED_STAMPS := $(ANALYZED:%.c=build/analyze/%.checked)
.PHONY: analyze
build/analyze/%.checked: %.c | $(PROTO_C) $(GEN)/proto/descriptor_set.h $(SKEL)
	@mkdir -p $(@D)
	$(call say,ANALYZE,$<)
	$(Q)gcc $(CPPFLAGS) $(filter-out -fsanitize=%,$(ALL_CFLAGS)) $(ANALYZER) -MMD -MP -MT $@ -MF build/analyze/$*.d -c -o /dev/null $<
	$(Q)clang-tidy-14 --quiet --checks='$(subst $(empty) ,$(comma),$(TIDY_CHECKS))' --warnings-as-errors='*' $< -- -std=gnu11 $(CPPFLAGS) 2>/dev/null
	@touch $@
analyze: $(ANALYZED_STAMPS)
	@echo "$(words $(ANALYZED_STAMPS)) passed, 0 failed"
-include $(shell find build/analyze -name '*.d' 2>/dev/null)

sanitized:
	$(MAKE) SAN=address,undefined all $(SAN_UNITS) fuzz_checks

unit: $(UNIT_BIN) $(OUT)/tfprofctl
	@$(RUN) 300 --beside $(UNIT_BIN) "$(CHECK_GOLDEN) $(OUT)/tfprofctl"

# After a change of the output: review the difference before committing it.
golden: build/tfprofctl
	$(CHECK_GOLDEN) --update build/tfprofctl

e2e: all servers fixtures sites sanitized $(GO_TOOLS) $(KERNEL_PROGRAMS)
	@$(RUN) 900 --beside $(call e2e_commands,$(E2E_BESIDE) $(E2E_BESIDE_PARTS)) --alone "$(CHECK_SITES)" $(call e2e_commands,$(E2E_ALONE))

# The tests that a change most likely breaks, in minutes.
test: deps
	$(MAKE) -j$(shell nproc) $(TEST_PROGRAMS)
	@$(RUN) 300 --beside ./tests/lint $(GCC_UNITS) "$(CHECK_GOLDEN) build/tfprofctl" \
		--alone "$(CHECK_SITES)" $(call e2e_commands,$(E2E_SHORT))

# Everything except the long tests.
CHECKS = --beside ./tests/lint "$(MAKE) -s clang" $(GCC_UNITS) $(SAN_UNITS) "$(CHECK_GOLDEN) build/tfprofctl" "$(CHECK_GOLDEN) build/san/tfprofctl" \
	"nice -n 19 tests/fuzz/run --check $(CHECK_FUZZ_SECONDS) $(FUZZ_NAMES)" \
	$(call e2e_commands,$(E2E_BESIDE) $(E2E_BESIDE_PARTS)) --alone "$(CHECK_SITES)" $(call e2e_commands,$(E2E_ALONE)) "$(KERNELS) --short"
check: deps
	$(MAKE) -j$(shell nproc) $(TEST_PROGRAMS) sanitized $(GO_TOOLS) $(KERNEL_PROGRAMS)
	@$(RUN) 900 $(CHECKS)

# The long tests: all random cases with sanitizers, too, full counts, faults and mutations by the hundred, and all tests on Debian's kernels.
LONG_E2E := allocations.py captures.py+thousand+sanitizers+cycles discovery.py+storm_of encrypted_grpc.py event_loops.py harm.py+Kills+hundreds hostile_target.py jax.py+Harmless \
	load.py+each_record modes.py+256 mutations.py+Mutations onnxruntime.py+Harmless openvino.py+Harmless other_users.py+Reuse overview.py perf_record.py pytorch.py+Harmless requests.py sampling.py scripts.py stacks.py unwinding.py
long: export CHECK_LONG := 1
long: deps
	$(MAKE) -j$(shell nproc) $(TEST_PROGRAMS) sanitized $(GO_TOOLS) $(KERNEL_PROGRAMS)
	$(FUZZ_BUILD) -j$(shell nproc) fuzzers
	@$(RUN) 3600 --beside $(GCC_UNITS) $(SAN_UNITS) "$(MAKE) -s analyze" --alone "tests/fuzz/run $(SECONDS) $(FUZZ_NAMES)" $(call e2e_commands,$(LONG_E2E)) "$(KERNELS)"

# Debian's kernels, in an emulator: all of tests/kernels, which writes docs/kernels.md. A short form is part of check.
kernels: deps
	$(MAKE) -j$(shell nproc) all servers fixtures sites $(UNIT_BIN) $(KERNEL_PROGRAMS)
	$(KERNELS)

# Several releases of each runtime; writes docs/releases.md.
.PHONY: releases
releases: deps
	$(MAKE) all servers
	$(PYTHON) tests/releases/tensorflow.py
	$(PYTHON) tests/releases/onnxruntime.py
	$(PYTHON) tests/releases/triton.py
	$(PYTHON) tests/releases/jax.py
	$(PYTHON) tests/releases/openvino.py
	$(PYTHON) tests/releases/pytorch.py
	$(PYTHON) tests/releases/cpython.py

# make bench
$(GEN)/bench/empty.bpf.o: tests/bench/empty.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
$(GEN)/bench/empty.skel.h: $(GEN)/bench/empty.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name empty_bpf > $@
$(OBJ)/tests/bench/empty_probe.o: $(GEN)/bench/empty.skel.h
$(OUT)/bench/empty_probe: $(OBJ)/tests/bench/empty_probe.o $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# BENCH_SECONDS, BENCH_ROUNDS, BENCH_PAIRS and BENCH_TIMES shorten or lengthen it; BENCH_ONLY names the parts to run (tests/bench/run.py --list).
bench: deps
	$(MAKE) all servers $(OUT)/bench/empty_probe $(OUT)/sites/probe_sites build/sites/libstarts.so
	$(PYTHON) tests/bench/run.py

# The fuzzers of tests/fuzz, by libFuzzer with sanitizers: SECONDS of CPU time each. They begin with the inputs that earlier runs found
# (tests/fuzz/corpus).
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
SECONDS ?= 60
FUZZ_BUILD = $(MAKE) CC=$(CLANG) VARIANT=fuzz SAN=fuzzer-no-link,address,undefined
.PHONY: fuzz fuzzers
$(OUT)/libtfprofctl.a: $(call objects,$(filter-out cli/main.c,$(CLI_SRC)))
$(OUT)/fuzz_%: tests/fuzz/fuzz_%.c $(OUT)/libtfprofctl.a $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	$(call say,LINK,$@)
	$(Q)$(CC) -Itests/fuzz/native $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -fsanitize=fuzzer -MMD -MP -o $@ $^ $(LDLIBS)
fuzzers: $(FUZZ_NAMES:%=$(OUT)/fuzz_%)
# The same without libFuzzer, of the build with sanitizers, for check: each input of the corpora, and changed ones.
CHECK_FUZZ_SECONDS ?= 5
.PHONY: fuzz_checks
$(OUT)/fuzz/%: tests/fuzz/fuzz_%.c tests/fuzz/main.c $(wildcard tests/fuzz/*.h tests/fuzz/native/bpf/*.h) \
		$(OUT)/libtfprofctl.a $(OUT)/libtfprofd.a $(OUT)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -Itests/fuzz/native $(CPPFLAGS) $(ALL_CFLAGS) -Wno-unknown-pragmas -Wno-sign-compare $(LDFLAGS) -o $@ $(filter-out %.h,$^) $(LDLIBS)
fuzz_checks: $(FUZZ_NAMES:%=$(OUT)/fuzz/%)
fuzz:
	$(FUZZ_BUILD) fuzzers
	tests/fuzz/run $(SECONDS) $(FUZZ_NAMES)
