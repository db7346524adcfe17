/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of the daemon, as the broker sees them. It keeps a copy of each connection: a client
 * has authority as long as its own end of the connection is open, whatever the front reports. A
 * client that has only ended its sending still waits for an answer and keeps its authority.
 *
 * The table lies in memory that outlives the broker: the next broker of the same front knows the
 * clients, and the front returns its connections (BROKER_RETURN), which their socket cookies prove
 * to be the same.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/authority.h"
#include "daemon/broker/listener.h"
#include "daemon/broker/message.h"
#include "lib/base/share.h"

struct clients;

struct clients_options {
	/* Of clients_memory_new(); borrowed. */
	int memory;
	/* Completed by the broker's own namespaces; borrowed. */
	struct authority *authority;
	/* Connections that users may hold. */
	struct share connections;
	/* Root configured the daemon to capture on its own. */
	bool captures_on_its_own;
	/* The path of the file of certificates and their users; "": none. */
	const char *certificates;
	/* Called when a client's authority ends. */
	void (*gone)(uint32_t id, void *data);
	void *data;
};

/* Memory for the table of one front's clients: a descriptor, or an error of memfd_create(2). */
int clients_memory_new(void);
/* To be called in the network namespace of the clients. -errno; the log has the reason. */
int clients_new(const struct clients_options *options, struct clients **ret);
struct clients *clients_free(struct clients *c);
/* Reads the file of certificates again. A client whose certificate belongs to another user now, or
 * to none, loses its authority. */
void clients_reload(struct clients *c);

/* Decides by other rules from now on, also about clients that are connected. */
void clients_renew(struct clients *c, const struct authority *rules);

/* Readable: clients_update() is to be called. */
int clients_fd(const struct clients *c);
/* Forgets clients that have gone. every: also looks at those of which the kernel does not report
 * it. */
void clients_update(struct clients *c, bool every);

/* BROKER_ACCEPT: accepts the next connection and identifies its client. -EACCES: this connection is
 * refused. */
int clients_accept(struct clients *c, const struct listener *listener, struct broker_message *m,
		   int *ret_fd);
/* BROKER_RETURN: connection is the copy of a client that an earlier broker accepted. -EINVAL: that
 * client has gone, or this is not its connection. */
int clients_return(struct clients *c, uint32_t id, int connection);
/* BROKER_CERTIFY: only the first name that a user has counts. -EINVAL: this client needs no
 * certificate, or has shown one. */
int clients_certify(struct clients *c, struct broker_message *m);
/* BROKER_MAY. */
int clients_may(struct clients *c, struct broker_message *m);
/* BROKER_PEER. -ECANCELED: the client has gone. */
int clients_describe(struct clients *c, struct broker_message *m);
/* The client, or the daemon for BROKER_DAEMON; NULL: it has gone, or the daemon is not configured
 * to capture. */
const struct caller *clients_caller(struct clients *c, uint32_t id);
/* Of a client that is known and begins a capture, or has begun one; its user also where clients on
 * TCP are nobody. -ECANCELED: as clients_caller(); -EACCES: no user has its certificate. */
int clients_peer(struct clients *c, uint32_t id, struct authority_peer *ret);
int clients_remove(struct clients *c, uint32_t id);
