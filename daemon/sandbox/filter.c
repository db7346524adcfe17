/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/macro.h"

static void add(struct filter *f, const struct sock_filter *code, unsigned n)
{
	if (f->n + n > FILTER_MAX) {
		f->full = true;
		return;
	}
	for (unsigned i = 0; i < n; i++)
		f->code[f->n++] = code[i];
}

#define ADD(f, ...)                                                                                \
	do {                                                                                       \
		const struct sock_filter add_[] = { __VA_ARGS__ };                                 \
		add(f, add_, ARRAY_SIZE(add_));                                                    \
	} while (0)

void filter_begin(struct filter *f)
{
	f->n = 0;
	f->full = false;
	ADD(f, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
}

static void decide(struct filter *f, uint16_t call, uint32_t action)
{
	ADD(f, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, action));
}

void filter_allow(struct filter *f, const uint16_t *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		decide(f, calls[i], SECCOMP_RET_ALLOW);
}

void filter_allow_if(struct filter *f, uint16_t call, unsigned argument, uint32_t mask,
		     uint32_t value)
{
	/* Little endian: the lower half is the first one. */
	const uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + 8 * argument);

	ADD(f, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
}

void filter_refuse(struct filter *f, uint16_t call, uint16_t error)
{
	decide(f, call, SECCOMP_RET_ERRNO | error);
}

int filter_apply(struct filter *f)
{
	struct sock_fprog program = { .filter = f->code };

	ADD(f, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	if (f->full)
		return -E2BIG;
	program.len = (uint16_t)f->n;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
			       0
		       ? 0
		       : -errno;
}
