/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/transport.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/macro.h"

#define SUBJECT_SIZE 256

struct grpc_transport {
	int fd;
	struct grpc_tls *tls; /* NULL: unencrypted */
	SSL *ssl;
	bool wants_write;
	bool is_ready; /* the handshake is complete */
	char *subject;
	char *names[GRPC_TRANSPORT_NAMES_MAX];
	unsigned n_names;
	char error[160];
};

int grpc_transport_new(int fd, struct grpc_tls *tls, const char *host, struct grpc_transport **ret)
{
	struct grpc_transport *transport = calloc(1, sizeof(*transport));
	int r = 0;

	if (!transport)
		return -ENOMEM;
	transport->fd = -1;
	if (tls)
		r = grpc_tls_connect(tls, fd, host, &transport->ssl);
	if (r < 0) {
		grpc_transport_free(transport);
		return r;
	}
	transport->fd = fd;
	transport->tls = tls ? grpc_tls_ref(tls) : NULL;
	*ret = transport;
	return 0;
}

struct grpc_transport *grpc_transport_free(struct grpc_transport *transport)
{
	if (!transport)
		return NULL;
	SSL_free(transport->ssl);
	grpc_tls_free(transport->tls);
	safe_close(transport->fd);
	free(transport->subject);
	for (unsigned i = 0; i < transport->n_names; i++)
		free(transport->names[i]);
	free(transport);
	return NULL;
}

/* The meaning of an unfinished call of OpenSSL; error is errno as it was after the call. */
static int tls_error(struct grpc_transport *transport, int returned, int error)
{
	const char *reason;

	switch (SSL_get_error(transport->ssl, returned)) {
	case SSL_ERROR_WANT_READ:
		transport->wants_write = false;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		transport->wants_write = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		if (!ERR_peek_error())
			return error ? -error : -ECONNRESET;
		/* fall through */
	default:
		break;
	}
	reason = SSL_get_verify_result(transport->ssl) != X509_V_OK
			 ? X509_verify_cert_error_string(SSL_get_verify_result(transport->ssl))
			 : ERR_reason_error_string(ERR_peek_error());
	snprintf(transport->error, sizeof(transport->error), "%s", reason ? reason : "TLS failed");
	return -EPROTO;
}

static int keep_subject(struct grpc_transport *transport)
{
	X509 *certificate = SSL_get0_peer_certificate(transport->ssl);
	BIO *bio = certificate ? BIO_new(BIO_s_mem()) : NULL;
	char text[SUBJECT_SIZE] = "";

	if (!certificate)
		return 0;
	if (!bio)
		return -ENOMEM;
	if (X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0)
		BIO_gets(bio, text, sizeof(text));
	BIO_free(bio);
	transport->subject = strdup(text);
	return transport->subject ? 0 : -ENOMEM;
}

static int keep_name(struct grpc_transport *transport, const char *prefix, const char *bytes,
		     size_t size)
{
	char name[SUBJECT_SIZE];
	int n;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] < ' ' || bytes[i] > '~')
			return 0;
	n = snprintf(name, sizeof(name), "%s%.*s", prefix, (int)MIN(size, sizeof(name)), bytes);
	if (size == 0 || n >= (int)sizeof(name) || transport->n_names == GRPC_TRANSPORT_NAMES_MAX)
		return 0;
	transport->names[transport->n_names] = strdup(name);
	return transport->names[transport->n_names++] ? 0 : -ENOMEM;
}

static int keep_alternatives(struct grpc_transport *transport, X509 *certificate)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	int r = 0;

	for (int i = 0; r == 0 && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		const char *prefix = name->type == GEN_DNS     ? "DNS:"
				     : name->type == GEN_URI   ? "URI:"
				     : name->type == GEN_EMAIL ? "email:"
							       : NULL;

		if (prefix)
			r = keep_name(transport, prefix,
				      (const char *)ASN1_STRING_get0_data(name->d.ia5),
				      (size_t)ASN1_STRING_length(name->d.ia5));
	}
	GENERAL_NAMES_free(names);
	return r;
}

