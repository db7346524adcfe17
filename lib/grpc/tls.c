/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/macro.h"

struct grpc_tls {
	SSL_CTX *context;
	BIO_METHOD *sockets;
	bool is_server;
	unsigned n_refs;
};

/* In the form of ALPN: a length and the name. */
static const unsigned char http2[] = "\2h2";

static int refuse(char *text, size_t text_size, const char *what)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	snprintf(text, text_size, "%s: %s", what, reason ? reason : "no PEM block of this kind");
	ERR_clear_error();
	return -EINVAL;
}

/* The daemon's keys are not encrypted; without this OpenSSL would ask at the terminal. */
static int no_passphrase(char *buffer, int size, int is_for_writing, void *data)
{
	return -1;
}

static BIO *text_bio(const char *text)
{
	return BIO_new_mem_buf(text, -1);
}

static int use_certificate(SSL_CTX *context, const char *text)
{
	BIO *bio = text_bio(text);
	X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
	bool is_used = certificate && SSL_CTX_use_certificate(context, certificate) == 1;

	X509_free(certificate);
	while (is_used && (certificate = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)))
		if (SSL_CTX_add0_chain_cert(context, certificate) != 1) {
			X509_free(certificate);
			is_used = false;
		}
	BIO_free(bio);
	return is_used ? 0 : -EINVAL;
}

static int use_key(SSL_CTX *context, const char *text)
{
	BIO *bio = text_bio(text);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
	bool is_used = key && SSL_CTX_use_PrivateKey(context, key) == 1 &&
		       SSL_CTX_check_private_key(context) == 1;

	EVP_PKEY_free(key);
	BIO_free(bio);
	return is_used ? 0 : -EINVAL;
}

/* Trusts the authorities in the text; a server lists them to its clients. */
static int use_authorities(SSL_CTX *context, const char *text)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	BIO *bio = text_bio(text);
	X509 *certificate;
	int n = 0;

	while (bio && (certificate = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL))) {
		bool is_used = X509_STORE_add_cert(store, certificate) == 1 &&
			       SSL_CTX_add_client_CA(context, certificate) == 1;

		X509_free(certificate);
		if (!is_used) {
			n = 0;
			break;
		}
		n++;
	}
	BIO_free(bio);
	return n ? 0 : -EINVAL;
}

/* Client certificates are looked up in the list of their authority; one whose authority has no list
 * is refused. */
static int use_revoked(SSL_CTX *context, const char *text)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	BIO *bio = text_bio(text);
	X509_CRL *list;
	int n = 0;

	while (bio && n >= 0 && (list = PEM_read_bio_X509_CRL(bio, NULL, no_passphrase, NULL))) {
		n = X509_STORE_add_crl(store, list) == 1 ? n + 1 : -1;
		X509_CRL_free(list);
	}
	BIO_free(bio);
	return n > 0 && X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1 ? 0 : -EINVAL;
}

static int choose_http2(SSL *ssl, const unsigned char **ret, unsigned char *ret_size,
			const unsigned char *offered, unsigned offered_size, void *data)
{
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, ret_size, http2, sizeof(http2) - 1, offered,
				  offered_size) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static int fill_context(SSL_CTX *context, const struct grpc_tls_options *options, bool is_server,
			char *text, size_t text_size)
{
	ERR_clear_error();
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1)
		return -ENOMEM;
	if (options->certificate && use_certificate(context, options->certificate) < 0)
		return refuse(text, text_size, "the certificate cannot be used");
	if (options->certificate && (!options->key || use_key(context, options->key) < 0))
		return refuse(text, text_size, "the key cannot be used with the certificate");
	if (options->authorities && use_authorities(context, options->authorities) < 0)
		return refuse(text, text_size,
			      "the certificates of the authorities cannot be used");
	if (options->revoked && use_revoked(context, options->revoked) < 0)
		return refuse(text, text_size, "the list of revoked certificates cannot be used");
	/* The error that marked the end of a text is expected. */
	ERR_clear_error();
	if (is_server) {
		SSL_CTX_set_alpn_select_cb(context, choose_http2, NULL);
		SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
		/* A resumed session would not identify the certificate with which it was begun. */
		SSL_CTX_set_num_tickets(context, 0);
		if (options->authorities)
			SSL_CTX_set_verify(context,
					   SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
		return 0;
	}
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_set_alpn_protos(context, http2, sizeof(http2) - 1) != 0 ||
	    (!options->authorities && SSL_CTX_set_default_verify_paths(context) != 1))
		return -ENOMEM;
	return 0;
}

