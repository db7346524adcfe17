/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/functions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/escape.h"
#include "lib/base/macro.h"
#include "lib/base/search.h"
#include "lib/elf/debug.h"
#include "lib/elf/demangle.h"
#include "lib/elf/symbols.h"

#define BLOCK_SYMBOLS (16u << 10)
/* Of a name in the file. */
#define RAW_NAME_SIZE 4096

/* A place in the file, and the function that was found for it. */
struct place {
	uint64_t offset;
	const struct elf_image *image; /* that has the name; NULL: none was found */
	uint64_t name;                 /* its offset in the image */
	uint64_t begin;                /* of the function */
	bool is_global;
};

struct search {
	const struct elf_image *file; /* that has the code */
	struct place *places;
	size_t n;
	Elf64_Sym *block;
};

int functions_ask(int questions, const uint64_t *offsets, size_t n)
{
	size_t size = n * sizeof(offsets[0]);

	for (size_t done = 0; done < size;) {
		ssize_t r = write(questions, (const char *)offsets + done, size - done);

		if (r < 0)
			return -errno;
		done += (size_t)r;
	}
	return 0;
}

static int read_questions(int questions, struct search *s)
{
	_cleanup_free_ uint64_t *offsets = NULL;
	struct stat st;

	if (fstat(questions, &st) < 0)
		return -errno;
	s->n = (size_t)st.st_size / sizeof(offsets[0]);
	if (st.st_size <= 0 || (size_t)st.st_size % sizeof(offsets[0]) || s->n > FUNCTIONS_MAX)
		return -EINVAL;
	offsets = malloc((size_t)st.st_size);
	s->places = calloc(s->n, sizeof(s->places[0]));
	if (!offsets || !s->places)
		return -ENOMEM;
	if (pread(questions, offsets, (size_t)st.st_size, 0) != st.st_size)
		return -EINVAL;
	for (size_t i = 0; i < s->n; i++) {
		s->places[i].offset = offsets[i];
		if (i > 0 && offsets[i] < offsets[i - 1])
			return -EINVAL;
	}
	return 0;
}

/* Of several functions at a place the one that begins last is the innermost; of its names one that
 * other files can see. */
static bool is_better(const struct place *p, uint64_t begin, bool is_global)
{
	return !p->image || begin > p->begin || (begin == p->begin && is_global && !p->is_global);
}

static void take_symbol(struct search *s, const struct elf_image *image, const Elf64_Shdr *strings,
			const Elf64_Sym *symbol)
{
	bool is_global = ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL;
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	uint64_t begin;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
	    symbol->st_name >= strings->sh_size ||
	    elf_image_code_offset(s->file, symbol->st_value, &begin) < 0)
		return;
	for (size_t i = SEARCH_FIRST(s->n, k, s->places[k].offset < begin);
	     i < s->n && s->places[i].offset - begin < symbol->st_size; i++)
		if (is_better(&s->places[i], begin, is_global)) {
			s->places[i].image = image;
			s->places[i].name = strings->sh_offset + symbol->st_name;
			s->places[i].begin = begin;
			s->places[i].is_global = is_global;
		}
}

/* A table that is malformed, or none, has no symbols. */
static int read_table(struct search *s, const struct elf_image *image, uint32_t type)
{
	const Elf64_Shdr *table = elf_image_find_section(image, type), *strings;
	uint64_t n_symbols;

	if (!table || table->sh_entsize != sizeof(Elf64_Sym))
		return 0;
	strings = elf_image_section(image, table->sh_link);
	n_symbols = table->sh_size / sizeof(Elf64_Sym);
	if (!strings || strings->sh_type != SHT_STRTAB || n_symbols > SYMBOLS_MAX)
		return 0;
	for (uint64_t first = 0, n; first < n_symbols; first += n) {
		int r;

		n = MIN(n_symbols - first, (uint64_t)BLOCK_SYMBOLS);
		r = elf_image_read(image, table->sh_offset + first * sizeof(Elf64_Sym), s->block,
				   n * sizeof(Elf64_Sym));
		if (r < 0)
			return r;
		for (uint64_t i = 0; i < n; i++)
			take_symbol(s, image, strings, &s->block[i]);
	}
	return 0;
}

