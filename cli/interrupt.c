/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include <stddef.h>

#include "lib/base/macro.h"

/* The only thing that a signal handler may write. */
static volatile sig_atomic_t interrupted;

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

static void on_signal(int number)
{
	interrupted = number;
}

void interrupt_catch(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction before;

		/* An ignored signal, as by nohup, remains ignored. */
		if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
}

void interrupt_release(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		signal(signals[i], SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
}

const volatile sig_atomic_t *interrupt_flag(void)
{
	return &interrupted;
}
