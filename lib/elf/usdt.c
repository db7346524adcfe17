#include "lib/elf/usdt.h"

#include <errno.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/elf/pattern.h"

#define NOTE_TYPE 3
#define NOTE_OWNER "stapsdt"
#define NOTE_SECTION ".note.stapsdt"
#define BASE_SECTION ".stapsdt.base"
/* Longer providers and names match no pattern but "no pattern". */
#define NAME_BYTES_MAX 255
/* Steps of comparing names in one call: a few tenths of a second. */
#define WORK_MAX (1ull << 28)

/* A note, its strings in the buffer that it was read into. */
struct note {
	uint64_t address, base, semaphore;
	const char *provider, *name, *text;
};

struct buffer {
	struct buffer *next;
	char bytes[];
};

struct reader {
	const struct elf_image *image;
	const char **ret_reason;
	Elf64_Shdr names; /* the section of section names; size 0: none */
	struct buffer *buffers;
	uint64_t n_bytes;
	struct note *notes;
	size_t n_notes, room;
	Elf64_Phdr *segments; /* writable, inside the file */
	size_t n_segments;
	bool has_base;
	uint64_t base; /* where .stapsdt.base is now */
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

static int reader_read(const struct reader *reader, uint64_t offset, void *buffer, size_t size)
{
	int r = elf_image_read(reader->image, offset, buffer, size);

	if (r < 0)
		return fail(reader, r, r == -EBADMSG ? "the file became shorter while it was read" : "the file cannot be read");
	return 0;
}

static bool is_inside(uint64_t offset, uint64_t size, uint64_t limit)
{
	return offset <= limit && size <= limit - offset;
}

static void reader_free(struct reader *reader)
{
	while (reader->buffers) {
		struct buffer *next = reader->buffers->next;

		free(reader->buffers);
		reader->buffers = next;
	}
	free(reader->notes);
	free(reader->segments);
}

/* The writable segments, by the headers as they are now: the file may have changed since the image was opened. */
static int read_segments(struct reader *reader, const Elf64_Ehdr *header)
{
	uint64_t file_size = elf_image_size(reader->image);
	size_t size = header->e_phnum * sizeof(Elf64_Phdr);
	int r;

	if (header->e_phnum > ELF_SEGMENTS_MAX)
		return fail(reader, -E2BIG, "the ELF file has too many program headers");
	if (header->e_phnum && (header->e_phentsize != sizeof(Elf64_Phdr) || !is_inside(header->e_phoff, size, file_size)))
		return fail(reader, -EBADMSG, "the ELF program headers are malformed or lie outside of the file");
	reader->segments = malloc(MAX(size, 1u));
	if (!reader->segments)
		return fail_memory(reader);
	r = reader_read(reader, header->e_phoff, reader->segments, size);
	if (r < 0)
		return r;
	for (size_t i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *s = &reader->segments[i];

		if (s->p_type == PT_LOAD && s->p_flags & PF_W && is_inside(s->p_offset, s->p_filesz, file_size) &&
		    is_inside(s->p_vaddr, s->p_filesz, UINT64_MAX))
			reader->segments[reader->n_segments++] = *s;
	}
	return 0;
}

/* Where section names are. A file without them has no notes that could be told from others. */
static int find_names(struct reader *reader, const Elf64_Ehdr *header)
{
	const Elf64_Shdr *first = elf_image_section(reader->image, 0), *names;
	uint32_t index = header->e_shstrndx == SHN_XINDEX && first ? first->sh_link : header->e_shstrndx;

	if (!first || index == SHN_UNDEF)
		return 0;
	names = elf_image_section(reader->image, index);
	if (!names || names->sh_type != SHT_STRTAB ||
	    !is_inside(names->sh_offset, names->sh_size, elf_image_size(reader->image)))
		return fail(reader, -EBADMSG, "the ELF section names are malformed or lie outside of the file");
	reader->names = *names;
	return 0;
}

/* Returns 1 when the section has that name, which is that of size bytes with its NUL. */
static int has_name(const struct reader *reader, const Elf64_Shdr *section, const char *name, size_t size)
{
	char found[sizeof(NOTE_SECTION)];
	int r;

	if (!is_inside(section->sh_name, size, reader->names.sh_size))
		return 0;
	r = reader_read(reader, reader->names.sh_offset + section->sh_name, found, size);
	return r < 0 ? r : !memcmp(found, name, size);
}

static int add_note(struct reader *reader, const struct note *note)
{
	if (reader->n_notes == USDT_SITES_MAX)
		return fail(reader, -E2BIG, "the ELF file has too many USDT probes");
	if (reader->n_notes == reader->room) {
		size_t room = MAX(64u, 2 * reader->room);
		struct note *grown = realloc(reader->notes, room * sizeof(*grown));

		if (!grown)
			return fail_memory(reader);
		reader->notes = grown;
		reader->room = room;
	}
	reader->notes[reader->n_notes++] = *note;
	return 0;
}

/* The next string of a description, NULL when it does not end inside. */
static const char *take_string(const char **at, const char *end)
{
	const char *string = *at, *nul = memchr(string, 0, (size_t)(end - string));

	if (nul)
		*at = nul + 1;
	return nul ? string : NULL;
}

static int parse_description(struct reader *reader, const char *at, size_t size)
{
	const char *end = at + size;
	uint64_t words[3];
	struct note note;

	if (size < sizeof(words))
		return fail(reader, -EBADMSG, "a USDT note is malformed");
	memcpy(words, at, sizeof(words));
	at += sizeof(words);
	note = (struct note){ .address = words[0], .base = words[1], .semaphore = words[2] };
	note.provider = take_string(&at, end);
	note.name = note.provider ? take_string(&at, end) : NULL;
	note.text = note.name ? take_string(&at, end) : NULL;
	if (!note.text)
		return fail(reader, -EBADMSG, "a USDT note is malformed");
	return add_note(reader, &note);
}

static int parse_notes(struct reader *reader, const char *bytes, uint64_t size)
{
	for (uint64_t at = 0, name, description; at < size;) {
		Elf64_Nhdr note;
		int r;

		if (!is_inside(at, sizeof(note), size))
			return fail(reader, -EBADMSG, "a USDT note is malformed");
		memcpy(&note, bytes + at, sizeof(note));
		name = at + sizeof(note);
		description = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		if (!is_inside(name, note.n_namesz, size) || !is_inside(description, note.n_descsz, size))
			return fail(reader, -EBADMSG, "a USDT note is malformed");
		if (note.n_type == NOTE_TYPE && note.n_namesz == sizeof(NOTE_OWNER) &&
		    !memcmp(bytes + name, NOTE_OWNER, sizeof(NOTE_OWNER))) {
			r = parse_description(reader, bytes + description, note.n_descsz);
			if (r < 0)
				return r;
		}
		at = description + (((uint64_t)note.n_descsz + 3) & ~3ull);
	}
	return 0;
}

static int read_notes(struct reader *reader, const Elf64_Shdr *section)
{
	struct buffer *buffer;
	int r;

	if (section->sh_flags & SHF_COMPRESSED || !is_inside(section->sh_offset, section->sh_size, elf_image_size(reader->image)))
		return fail(reader, -EBADMSG, "the USDT notes are compressed or lie outside of the file");
	if (section->sh_size > USDT_NOTES_MAX - reader->n_bytes)
		return fail(reader, -E2BIG, "the ELF file has too many USDT probes");
	reader->n_bytes += section->sh_size;
	buffer = malloc(sizeof(*buffer) + section->sh_size);
	if (!buffer)
		return fail_memory(reader);
	buffer->next = reader->buffers;
	reader->buffers = buffer;
	r = reader_read(reader, section->sh_offset, buffer->bytes, section->sh_size);
	return r < 0 ? r : parse_notes(reader, buffer->bytes, section->sh_size);
}

static int read_sections(struct reader *reader)
{
	const Elf64_Shdr *section;
	int r;

	for (uint32_t i = 0; (section = elf_image_section(reader->image, i)); i++) {
		if (section->sh_type == SHT_NOTE) {
			r = has_name(reader, section, NOTE_SECTION, sizeof(NOTE_SECTION));
			if (r > 0)
				r = read_notes(reader, section);
			if (r < 0)
				return r;
		} else if (section->sh_type == SHT_PROGBITS && !reader->has_base) {
			r = has_name(reader, section, BASE_SECTION, sizeof(BASE_SECTION));
			if (r < 0)
				return r;
			reader->has_base = r > 0;
			reader->base = section->sh_addr;
		}
	}
	return 0;
}

/* The file offset of a semaphore, 0 when the kernel could not count in it. */
static uint64_t semaphore_offset(const struct reader *reader, uint64_t address)
{
	for (size_t i = 0; i < reader->n_segments; i++) {
		const Elf64_Phdr *s = &reader->segments[i];

		if (address >= s->p_vaddr && is_inside(address - s->p_vaddr, sizeof(uint16_t), s->p_filesz)) {
			uint64_t offset = s->p_offset + (address - s->p_vaddr);

			return offset % sizeof(uint16_t) ? 0 : offset;
		}
	}
	return 0;
}

/* Fills all but the arguments; false when the site is not in code of the file. */
static bool make_site(const struct reader *reader, const struct note *note, struct usdt_site *ret)
{
	uint64_t moved = reader->has_base && note->base ? reader->base - note->base : 0;

	*ret = (struct usdt_site){
		.provider = note->provider,
		.name = note->name,
		.text = note->text,
		.address = note->address + moved,
		.semaphore_address = note->semaphore ? note->semaphore + moved : 0,
	};
	/* The linker leaves 0 where it dropped a function, and the file may have code there. */
	if (!note->address || elf_image_code_offset(reader->image, ret->address, &ret->offset) < 0)
		return false;
	if (ret->semaphore_address)
		ret->semaphore = semaphore_offset(reader, ret->semaphore_address);
	return true;
}

static bool matches(const struct pattern *pattern, const char *name, uint64_t *work)
{
	return !pattern->text || (strnlen(name, NAME_BYTES_MAX + 1) <= NAME_BYTES_MAX && pattern_matches(pattern, name, work));
}

/* Drops the notes that are not asked for. */
static int choose_notes(struct reader *reader, const struct pattern *provider, const struct pattern *name)
{
	uint64_t work = 0;
	size_t n = 0;

	for (size_t i = 0; i < reader->n_notes; i++) {
		const struct note *note = &reader->notes[i];

		if (matches(provider, note->provider, &work) && matches(name, note->name, &work))
			reader->notes[n++] = *note;
		if (work > WORK_MAX)
			return fail(reader, -E2BIG, "the names of the USDT probes take too long to compare");
	}
	reader->n_notes = n;
	return 0;
}

static int report(const struct reader *reader, usdt_callback callback, void *data)
{
	for (size_t i = 0; i < reader->n_notes; i++) {
		struct usdt_site site;
		int r;

		if (!make_site(reader, &reader->notes[i], &site))
			continue;
		site.n_arguments = usdt_arguments_parse(site.text, site.arguments);
		r = callback(&site, data);
		if (r)
			return r;
	}
	return 0;
}

int elf_usdt_match(const struct elf_image *image, const char *provider, const char *name, usdt_callback callback, void *data,
		   const char **ret_reason)
{
	_cleanup_(reader_free) struct reader reader = { .image = image, .ret_reason = ret_reason };
	struct pattern provider_pattern = {}, name_pattern = {};
	Elf64_Ehdr header;
	int r;

	if ((provider && pattern_compile(provider, &provider_pattern) < 0) || (name && pattern_compile(name, &name_pattern) < 0))
		return fail(&reader, -EINVAL, "a USDT pattern is empty or too long");
	r = reader_read(&reader, 0, &header, sizeof(header));
	if (r < 0)
		return r;
	r = find_names(&reader, &header);
	if (r < 0 || !reader.names.sh_size)
		return r;
	r = read_sections(&reader);
	if (r < 0)
		return r;
	r = choose_notes(&reader, &provider_pattern, &name_pattern);
	if (r < 0 || !reader.n_notes)
		return r;
	r = read_segments(&reader, &header);
	if (r < 0)
		return r;
	return report(&reader, callback, data);
}
