/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/reflection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rpc/context.h"
#include "daemon/rpc/reply.h"
#include "lib/base/macro.h"
#include "proto/descriptor.pb-c.h"
#include "proto/descriptor_set.h"
#include "proto/reflection.pb-c.h"

/* More than the served files in lib/proto/ and all that they import. */
#define FILES_MAX 16
/* Of answers that a client has not read, on one connection; and one more. */
#define QUEUED_MAX (128u << 10)

/* The embedded files, and the same unpacked. */
struct reflection_files {
	Tfprofd__Descriptor__FileSet *set;
	Tfprofd__Descriptor__File *files[FILES_MAX];
	size_t n;
};

struct reflection_files *reflection_free(struct reflection_files *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < f->n; i++)
		tfprofd__descriptor__file__free_unpacked(f->files[i], NULL);
	if (f->set)
		tfprofd__descriptor__file_set__free_unpacked(f->set, NULL);
	free(f);
	return NULL;
}

static struct reflection_files *files_new(void)
{
	struct reflection_files *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->set =
		tfprofd__descriptor__file_set__unpack(NULL, sizeof(descriptor_set), descriptor_set);
	for (size_t i = 0; f->set && i < MIN(f->set->n_file, (size_t)FILES_MAX); i++) {
		f->files[i] = tfprofd__descriptor__file__unpack(NULL, f->set->file[i].len,
								f->set->file[i].data);
		if (!f->files[i])
			break;
		f->n++;
	}
	return f->set && f->n == f->set->n_file ? f : reflection_free(f);
}

/* The rest of a symbol after a name and a dot, "" if it is that name; NULL: it is another one. */
static const char *rest_after(const char *symbol, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(symbol, name, n) || (symbol[n] && symbol[n] != '.'))
		return NULL;
	return symbol[n] ? symbol + n + 1 : symbol + n;
}

static bool message_defines(const Tfprofd__Descriptor__Message *m, const char *symbol)
{
	const char *rest = rest_after(symbol, m->name);

	if (!rest)
		return false;
	if (!*rest)
		return true;
	for (size_t i = 0; i < m->n_field; i++)
		if (!strcmp(m->field[i]->name, rest))
			return true;
	for (size_t i = 0; i < m->n_enum_type; i++)
		if (!strcmp(m->enum_type[i]->name, rest))
			return true;
	for (size_t i = 0; i < m->n_nested_type; i++)
		if (message_defines(m->nested_type[i], rest))
			return true;
	return false;
}

static bool service_defines(const Tfprofd__Descriptor__Service *s, const char *symbol)
{
	const char *rest = rest_after(symbol, s->name);

	if (!rest || !*rest)
		return rest;
	for (size_t i = 0; i < s->n_method; i++)
		if (!strcmp(s->method[i]->name, rest))
			return true;
	return false;
}

static bool file_defines(const Tfprofd__Descriptor__File *f, const char *symbol)
{
	const char *rest = rest_after(symbol, f->package);

	if (!rest || !*rest)
		return false;
	for (size_t i = 0; i < f->n_service; i++)
		if (service_defines(f->service[i], rest))
			return true;
	for (size_t i = 0; i < f->n_message_type; i++)
		if (message_defines(f->message_type[i], rest))
			return true;
	for (size_t i = 0; i < f->n_enum_type; i++)
		if (!strcmp(f->enum_type[i]->name, rest))
			return true;
	return false;
}

static size_t find_file(const struct reflection_files *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->files[i]->name, name))
			return i;
	return SIZE_MAX;
}

static size_t find_symbol(const struct reflection_files *f, const char *symbol)
{
	/* Some clients begin a symbol with a dot, as in a file. */
	if (*symbol == '.')
		symbol++;
	for (size_t i = 0; i < f->n; i++)
		if (file_defines(f->files[i], symbol))
			return i;
	return SIZE_MAX;
}

