/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/usdt.h"

#include <errno.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/macro.h"
#include "lib/elf/pattern.h"

#define NOTE_TYPE 3
#define NOTE_OWNER "stapsdt"
#define NOTE_SECTION ".note.stapsdt"
#define BASE_SECTION ".stapsdt.base"
/* Longer providers and names match only the missing pattern. */
#define NAME_BYTES_MAX 255
/* Steps of comparing names in one call: a few tenths of a second. */
#define WORK_MAX (1ull << 28)

/* A note; its strings are in the bytes that were read. */
struct note {
	uint64_t offset; /* in the file */
	uint64_t address, base, semaphore;
	const char *provider, *name, *text;
};

struct reader {
	const struct elf_image *image;
	const char **ret_reason;
	char *bytes;
	struct note *notes;
	size_t n_notes, room;
};

static int fail(const struct reader *reader, int error, const char *reason)
{
	if (reader->ret_reason)
		*reader->ret_reason = reason;
	return error;
}

static int fail_memory(const struct reader *reader)
{
	return fail(reader, -ENOMEM, "out of memory");
}

static bool is_inside(uint64_t offset, uint64_t size, uint64_t limit)
{
	return offset <= limit && size <= limit - offset;
}

static void reader_free(struct reader *reader)
{
	free(reader->bytes);
	free(reader->notes);
}

static int add_note(struct reader *reader, const struct note *note)
{
	if (reader->n_notes == USDT_SITES_MAX)
		return fail(reader, -E2BIG, "the ELF file has too many USDT probes");
	if (array_reserve(&reader->notes, reader->n_notes, &reader->room, sizeof(*note), 1) < 0)
		return fail_memory(reader);
	reader->notes[reader->n_notes++] = *note;
	return 0;
}

/* The next string of a description, NULL if it does not end inside it. */
static const char *take_string(const char **at, const char *end)
{
	const char *string = *at, *nul = memchr(string, 0, (size_t)(end - string));

	if (nul)
		*at = nul + 1;
	return nul ? string : NULL;
}

static int parse_description(struct reader *reader, uint64_t offset, const char *at, size_t size)
{
	const char *end = at + size;
	uint64_t words[3];
	struct note note;

	if (size < sizeof(words))
		return fail(reader, -EBADMSG, "a USDT note is malformed");
	memcpy(words, at, sizeof(words));
	at += sizeof(words);
	note = (struct note){
		.offset = offset, .address = words[0], .base = words[1], .semaphore = words[2]
	};
	note.provider = take_string(&at, end);
	note.name = note.provider ? take_string(&at, end) : NULL;
	note.text = note.name ? take_string(&at, end) : NULL;
	if (!note.text)
		return fail(reader, -EBADMSG, "a USDT note is malformed");
	return add_note(reader, &note);
}

static int parse_notes(struct reader *reader, uint64_t offset, const char *bytes, uint64_t size)
{
	for (uint64_t at = 0, name, description; at < size;) {
		Elf64_Nhdr note;
		int r;

		if (!is_inside(at, sizeof(note), size))
			return fail(reader, -EBADMSG, "a USDT note is malformed");
		memcpy(&note, bytes + at, sizeof(note));
		name = at + sizeof(note);
		description = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		if (!is_inside(name, note.n_namesz, size) ||
		    !is_inside(description, note.n_descsz, size))
			return fail(reader, -EBADMSG, "a USDT note is malformed");
		if (note.n_type == NOTE_TYPE && note.n_namesz == sizeof(NOTE_OWNER) &&
		    !memcmp(bytes + name, NOTE_OWNER, sizeof(NOTE_OWNER))) {
			r = parse_description(reader, offset + at, bytes + description,
					      note.n_descsz);
			if (r < 0)
				return r;
		}
		at = description + (((uint64_t)note.n_descsz + 3) & ~3ull);
	}
	return 0;
}

static int read_notes(struct reader *reader, const Elf64_Shdr *section)
{
	int r;

	if (section->sh_flags & SHF_COMPRESSED ||
	    !is_inside(section->sh_offset, section->sh_size, elf_image_size(reader->image)))
		return fail(reader, -EBADMSG,
			    "the USDT notes are compressed or lie outside the file");
	if (section->sh_size > USDT_NOTES_MAX)
		return fail(reader, -E2BIG, "the ELF file has too many USDT probes");
	reader->bytes = malloc(MAX(section->sh_size, 1u));
	if (!reader->bytes)
		return fail_memory(reader);
	r = elf_image_read(reader->image, section->sh_offset, reader->bytes, section->sh_size);
	if (r < 0)
		return fail(reader, r,
			    r == -EBADMSG ? "the file shrank while it was read"
					  : "the file cannot be read");
	return parse_notes(reader, section->sh_offset, reader->bytes, section->sh_size);
}