/* The whole subject, and the alternative names. */
static int keep_names(struct grpc_transport *transport)
{
	X509 *certificate = SSL_get0_peer_certificate(transport->ssl);
	BIO *bio = certificate ? BIO_new(BIO_s_mem()) : NULL;
	char *text;
	long size;
	int r = 0;

	if (!certificate)
		return 0;
	if (!bio)
		return -ENOMEM;
	if (X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
		size = BIO_get_mem_data(bio, &text);
		r = keep_name(transport, "", text, (size_t)MAX(size, 0L));
	}
	BIO_free(bio);
	return r < 0 ? r : keep_alternatives(transport, certificate);
}

int grpc_transport_handshake(struct grpc_transport *transport)
{
	const unsigned char *protocol;
	unsigned protocol_size;
	int n;

	if (!transport->ssl || transport->is_ready)
		return 0;
	/* An error left by another connection would be taken for one of this connection. */
	ERR_clear_error();
	errno = 0;
	n = SSL_do_handshake(transport->ssl);
	if (n != 1) {
		n = tls_error(transport, n, errno);
		return n ? n : -ECONNRESET;
	}
	SSL_get0_alpn_selected(transport->ssl, &protocol, &protocol_size);
	if (protocol_size != 2 || memcmp(protocol, "h2", 2)) {
		snprintf(transport->error, sizeof(transport->error),
			 "the peer does not speak HTTP/2 (ALPN h2)");
		return -EPROTO;
	}
	n = keep_subject(transport);
	if (n == 0)
		n = keep_names(transport);
	transport->is_ready = n == 0;
	return n;
}

ssize_t grpc_transport_read(struct grpc_transport *transport, uint8_t *bytes, size_t size)
{
	size_t n_read;
	ssize_t n;

	if (!transport->ssl) {
		n = recv(transport->fd, bytes, size, MSG_DONTWAIT);
		if (n < 0)
			return errno == EINTR ? -EAGAIN : -errno;
		return n;
	}
	ERR_clear_error();
	errno = 0;
	n = SSL_read_ex(transport->ssl, bytes, size, &n_read);
	return n == 1 ? (ssize_t)n_read : tls_error(transport, (int)n, errno);
}

static ssize_t tls_write(struct grpc_transport *transport, const struct iovec *iov, size_t n_iov)
{
	size_t total = 0;

	for (size_t i = 0; i < n_iov; i++)
		/* One record at a time. */
		for (size_t at = 0, written; at < iov[i].iov_len; at += written, total += written) {
			int r;

			ERR_clear_error();
			errno = 0;
			r = SSL_write_ex(transport->ssl, (const uint8_t *)iov[i].iov_base + at,
					 iov[i].iov_len - at, &written);
			if (r == 1)
				continue;
			r = tls_error(transport, r, errno);
			return total ? (ssize_t)total : r ? r : -ECONNRESET;
		}
	return (ssize_t)total;
}

ssize_t grpc_transport_write(struct grpc_transport *transport, struct iovec *iov, size_t n_iov)
{
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = n_iov };
	ssize_t n;

	if (transport->ssl)
		return tls_write(transport, iov, n_iov);
	n = sendmsg(transport->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return n;
}

void grpc_transport_end(struct grpc_transport *transport)
{
	if (transport->is_ready) {
		ERR_clear_error();
		SSL_shutdown(transport->ssl);
	}
	shutdown(transport->fd, SHUT_WR);
}

int grpc_transport_fd(const struct grpc_transport *transport)
{
	return transport->fd;
}

bool grpc_transport_wants_write(const struct grpc_transport *transport)
{
	return transport->wants_write;
}

const char *grpc_transport_subject(const struct grpc_transport *transport)
{
	return transport->subject;
}

const char *grpc_transport_error(const struct grpc_transport *transport)
{
	return transport->error[0] ? transport->error : "the peer violates HTTP/2";
}

const char *grpc_transport_name(const struct grpc_transport *transport, unsigned i)
{
	return i < transport->n_names ? transport->names[i] : NULL;
}
