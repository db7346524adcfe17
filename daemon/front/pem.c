/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/pem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/base/text_file.h"

#define PEM_MAX (1 << 20)

int pem_read(const int fds[static PEM_COUNT], const bool wanted[static PEM_COUNT],
	     struct grpc_tls **ret, char *ret_text, size_t text_size)
{
	static const char *const names[PEM_COUNT] = { "tls-cert", "tls-key", "tls-client-ca",
						      "tls-crl" };
	char *texts[PEM_COUNT] = {};
	int r = 0;

	for (unsigned i = 0; r == 0 && i < PEM_COUNT; i++) {
		if (fds[i] < 0 && !wanted[i])
			continue;
		r = fds[i] < 0 ? -ENOENT : text_file_read_fd(fds[i], PEM_MAX, &texts[i]);
		if (r < 0)
			snprintf(ret_text, text_size, "cannot read %s: %s", names[i], strerror(-r));
	}
	if (r == 0)
		r = grpc_tls_server_new(
			&(struct grpc_tls_options){ texts[PEM_CERTIFICATE], texts[PEM_KEY],
						    texts[PEM_CLIENT_CA], texts[PEM_REVOKED] },
			ret, ret_text, text_size);
	for (unsigned i = 0; i < PEM_COUNT; i++) {
		if (texts[i])
			explicit_bzero(texts[i], strlen(texts[i]));
		free(texts[i]);
	}
	return r;
}