/* An answer, and what it refers to. */
struct answer {
	Grpc__Reflection__V1__ServerReflectionResponse response;
	Grpc__Reflection__V1__FileDescriptorResponse files;
	Grpc__Reflection__V1__ListServiceResponse list;
	Grpc__Reflection__V1__ErrorResponse error;
	ProtobufCBinaryData file[FILES_MAX];
	Grpc__Reflection__V1__ServiceResponse service[FILES_MAX], *services[FILES_MAX];
	char names[FILES_MAX][64];
};

static void set_error(struct answer *a, enum grpc_status status, const char *text)
{
	a->error.error_code = (int32_t)status;
	a->error.error_message = (char *)text;
	a->response.error_response = &a->error;
	a->response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
}

/* A file with those that it imports, directly or indirectly, each once. */
static void set_files(struct answer *a, const struct reflection_files *f, size_t file)
{
	size_t chosen[FILES_MAX], n = 0;

	if (file == SIZE_MAX) {
		set_error(a, GRPC_NOT_FOUND, "no file defines it");
		return;
	}
	chosen[n++] = file;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < f->files[chosen[i]]->n_dependency; k++) {
			size_t other = find_file(f, f->files[chosen[i]]->dependency[k]);
			bool known = other == SIZE_MAX;

			for (size_t j = 0; j < n && !known; j++)
				known = chosen[j] == other;
			if (!known)
				chosen[n++] = other;
		}
	for (size_t i = 0; i < n; i++)
		a->file[i] = f->set->file[chosen[i]];
	a->files.n_file_descriptor_proto = n;
	a->files.file_descriptor_proto = a->file;
	a->response.file_descriptor_response = &a->files;
	a->response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
}

static void set_services(struct answer *a, const struct reflection_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		for (size_t k = 0; k < f->files[i]->n_service && a->list.n_service < FILES_MAX;
		     k++) {
			size_t n = a->list.n_service++;

			snprintf(a->names[n], sizeof(a->names[n]), "%s.%s", f->files[i]->package,
				 f->files[i]->service[k]->name);
			grpc__reflection__v1__service_response__init(&a->service[n]);
			a->service[n].name = a->names[n];
			a->services[n] = &a->service[n];
		}
	a->list.service = a->services;
	a->response.list_services_response = &a->list;
	a->response.message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
}

static void answer(struct grpc_call *call, Grpc__Reflection__V1__ServerReflectionRequest *request,
		   const struct reflection_files *f)
{
	struct answer a = { .response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT,
			    .files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT,
			    .list = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT,
			    .error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT };
	struct grpc_body *body;

	a.response.valid_host = request->host;
	a.response.original_request = request;
	switch (request->message_request_case) {
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		set_files(&a, f, find_file(f, request->file_by_filename));
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		set_files(&a, f, find_symbol(f, request->file_containing_symbol));
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		set_services(&a, f);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
		set_error(&a, GRPC_NOT_FOUND, "no message has extensions");
		break;
	default:
		set_error(&a, GRPC_INVALID_ARGUMENT, "the request is empty");
	}
	if (reply_message(&a.response.base, &body) < 0 || grpc_call_send(call, body) < 0)
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

void reflection_info(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Grpc__Reflection__V1__ServerReflectionRequest *request;
	struct service *s = data;

	if (!message) {
		grpc_call_finish(call, GRPC_OK, NULL);
		return;
	}
	if (grpc_call_queued_beside(call) > QUEUED_MAX) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			       "too many answers are waiting to be read");
		return;
	}
	request = grpc__reflection__v1__server_reflection_request__unpack(NULL, size, message);
	if (!request) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a ServerReflectionRequest");
		return;
	}
	/* Unpacked once, because a client can ask for it in a few bytes. */
	if (!s->reflection)
		s->reflection = files_new();
	if (s->reflection)
		answer(call, request, s->reflection);
	else
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	grpc__reflection__v1__server_reflection_request__free_unpacked(request, NULL);
}
