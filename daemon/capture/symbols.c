/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/discovery/target_file.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/search.h"
#include "lib/elf/functions.h"
#include "lib/proc/maps.h"
#include "proto/recording.pb-c.h"

/* Names of all files together may take this long; what is missing then has no name. */
#define NAMES_NS 20000000000ull
#define ASK_AGAIN_MS 1
/* Files of one process; frames in others have no name. */
#define FILES_MAX 256
#define FILE_NAME_SIZE 128

/* A frame of the process, and where it is in its file. */
struct place {
	uint32_t frame;
	uint32_t file; /* index, FILES_MAX: in none */
	uint64_t address, offset;
};

struct code_file {
	struct target_file file;
	char name[FILE_NAME_SIZE];
};

struct search {
	struct proxy *proxy;
	struct timeline *t;
	uint32_t process;
	uint64_t until_ns;
	struct place *places; /* by address, later by file and offset */
	size_t n, size;
	struct code_file *files;
	uint32_t n_files;
};

static int compare_addresses(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int list_places(struct search *s)
{
	const struct stacks *stacks = &s->t->stacks;

	s->n = 0;
	for (uint32_t i = 0; i < stacks->n_frames; i++) {
		if (stacks->frames[i].process != s->process ||
		    stacks->frames[i].function != STACK_NONE)
			continue;
		if (array_reserve(&s->places, s->n, &s->size, sizeof(s->places[0]), 1) < 0)
			return -ENOMEM;
		s->places[s->n++] = (struct place){ .frame = i,
						    .file = FILES_MAX,
						    .address = stacks->frames[i].address };
	}
	if (s->n)
		qsort(s->places, s->n, sizeof(s->places[0]), compare_addresses);
	return 0;
}

/* The index of the file; FILES_MAX: there is no room. */
static uint32_t find_file(struct search *s, const struct maps_entry *e)
{
	const char *slash = strrchr(e->path, '/');
	struct code_file *f;
	uint32_t i = 0;

	while (i < s->n_files &&
	       (s->files[i].file.device != e->device || s->files[i].file.inode != e->inode ||
		(!e->inode && strcmp(s->files[i].file.path, e->path))))
		i++;
	if (i < s->n_files || i == FILES_MAX)
		return i;
	f = &s->files[s->n_files++];
	f->file = (struct target_file){
		.start = e->start, .end = e->end, .device = e->device, .inode = e->inode
	};
	snprintf(f->file.path, sizeof(f->file.path), "%s", e->path);
	escape_text(slash ? slash + 1 : e->path, f->name, sizeof(f->name));
	return i;
}

static int on_mapping(const struct maps_entry *e, void *data)
{
	struct search *s = data;
	size_t i = SEARCH_FIRST(s->n, k, s->places[k].address < e->start);
	uint32_t file;

	if (i == s->n || s->places[i].address >= e->end || !e->executable)
		return 0;
	file = find_file(s, e);
	for (; i < s->n && s->places[i].address < e->end; i++) {
		s->places[i].file = file;
		s->places[i].offset = s->places[i].address - e->start + e->offset;
	}
	return 0;
}

/* By the process's mappings of now; a process that has ended has none. */
static void find_files(struct search *s)
{
	struct broker_message m = { .type = BROKER_MAPS, .pid = s->t->processes[s->process].pid };
	_cleanup_close_ int maps = -1;
	unsigned n;

	s->n_files = 0;
	if (proxy_call(s->proxy, &m, &maps, &n) >= 0)
		maps_read(maps, on_mapping, s);
	if (s->n)
		qsort(s->places, s->n, sizeof(s->places[0]), compare_places);
}

static int wait_for_answers(struct search *s, uint32_t file, int questions, int *ret)
{
	unsigned n;
	int r;

	do {
		struct broker_message m = { .type = BROKER_FUNCTIONS, .id = file };

		r = proxy_call_with(s->proxy, &m, questions, ret, &n);
		/* A request that found no room is sent again with the questions. */
		if (r != -EBUSY)
			questions = -1;
		if (r == -EINPROGRESS || r == -EBUSY)
			poll(NULL, 0, ASK_AGAIN_MS);
	} while ((r == -EINPROGRESS || r == -EBUSY) && loop_now() < s->until_ns);
	return r;
}

/* The names of n places of one file; an error: it has none. */
static int ask(struct search *s, const struct place *places, size_t n,
	       char (**ret)[FUNCTION_NAME_SIZE])
{
	_cleanup_close_ int questions = memfd_create("tfprofd-places", MFD_CLOEXEC), answers = -1;
	_cleanup_free_ uint64_t *offsets = malloc(n * sizeof(offsets[0]));
	const struct target_file *file = &s->files[places->file].file;
	struct opened_file opened;
	int r;

	if (questions < 0 || !offsets)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		offsets[i] = places[i].offset;
	r = functions_ask(questions, offsets, n);
	if (r >= 0)
		r = target_file_open(s->proxy, (pid_t)s->t->processes[s->process].pid, file,
				     &opened);
	if (r < 0)
		return r;
	r = wait_for_answers(s, opened.id, questions, &answers);
	target_file_close(s->proxy, &opened);
	return r < 0 ? r : functions_read(answers, n, ret);
}

static int set_function(struct search *s, const struct place *place, const char *name)
{
	const char *file = place->file < s->n_files ? s->files[place->file].name : "";
	char unknown[FILE_NAME_SIZE + 32];

	if (!*name) {
		/* Addresses differ from one start of a process to the next: offsets do not. */
		if (*file)
			snprintf(unknown, sizeof(unknown), "%s+0x%" PRIx64, file, place->offset);
		else
			snprintf(unknown, sizeof(unknown), "[unknown]");
		name = unknown;
	}
	return stacks_function(&s->t->stacks, name, file,
			       &s->t->stacks.frames[place->frame].function);
}

/* Of one file, or of none. */
static int name_places(struct search *s, const struct place *places, size_t n)
{
	_cleanup_free_ char(*names)[FUNCTION_NAME_SIZE] = NULL;
	int r = 0;

	if (places->file < s->n_files && s->files[places->file].file.inode && n <= FUNCTIONS_MAX)
		r = ask(s, places, n, &names);
	if (r == -ENOMEM)
		return r;
	r = 0;
	for (size_t i = 0; i < n && r >= 0; i++)
		r = set_function(s, &places[i], names ? names[i] : "");
	return r;
}

static int name_process(struct search *s)
{
	int r = list_places(s);

	if (r < 0 || !s->n)
		return r;
	find_files(s);
	for (size_t first = 0, end; first < s->n && r >= 0; first = end) {
		for (end = first + 1; end < s->n && s->places[end].file == s->places[first].file;)
			end++;
		r = name_places(s, &s->places[first], end - first);
	}
	return r;
}

/* Every function once, and which one each frame is in. */
static int record_symbols(struct journal *j, const struct stacks *s)
{
	Tfprofd__RecordingSymbols m = TFPROFD__RECORDING_SYMBOLS__INIT;
	size_t n = s->n_frames, size;
	_cleanup_free_ uint64_t *addresses = malloc((n + 1) * sizeof(addresses[0]));
	_cleanup_free_ uint32_t *numbers = malloc(2 * (n + 1) * sizeof(numbers[0]));
	_cleanup_free_ char **texts = malloc((2 * s->n_functions + 1) * sizeof(texts[0]));
	_cleanup_free_ uint8_t *bytes = NULL;

	if (!addresses || !numbers || !texts)
		return -ENOMEM;
	m.addresses = addresses;
	m.targets = numbers;
	m.functions = numbers + n + 1;
	for (size_t i = 0; i < n; i++)
		if (s->frames[i].process < STACK_SCRIPT && s->frames[i].function != STACK_NONE) {
			m.addresses[m.n_addresses++] = s->frames[i].address;
			m.targets[m.n_targets++] = s->frames[i].process;
			m.functions[m.n_functions++] = s->frames[i].function;
		}
	m.names = texts;
	m.files = texts + s->n_functions;
	for (size_t i = 0; i < s->n_functions; i++) {
		m.names[m.n_names++] = s->functions[i].name;
		m.files[m.n_files++] = s->functions[i].file;
	}
	size = tfprofd__recording_symbols__get_packed_size(&m);
	bytes = malloc(size + 1);
	if (!bytes)
		return -ENOMEM;
	tfprofd__recording_symbols__pack(&m, bytes);
	/* An error stays in the journal. */
	journal_add(j, JOURNAL_SYMBOLS, bytes, size);
	return 0;
}

int symbols_find(struct proxy *proxy, struct timeline *t, struct journal *recording)
{
	struct search s = { .proxy = proxy, .t = t, .until_ns = loop_now() + NAMES_NS };
	int r = 0;

	if (!t->stacks.n_samples)
		return 0;
	s.files = calloc(FILES_MAX, sizeof(s.files[0]));
	if (!s.files)
		return -ENOMEM;
	for (; s.process < t->n_processes && r >= 0; s.process++)
		r = name_process(&s);
	free(s.places);
	free(s.files);
	if (r >= 0 && recording)
		r = record_symbols(recording, &t->stacks);
	return r < 0 ? r : symbols_complete(t);
}

static int apply(struct timeline *t, const Tfprofd__RecordingSymbols *m)
{
	struct stacks *s = &t->stacks;
	int r = 0;

	if (m->n_addresses != m->n_targets || m->n_addresses != m->n_functions ||
	    m->n_names != m->n_files)
		return -EBADMSG;
	/* In the order in which the capture found them, which outputs have. */
	for (size_t i = 0; i < m->n_names && r >= 0; i++) {
		uint32_t ignored;

		r = stacks_function(s, m->names[i], m->files[i], &ignored);
	}
	for (size_t i = 0; i < m->n_addresses && r >= 0; i++) {
		uint32_t frame = 0;

		if (m->functions[i] >= m->n_names || m->targets[i] >= t->n_processes)
			return -EBADMSG;
		r = stacks_frame(s, m->targets[i], m->addresses[i], &frame);
		if (r >= 0)
			r = stacks_function(s, m->names[m->functions[i]], m->files[m->functions[i]],
					    &s->frames[frame].function);
	}
	return r == -E2BIG ? -EBADMSG : r;
}

int symbols_recall(struct timeline *t, const uint8_t *bytes, size_t size)
{
	Tfprofd__RecordingSymbols *m = tfprofd__recording_symbols__unpack(NULL, size, bytes);
	int r = m ? apply(t, m) : -EBADMSG;

	if (m)
		tfprofd__recording_symbols__free_unpacked(m, NULL);
	return r;
}

int symbols_complete(struct timeline *t)
{
	struct stacks *s = &t->stacks;
	int r = 0;

	for (size_t i = 0; i < s->n_frames && r >= 0; i++)
		if (s->frames[i].function == STACK_NONE)
			r = stacks_function(s, "[unknown]", "", &s->frames[i].function);
	return r;
}
