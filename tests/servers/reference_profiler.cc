/* SPDX-License-Identifier: Apache-2.0 */
// The place that needs C++: the profiler server is a class that libtensorflow_cc.so.2 exports and
// no header of the wheel declares. Its two members (a service and a gRPC server, both unique_ptr)
// are null at first.
#include "tests/servers/reference_profiler.h"

namespace tsl::profiler
{
class ProfilerServer
{
      public:
	~ProfilerServer();
	void StartProfilerServer(int port);

      private:
	void *service_ = nullptr;
	void *server_ = nullptr;
};
} // namespace tsl::profiler

namespace tsl
{
void EnableCPUAllocatorStats();
}

static tsl::profiler::ProfilerServer *server;

void reference_profiler_start(int port)
{
	server = new tsl::profiler::ProfilerServer();
	server->StartProfilerServer(port);
}

void reference_profiler_see_allocations(void)
{
	tsl::EnableCPUAllocatorStats();
}

void reference_profiler_stop(void)
{
	delete server;
	server = nullptr;
}