/* The raw name, truncated; "" if it cannot be read. */
static void read_name(const struct place *p, char name[static RAW_NAME_SIZE])
{
	uint64_t size = elf_image_size(p->image);

	name[0] = 0;
	if (p->name >= size)
		return;
	size = MIN(size - p->name, (uint64_t)RAW_NAME_SIZE - 1);
	if (elf_image_read(p->image, p->name, name, size) < 0)
		size = 0;
	name[size] = 0;
}

static int write_answers(const struct search *s, int answers)
{
	int copy = dup(answers);
	FILE *f = copy < 0 ? NULL : fdopen(copy, "w");
	int r = 0;

	if (!f) {
		r = -errno;
		safe_close(copy);
		return r;
	}
	for (size_t i = 0; i < s->n; i++) {
		_cleanup_free_ char *plain = NULL;
		char name[RAW_NAME_SIZE] = "";

		if (s->places[i].image) {
			read_name(&s->places[i], name);
			/* A line feed in a name would begin another answer. */
			name[strcspn(name, "\n")] = 0;
			plain = symbol_demangle(name);
		}
		fprintf(f, "%.*s\n", FUNCTION_NAME_SIZE - 1, plain ?: name);
	}
	if (ferror(f))
		r = -EIO;
	return fclose(f) == 0 ? r : -EIO;
}

static int read_tables(struct search *s, const struct elf_image *embedded,
		       const struct elf_image *debug_file)
{
	int r = read_table(s, s->file, SHT_SYMTAB);

	if (r >= 0)
		r = read_table(s, s->file, SHT_DYNSYM);
	if (r >= 0 && embedded)
		r = read_table(s, embedded, SHT_SYMTAB);
	if (r >= 0 && debug_file)
		r = read_table(s, debug_file, SHT_SYMTAB);
	return r;
}

int functions_answer(int questions, const struct elf_image *image,
		     const struct elf_image *debug_file, int answers, const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *embedded = NULL;
	struct search s = { .file = image };
	int r = read_questions(questions, &s);

	s.block = malloc(BLOCK_SYMBOLS * sizeof(s.block[0]));
	if (r >= 0 && !s.block)
		r = -ENOMEM;
	/* Without it the file has fewer names. */
	if (r >= 0 && !elf_image_find_section(image, SHT_SYMTAB))
		elf_debug_open_embedded(image, &embedded, NULL);
	if (r >= 0)
		r = read_tables(&s, embedded, debug_file);
	if (r >= 0)
		r = write_answers(&s, answers);
	if (r < 0)
		*ret_reason = r == -EINVAL ? "malformed questions" : "its symbols cannot be read";
	free(s.places);
	free(s.block);
	return r;
}

/* Takes the next line; false: there is none. */
static bool take_line(const char **text, const char *end, char ret[static FUNCTION_NAME_SIZE])
{
	const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
	char raw[FUNCTION_NAME_SIZE];
	size_t size;

	if (!stop)
		return false;
	size = MIN((size_t)(stop - line), sizeof(raw) - 1);
	memcpy(raw, line, size);
	raw[size] = 0;
	escape_text(raw, ret, FUNCTION_NAME_SIZE);
	*text = stop + 1;
	return true;
}

int functions_read(int answers, size_t n, char (**ret_names)[FUNCTION_NAME_SIZE])
{
	char(*names)[FUNCTION_NAME_SIZE] = calloc(MAX(n, (size_t)1), sizeof(names[0]));
	_cleanup_free_ char *bytes = NULL;
	const char *at;
	struct stat st;
	int r = names ? 0 : -ENOMEM;

	if (r >= 0 && fstat(answers, &st) < 0)
		r = -errno;
	if (r >= 0 && (st.st_size < 0 || (size_t)st.st_size > n * FUNCTION_NAME_SIZE))
		r = -EBADMSG;
	if (r >= 0) {
		bytes = malloc((size_t)st.st_size + 1);
		r = !bytes                                                       ? -ENOMEM
		    : pread(answers, bytes, (size_t)st.st_size, 0) == st.st_size ? 0
										 : -EIO;
	}
	at = bytes;
	for (size_t i = 0; i < n && r >= 0; i++)
		if (!take_line(&at, bytes + st.st_size, names[i]))
			r = -EBADMSG;
	if (r < 0) {
		free(names);
		return r;
	}
	*ret_names = names;
	return 0;
}