/* A socket BIO that, unlike OpenSSL's own, raises no SIGPIPE. */
static int socket_write(BIO *bio, const char *bytes, int size)
{
	ssize_t n = send((int)(intptr_t)BIO_get_data(bio), bytes, (size_t)size,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)n;
}

static int socket_read(BIO *bio, char *bytes, int size)
{
	ssize_t n = recv((int)(intptr_t)BIO_get_data(bio), bytes, (size_t)size, MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	return (int)n;
}

static long socket_control(BIO *bio, int command, long number, void *data)
{
	return command == BIO_CTRL_FLUSH;
}

static int sockets_new(BIO_METHOD **ret)
{
	*ret = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "a socket without signals");
	if (!*ret || BIO_meth_set_write(*ret, socket_write) != 1 ||
	    BIO_meth_set_read(*ret, socket_read) != 1 ||
	    BIO_meth_set_ctrl(*ret, socket_control) != 1)
		return -ENOMEM;
	return 0;
}

static int tls_new(const struct grpc_tls_options *options, bool is_server, struct grpc_tls **ret,
		   char *text, size_t text_size)
{
	struct grpc_tls *tls = calloc(1, sizeof(*tls));
	int r = -ENOMEM;

	snprintf(text, text_size, "out of memory");
	if (!tls)
		return r;
	tls->n_refs = 1;
	tls->context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
	if (tls->context)
		r = sockets_new(&tls->sockets);
	if (r == 0)
		r = fill_context(tls->context, options, is_server, text, text_size);
	if (r < 0) {
		grpc_tls_free(tls);
		return r;
	}
	tls->is_server = is_server;
	*ret = tls;
	return 0;
}

int grpc_tls_server_new(const struct grpc_tls_options *options, struct grpc_tls **ret,
			char *ret_text, size_t text_size)
{
	return tls_new(options, true, ret, ret_text, text_size);
}

int grpc_tls_client_new(const struct grpc_tls_options *options, struct grpc_tls **ret,
			char *ret_text, size_t text_size)
{
	return tls_new(options, false, ret, ret_text, text_size);
}

struct grpc_tls *grpc_tls_free(struct grpc_tls *tls)
{
	if (!tls || --tls->n_refs)
		return NULL;
	SSL_CTX_free(tls->context);
	BIO_meth_free(tls->sockets);
	free(tls);
	return NULL;
}

struct grpc_tls *grpc_tls_ref(struct grpc_tls *tls)
{
	tls->n_refs++;
	return tls;
}

static int expect_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *parameters = SSL_get0_param(ssl);

	/* An address is only compared with addresses, and is not sent as a server name. */
	if (X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1)
		return 0;
	ERR_clear_error();
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1 ? 0
											 : -EINVAL;
}

int grpc_tls_connect(const struct grpc_tls *tls, int fd, const char *host, SSL **ret)
{
	SSL *ssl = SSL_new(tls->context);
	BIO *bio = ssl ? BIO_new(tls->sockets) : NULL;
	int r = bio ? 0 : -ENOMEM;

	if (r == 0) {
		BIO_set_data(bio, (void *)(intptr_t)fd);
		BIO_set_init(bio, 1);
		SSL_set_bio(ssl, bio, bio);
		if (tls->is_server)
			SSL_set_accept_state(ssl);
		else
			SSL_set_connect_state(ssl);
		if (host)
			r = expect_host(ssl, host);
	}
	if (r < 0) {
		SSL_free(ssl);
		return r;
	}
	*ret = ssl;
	return 0;
}
