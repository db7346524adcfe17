/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/certificates.h"
#include "daemon/front/pem.h"
#include "lib/base/macro.h"

int settings_read_tls(const struct config *config, struct grpc_tls **ret, char *ret_text,
		      size_t text_size)
{
	const char *const paths[PEM_COUNT] = { config->tls_certificate, config->tls_key,
					       config->tls_client_ca, config->tls_revoked };
	struct certificates *certificates;
	bool wanted[PEM_COUNT];
	int fds[PEM_COUNT], r = 0;

	*ret = NULL;
	if (!*config->tls_certificate)
		return 0;
	/* The broker reads it again. */
	if (*config->tls_users) {
		r = certificates_read(config->tls_users, &certificates, ret_text, text_size);
		if (r < 0)
			return r;
		certificates_free(certificates);
	}
	for (unsigned i = 0; i < PEM_COUNT; i++) {
		fds[i] = *paths[i] && r == 0 ? open(paths[i], O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
		if (*paths[i] && r == 0 && fds[i] < 0) {
			r = -errno;
			snprintf(ret_text, text_size, "cannot read %s: %s", paths[i], strerror(-r));
		}
	}
	for (unsigned i = 0; i < PEM_COUNT; i++)
		wanted[i] = *paths[i];
	if (r == 0)
		r = pem_read(fds, wanted, ret, ret_text, text_size);
	for (unsigned i = 0; i < PEM_COUNT; i++)
		safe_close(fds[i]);
	return r;
}

static void ignore(const char *name, void *data)
{
}

void settings_renew(struct config **config, struct grpc_tls **tls, int argc, char *argv[])
{
	const char *path = (*config)->file;
	struct config *renewed;
	struct grpc_tls *certificate;
	char text[600];
	int fd = *path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;

	if (*path && fd < 0)
		return;
	if (config_renew(*config, argc, argv, fd, ignore, NULL, &renewed, text, sizeof(text)) < 0)
		return;
	if (settings_read_tls(renewed, &certificate, text, sizeof(text)) < 0) {
		config_free(renewed);
		return;
	}
	config_free(*config);
	grpc_tls_free(*tls);
	*config = renewed;
	*tls = certificate;
}