/* The file offset of a semaphore; 0 if the kernel cannot count in it. */
static uint64_t semaphore_offset(const struct elf_image *image, uint64_t address)
{
	const Elf64_Phdr *s;

	for (size_t i = 0; (s = elf_image_segment(image, i)); i++)
		if (s->p_type == PT_LOAD && s->p_flags & PF_W &&
		    is_inside(s->p_offset, s->p_filesz, elf_image_size(image)) &&
		    address >= s->p_vaddr &&
		    is_inside(address - s->p_vaddr, sizeof(uint16_t), s->p_filesz)) {
			uint64_t offset = s->p_offset + (address - s->p_vaddr);

			return offset % sizeof(uint16_t) ? 0 : offset;
		}
	return 0;
}

/* Fills in all but the arguments; false if the site is not in code of the file. */
static bool make_site(const struct elf_image *image, const struct note *note,
		      const Elf64_Shdr *base, struct usdt_site *ret)
{
	uint64_t moved = base && note->base ? base->sh_addr - note->base : 0;

	*ret = (struct usdt_site){
		.provider = note->provider,
		.name = note->name,
		.text = note->text,
		.note = moved ? 0 : note->offset,
		.address = note->address + moved,
		.semaphore_address = note->semaphore ? note->semaphore + moved : 0,
	};
	/* The linker leaves 0 where it dropped a function, and the file may have code there. */
	if (!note->address || elf_image_code_offset(image, ret->address, &ret->offset) < 0)
		return false;
	if (ret->semaphore_address)
		ret->semaphore = semaphore_offset(image, ret->semaphore_address);
	return true;
}

static bool matches(const struct pattern *pattern, const char *name, uint64_t *work)
{
	return !pattern->text || (strnlen(name, NAME_BYTES_MAX + 1) <= NAME_BYTES_MAX &&
				  pattern_matches(pattern, name, work));
}

/* Drops the notes that are not wanted. */
static int choose_notes(struct reader *reader, const struct pattern *provider,
			const struct pattern *name)
{
	uint64_t work = 0;
	size_t n = 0;

	for (size_t i = 0; i < reader->n_notes; i++) {
		const struct note *note = &reader->notes[i];

		if (matches(provider, note->provider, &work) && matches(name, note->name, &work))
			reader->notes[n++] = *note;
		if (work > WORK_MAX)
			return fail(reader, -E2BIG,
				    "the names of the USDT probes take too long to compare");
	}
	reader->n_notes = n;
	return 0;
}

static int report(const struct reader *reader, usdt_callback callback, void *data)
{
	const Elf64_Shdr *base = elf_image_find_named(reader->image, SHT_PROGBITS, BASE_SECTION);

	for (size_t i = 0; i < reader->n_notes; i++) {
		struct usdt_site site;
		int r;

		if (!make_site(reader->image, &reader->notes[i], base, &site))
			continue;
		site.n_arguments = usdt_arguments_parse(site.text, site.arguments);
		r = callback(&site, data);
		if (r)
			return r;
	}
	return 0;
}

int elf_usdt_match(const struct elf_image *image, const char *provider, const char *name,
		   usdt_callback callback, void *data, const char **ret_reason)
{
	_cleanup_(reader_free) struct reader reader = { .image = image, .ret_reason = ret_reason };
	struct pattern provider_pattern = {}, name_pattern = {};
	const Elf64_Shdr *section = elf_image_find_named(image, SHT_NOTE, NOTE_SECTION);
	int r;

	if ((provider && pattern_compile(provider, &provider_pattern) < 0) ||
	    (name && pattern_compile(name, &name_pattern) < 0))
		return fail(&reader, -EINVAL, "a USDT pattern is empty or too long");
	if (!section)
		return 0;
	r = read_notes(&reader, section);
	if (r < 0)
		return r;
	r = choose_notes(&reader, &provider_pattern, &name_pattern);
	return r < 0 ? r : report(&reader, callback, data);
}
