/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/certificates.h"
#include "daemon/front/pem.h"
#include "lib/base/log.h"
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

static int read_again(const struct config *old, int argc, char *argv[], struct config **ret,
		      struct grpc_tls **ret_tls, char *text, size_t size)
{
	int fd = *old->file ? open(old->file, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1, r;

	if (*old->file && fd < 0) {
		r = -errno;
		snprintf(text, size, "cannot read %.500s: %s", old->file, strerror(-r));
		return r;
	}
	r = config_renew(old, argc, argv, fd, ignore, NULL, ret, text, size);
	if (r < 0)
		return r;
	r = config_resolve(*ret, text, size);
	if (r == 0)
		r = settings_read_tls(*ret, ret_tls, text, size);
	if (r < 0)
		config_free(*ret);
	return r;
}

int settings_renew(struct config **config, struct grpc_tls **tls, int argc, char *argv[])
{
	struct grpc_tls *certificate;
	struct config *renewed;
	char text[600];
	int r = read_again(*config, argc, argv, &renewed, &certificate, text, sizeof(text));

	if (r < 0) {
		log_error("%s; the configuration and the certificate remain unchanged", text);
		return r;
	}
	config_free(*config);
	grpc_tls_free(*tls);
	*config = renewed;
	*tls = certificate;
	return 0;
}
