/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub process of a model instance of Triton's Python backend: it executes the batches that the
 * server, its parent, hands to it by shared memory, one after the other, in the function execute()
 * of the model. Facts of the stubs in wheels nvidia-pytriton 0.4.2 to 0.7.0 (servers 2.39.0 to
 * 2.51.0), which have symbols: the loop of the first thread waits for a message in RunCommand(),
 * which calls ProcessRequests() for a batch.
 */
#include <stddef.h>

#include "daemon/plan/model.h"

#define STUB "_ZN6triton7backend6python4Stub"
#define PROCESS                                                                                    \
	OPEN(CHILD), .action = ACTION_ENTRY, .min_level = 1, .event = "Stub::ProcessRequests"

static const struct probe_row rows[] = {
	{ .symbol = STUB "15ProcessRequestsE*", PROCESS },
	{ .symbol = STUB "24ProcessRequestsDecoupledE*", PROCESS },
	/* It waits for the next message. */
	{ .symbol = STUB "10RunCommandEv", CLOSE(CHILD), .action = ACTION_ENTRY, .min_level = 1 },
};

static const char *const files[] = { NULL };
static const char *const executables[] = { "triton_python_backend_stub", NULL };

/* Of each wheel, for CPython 3.8 to 3.13. */
static const struct known_build builds[] = {
	{ "1ab95e8be3848733119fb0365cafae415e66bf2a", "2.39.0" },
	{ "cac04b3ef8cf2f9bd60908b9f4c92564716347e6", "2.39.0" },
	{ "ebd5a6944aa724eb4d068283ed3bc0f26042f800", "2.39.0" },
	{ "63433c2ba21cbf023df3f43ceb95073054357fc2", "2.39.0" },
	{ "24ba9842157200f2e2a4c6c29b8d6a3b762b0ca8", "2.41.0" },
	{ "15b450efaf9df6df9eaa165a7b3cf7dce7d6b38e", "2.41.0" },
	{ "93208cc97cf041b185d6cbe92bc36c4f7dfb4dc2", "2.41.0" },
	{ "3c6c7be885ba36a0b8d4aa7526295114c7a7a249", "2.41.0" },
	{ "1af3cfe66fa1da4e7bc0ebce11f23f6c20bed023", "2.44.0" },
	{ "518e9359ad237542f3cb29f0e4faf65698138301", "2.44.0" },
	{ "f4966ad5a898ac25cb42fe1188e22f7af5b10cbe", "2.44.0" },
	{ "7482eed8db2db72ce4989c4b3dd9a59ee805c31e", "2.44.0" },
	{ "4e6a09c7da0fc984ba3b6ce46cf955841d1b8402", "2.44.0" },
	{ "74f33c3c4692c98dc1b936d59a68b449ac52a6da", "2.49.0" },
	{ "8d355ba4be1a92be3b4ba327c447cd82b3d9bb18", "2.49.0" },
	{ "0503840dc7147d27693443c46a94f8050185084f", "2.49.0" },
	{ "49d3917d5f3aabe10d14f53557a870ce242f4437", "2.49.0" },
	{ "ee5b3b11c658ea28057f2514169fdf7632a2bf3f", "2.49.0" },
	{ "29b9b5d597b479b13250f9c171187214b7ea439c", "2.51.0" },
	{ "c93b4b55f5bf6791dbb649a24958a1c6f2acd375", "2.51.0" },
	{ "f63bb83e2697b0001ce5180e302aa120678021c4", "2.51.0" },
	{ "38633c2af8ea50b9e412f61da640ba1bb44a7930", "2.51.0" },
	{ "a4d03586298630fd99902e3cca2e174edf221505", "2.51.0" },
	{ "820095d940c03d8fa94f81bcecdd8bd74ce6638d", "2.51.0" },
	{},
};

const struct pack pack_triton_python = {
	.name = "Triton Python stub",
	.files = files,
	.executables = executables,
	.works_for_parent = true,
	.builds = builds,
	.rows = rows,
	.n_rows = sizeof(rows) / sizeof(rows[0]),
};
