/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>

#include "lib/base/macro.h"
#include "lib/elf/rtti.h"
#include "tests/unit/check.h"
#include "tests/unit/elf_file.h"

#define BASE 0x400000
#define WORDS 512

/* How a file indicates which of its words are pointers, and where its C++ runtime is. */
enum form {
	FIXED,      /* linked to its addresses, with the runtime inside */
	RELA,       /* relocated, with the runtime in another file */
	RELA_WHOLE, /* relocated, with the runtime inside */
	RELR,       /* relocated in the short form, with the runtime inside */
	FORMS,
};

/* A file whose classes a test puts together word by word. Its addresses are the offsets plus BASE.
 */
struct rtti_file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[4];
	uint8_t code[256];
	Elf64_Dyn dynamic[8];
	Elf64_Sym symbols[5];
	Elf64_Rela rela[WORDS];
	uint64_t relr[WORDS];
	char strings[1024];
	uint64_t words[WORDS];
};

struct builder {
	struct rtti_file file;
	enum form form;
	size_t n_words, n_rela, n_relr, n_strings;
	uint64_t relr_next; /* what the first bit of the last bitmap stands for */
	uint64_t vptrs[3];  /* of the kinds of typeinfo, in a file with the runtime inside */
};

#define AT(member) (BASE + offsetof(struct rtti_file, member))

enum { KIND_ROOT, KIND_SINGLE, KIND_MANY, EXTERNAL_TYPEINFO };

static const char *const kinds[] = {
	"N10__cxxabiv117__class_type_infoE",
	"N10__cxxabiv120__si_class_type_infoE",
	"N10__cxxabiv121__vmi_class_type_infoE",
};

static uint64_t add_string(struct builder *b, const char *prefix, const char *string)
{
	uint64_t address = AT(strings) + b->n_strings;

	b->n_strings += (size_t)sprintf(b->file.strings + b->n_strings, "%s%s", prefix, string) + 1;
	return address;
}

/* Adds a word and returns its address. */
static uint64_t add_word(struct builder *b, uint64_t value)
{
	b->file.words[b->n_words++] = value;
	return AT(words) + 8 * (b->n_words - 1);
}

static void add_rela(struct builder *b, uint64_t address, uint32_t type, uint32_t symbol,
		     uint64_t addend)
{
	b->file.rela[b->n_rela++] =
		(Elf64_Rela){ address, ELF64_R_INFO((uint64_t)symbol, type), (int64_t)addend };
}

/* One address, then bitmaps for the words that follow it. */
static void add_relr(struct builder *b, uint64_t address)
{
	if (b->n_relr == 0) {
		b->file.relr[b->n_relr++] = address;
		b->relr_next = address + 8;
		b->file.relr[b->n_relr++] = 1;
		return;
	}
	for (; address - b->relr_next >= 63 * 8; b->relr_next += 63 * 8)
		b->file.relr[b->n_relr++] = 1;
	b->file.relr[b->n_relr - 1] |= 2ull << (address - b->relr_next) / 8;
}

static uint64_t add_pointer(struct builder *b, uint64_t value)
{
	uint64_t address = add_word(b, b->form == RELA || b->form == RELA_WHOLE ? 0 : value);

	if (b->form == RELA || b->form == RELA_WHOLE) {
		add_rela(b, address, R_X86_64_RELATIVE, 0, value);
	} else if (b->form == RELR) {
		add_relr(b, address);
	}
	return address;
}

static uint64_t code(unsigned i)
{
	return AT(code) + 16 * i;
}

/* Adds a typeinfo's first two words and returns its address. */
static uint64_t add_typeinfo(struct builder *b, int kind, const char *name)
{
	uint64_t string = add_string(b, "", name), address;

	if (b->form == RELA) {
		address = add_word(b, 0);
		add_rela(b, address, R_X86_64_64, (uint32_t)kind + 1, 16);
	} else {
		address = add_pointer(b, b->vptrs[kind]);
	}
	add_pointer(b, string);
	return address;
}

static uint64_t add_root(struct builder *b, const char *name)
{
	return add_typeinfo(b, KIND_ROOT, name);
}

static uint64_t add_single(struct builder *b, const char *name, uint64_t base)
{
	uint64_t address = add_typeinfo(b, KIND_SINGLE, name);

	add_pointer(b, base);
	return address;
}

/* Adds a virtual table with so many functions from code(first) on, and returns the address of its
 * slot 0. */
static uint64_t add_vtable(struct builder *b, uint64_t typeinfo, int64_t offset_to_top,
			   unsigned first, unsigned n)
{
	uint64_t address;

	add_word(b, (uint64_t)offset_to_top);
	address = add_pointer(b, typeinfo) + 8;
	for (unsigned i = 0; i < n; i++)
		add_pointer(b, code(first + i));
	return address;
}

/* The C++ runtime's own three classes, with tables whose addresses the typeinfos need beforehand.
 */
static void add_runtime(struct builder *b)
{
	uint64_t next = AT(words) + 8 * b->n_words;

	/* Each takes a typeinfo of three words, then a table of two and two functions. */
	for (int i = 0; i < 3; i++)
		b->vptrs[i] = next + 7 * 8 * (uint64_t)i + 5 * 8;
	for (int i = 0; i < 3; i++)
		add_vtable(b, add_single(b, kinds[i], next), 0, 14, 2);
}

static void builder_begin(struct builder *b, enum form form)
{
	*b = (struct builder){ .form = form };
	b->n_strings = 1;
	/* The first word of data is not preceded by one. */
	add_word(b, 1);
	if (form != RELA) {
		add_runtime(b);
		return;
	}
	for (int i = 0; i < 3; i++)
		b->file.symbols[i + 1] = (Elf64_Sym){
			.st_name = (uint32_t)(add_string(b, "_ZTV", kinds[i]) - AT(strings)),
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
		};
	b->file.symbols[4].st_name = (uint32_t)(add_string(b, "_ZTI", "3Far") - AT(strings));
}

/* On its own: gcc takes the whole file, written where its header was just filled in, for that
 * header's first field. */
static __attribute__((noinline)) int write_file(const struct rtti_file *file)
{
	return elf_file_write(file, sizeof(*file));
}

/* Completes the headers; returns a descriptor of the file. */
static int builder_end(struct builder *b)
{
	struct rtti_file *file = &b->file;
	size_t n = 0;

	add_word(b, 1);
	file->header = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = b->form == FIXED ? ET_EXEC : ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phoff = offsetof(struct rtti_file, segments),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = ARRAY_SIZE(file->segments),
	};
	file->segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
					  .p_flags = PF_R | PF_X,
					  .p_vaddr = AT(code),
					  .p_offset = offsetof(struct rtti_file, code),
					  .p_filesz = sizeof(file->code) };
	file->segments[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
					  .p_flags = PF_R,
					  .p_vaddr = AT(dynamic),
					  .p_offset = offsetof(struct rtti_file, dynamic),
					  .p_filesz = offsetof(struct rtti_file, words) -
						      offsetof(struct rtti_file, dynamic) };
	/* Constants of a fixed file may lie in a segment that is only read. */
	file->segments[2] = (Elf64_Phdr){ .p_type = PT_LOAD,
					  .p_flags = b->form == FIXED ? PF_R : PF_R | PF_W,
					  .p_vaddr = AT(words),
					  .p_offset = offsetof(struct rtti_file, words),
					  .p_filesz = sizeof(file->words) };
	if (b->form != FIXED) {
		file->segments[3] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
						  .p_vaddr = AT(dynamic),
						  .p_offset = offsetof(struct rtti_file, dynamic),
						  .p_filesz = sizeof(file->dynamic) };
		file->dynamic[n++] = (Elf64_Dyn){ DT_RELA, { AT(rela) } };
		file->dynamic[n++] = (Elf64_Dyn){ DT_RELASZ, { b->n_rela * sizeof(Elf64_Rela) } };
		file->dynamic[n++] = (Elf64_Dyn){ DT_RELR, { AT(relr) } };
		file->dynamic[n++] = (Elf64_Dyn){ DT_RELRSZ, { b->n_relr * 8 } };
		file->dynamic[n++] = (Elf64_Dyn){ DT_SYMTAB, { AT(symbols) } };
		file->dynamic[n++] = (Elf64_Dyn){ DT_STRTAB, { AT(strings) } };
		file->dynamic[n++] = (Elf64_Dyn){ DT_STRSZ, { sizeof(file->strings) } };
	}
	return write_file(file);
}

/* The answer to a query, as lines "name table slots first-function". */
struct report {
	struct rtti *rtti;
	char text[2048];
	int answer;
};

static int on_class(const struct rtti_class *class, void *data)
{
	struct report *report = data;
	size_t length = strlen(report->text);
	uint64_t function = 0;
	int r = elf_rtti_slot(report->rtti, class, 0, &function);

	CHECK_EQ(r, function ? 0 : -ENOENT);
	CHECK_EQ(elf_rtti_slot(report->rtti, class, class->n_slots, &function), -ENOENT);
	snprintf(report->text + length, sizeof(report->text) - length, "%s %s %u %lld\n",
		 class->name, class->vtable ? "table" : "none", class->n_slots,
		 function ? (long long)(function - code(0)) / 16 : -1);
	return report->answer;
}

/* Queries a file once; returns the first error. */
static int ask(int fd, const char *name, bool derived, struct report *report)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_(elf_rtti_freep) struct rtti *rtti = NULL;
	const char *reason = NULL;
	int r;

	r = elf_image_open(fd, &image, NULL);
	CHECK_EQ(r, 0);
	r = elf_rtti_open(image, &rtti, &reason);
	CHECK_EQ(!reason, r == 0);
	if (r < 0)
		return r;
	report->rtti = rtti;
	return elf_rtti_find(rtti, name, derived, on_class, report);
}

static int build_and_ask(struct builder *b, const char *name, bool derived, struct report *report)
{
	_cleanup_close_ int fd = builder_end(b);

	memset(report, 0, sizeof(*report));
	return ask(fd, name, derived, report);
}

/* Base ← One ← Two; Other stands alone. */
static void add_family(struct builder *b)
{
	uint64_t base, one, two;

	/* More pointers than one bitmap of relocations is for. */
	for (int i = 0; i < 70; i++)
		add_pointer(b, code(15));
	base = add_root(b, "4Base");
	one = add_single(b, "*N12_GLOBAL__N_13OneE", base);
	two = add_single(b, "3Two", one);
	add_vtable(b, base, 0, 0, 3);
	add_vtable(b, one, 0, 3, 3);
	add_vtable(b, two, 0, 6, 4);
	add_vtable(b, add_root(b, "5Other"), 0, 10, 1);
}

TEST(classes_derived_directly_or_not_are_found_in_each_form_of_file)
{
	for (enum form form = 0; form < FORMS; form++) {
		struct report report;
		struct builder b;

		builder_begin(&b, form);
		add_family(&b);
		CHECK_EQ(build_and_ask(&b, "4Base", true, &report), 0);
		CHECK_STR(report.text, "N12_GLOBAL__N_13OneE table 3 3\n3Two table 4 6\n");
		CHECK_EQ(build_and_ask(&b, "4Base", false, &report), 0);
		CHECK_STR(report.text, "4Base table 3 0\n");
		CHECK_EQ(build_and_ask(&b, "N12_GLOBAL__N_13OneE", true, &report), 0);
		CHECK_STR(report.text, "3Two table 4 6\n");
		CHECK_EQ(build_and_ask(&b, "3Bas", true, &report), 0);
		CHECK_STR(report.text, "");
	}
}

TEST(a_class_at_address_0_is_none)
{
	struct report report = {};
	struct builder b;
	uint64_t base;
	int fd;

	builder_begin(&b, FIXED);
	base = add_root(&b, "4Base");
	close(builder_end(&b));
	/* The same bytes once more. */
	memmove(&b.file.segments[1], &b.file.segments[0], 3 * sizeof(b.file.segments[0]));
	b.file.segments[0] = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_R, .p_offset = base - BASE, .p_filesz = 16
	};
	fd = write_file(&b.file);
	CHECK_EQ(ask(fd, "4Base", false, &report), 0);
	CHECK_STR(report.text, "4Base none 0 -1\n");
	close(fd);
}

TEST(a_null_slot_is_no_function_where_code_begins_at_address_0)
{
	struct report report = {};
	struct builder b;
	uint64_t base;
	int fd;

	builder_begin(&b, FIXED);
	base = add_root(&b, "4Base");
	add_word(&b, 0);
	add_pointer(&b, base);
	/* The destructors of an abstract class. */
	add_word(&b, 0);
	add_word(&b, 0);
	add_pointer(&b, code(3));
	close(builder_end(&b));
	memmove(&b.file.segments[1], &b.file.segments[0], 3 * sizeof(b.file.segments[0]));
	b.file.segments[0] =
		(Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 1 };
	fd = write_file(&b.file);
	CHECK_EQ(ask(fd, "4Base", false, &report), 0);
	CHECK_STR(report.text, "4Base table 3 -1\n");
	close(fd);
}

TEST(all_classes_are_listed_without_a_name)
{
	struct report report;
	struct builder b;

	builder_begin(&b, RELA);
	add_family(&b);
	CHECK_EQ(build_and_ask(&b, NULL, false, &report), 0);
	CHECK_STR(
		report.text,
		"4Base table 3 0\nN12_GLOBAL__N_13OneE table 3 3\n3Two table 4 6\n5Other table 1 10\n");
}

TEST(a_base_that_is_not_the_first_is_seen_through_its_own_table)
{
	for (enum form form = 0; form < FORMS; form++) {
		uint64_t base, second, many, virtual;
		struct report report;
		struct builder b;

		builder_begin(&b, form);
		base = add_root(&b, "4Base");
		second = add_root(&b, "6Second");
		many = add_typeinfo(&b, KIND_MANY, "4Many");
		add_word(&b, 2ull << 32);
		add_pointer(&b, second);
		add_word(&b, 2);
		add_pointer(&b, base);
		add_word(&b, 16 << 8 | 2);
		virtual = add_typeinfo(&b, KIND_MANY, "7Virtual");
		add_word(&b, 1ull << 32);
		add_pointer(&b, base);
		add_word(&b, 3);
		add_vtable(&b, many, 0, 1, 2);
		add_vtable(&b, many, -16, 3, 3);
		add_vtable(&b, virtual, 0, 6, 2);
		add_vtable(&b, add_single(&b, "5Child", many), -16, 9, 3);
		CHECK_EQ(build_and_ask(&b, "4Base", true, &report), 0);
		CHECK_STR(report.text, "4Many table 3 3\n7Virtual none 0 -1\n5Child table 3 9\n");
		CHECK_EQ(build_and_ask(&b, "6Second", true, &report), 0);
		CHECK_STR(report.text, "4Many table 2 1\n5Child none 0 -1\n");
	}
}

TEST(a_table_with_destructors_is_preferred_and_one_without_is_taken_alone)
{
	for (enum form form = 0; form < FORMS; form++) {
		uint64_t base, one;
		struct report report;
		struct builder b;

		builder_begin(&b, form);
		base = add_root(&b, "4Base");
		one = add_single(&b, "3One", base);
		for (int i = 0; i < 2; i++) {
			/* What is in use while an object is constructed, and abstract classes, have
			 * zeros there. */
			add_word(&b, 0);
			add_pointer(&b, i ? one : base);
			add_word(&b, 0);
			add_word(&b, 0);
			add_pointer(&b, code(5));
		}
		add_vtable(&b, one, 0, 7, 3);
		CHECK_EQ(build_and_ask(&b, "4Base", true, &report), 0);
		CHECK_STR(report.text, "3One table 3 7\n");
		CHECK_EQ(build_and_ask(&b, "4Base", false, &report), 0);
		CHECK_STR(report.text, "4Base table 3 -1\n");
	}
}

TEST(a_pointer_to_a_typeinfo_without_functions_after_it_is_not_a_table)
{
	for (enum form form = 0; form < FORMS; form++) {
		struct report report;
		struct builder b;
		uint64_t one;

		builder_begin(&b, form);
		one = add_single(&b, "3One", add_root(&b, "4Base"));
		add_word(&b, 0);
		add_pointer(&b, one);
		add_word(&b, 5);
		add_word(&b, 8);
		add_pointer(&b, one);
		add_pointer(&b, code(1));
		if (form != FIXED) {
			/* A pointer to address 0 is not an offset to the top. */
			add_pointer(&b, 0);
			add_pointer(&b, one);
			add_pointer(&b, code(1));
		}
		CHECK_EQ(build_and_ask(&b, "4Base", true, &report), 0);
		CHECK_STR(report.text, "3One none 0 -1\n");
	}
}

TEST(a_base_of_another_file_is_known_by_its_symbol)
{
	struct report report;
	struct builder b;
	uint64_t one;

	builder_begin(&b, RELA);
	one = add_typeinfo(&b, KIND_SINGLE, "3One");
	add_rela(&b, add_word(&b, 0), R_X86_64_64, EXTERNAL_TYPEINFO + 1, 0);
	add_vtable(&b, one, 0, 3, 3);
	add_vtable(&b, add_single(&b, "3Two", one), 0, 6, 3);
	CHECK_EQ(build_and_ask(&b, "3Far", true, &report), 0);
	CHECK_STR(report.text, "3One table 3 3\n3Two table 3 6\n");
	CHECK_EQ(build_and_ask(&b, "3Far", false, &report), 0);
	CHECK_STR(report.text, "");
}

TEST(a_slot_of_a_function_of_another_file_counts_but_has_no_address)
{
	_cleanup_close_ int fd = -1;
	struct report report = { 0 };
	struct builder b;
	uint64_t one;

	builder_begin(&b, RELA);
	one = add_root(&b, "3One");
	add_vtable(&b, one, 0, 0, 0);
	add_rela(&b, add_word(&b, 0), R_X86_64_64, EXTERNAL_TYPEINFO + 1, 0);
	add_pointer(&b, code(4));
	/* The first word of a typeinfo that follows is not a slot. */
	add_root(&b, "3Two");
	fd = builder_end(&b);
	CHECK_EQ(ask(fd, "3One", false, &report), 0);
	CHECK_STR(report.text, "3One table 2 -1\n");
}

TEST(classes_that_are_each_others_bases_are_reported_once)
{
	for (enum form form = 0; form < FORMS; form++) {
		uint64_t first, one, two;
		struct report report;
		struct builder b;

		builder_begin(&b, form);
		first = AT(words) + 8 * b.n_words;
		one = add_single(&b, "3One", first + 3 * 8);
		two = add_single(&b, "3Two", first);
		add_single(&b, "4Self", first + 6 * 8);
		add_vtable(&b, one, 0, 0, 2);
		add_vtable(&b, two, 0, 2, 2);
		CHECK_EQ(build_and_ask(&b, "3One", true, &report), 0);
		CHECK_STR(report.text, "3Two table 2 2\n");
		CHECK_EQ(build_and_ask(&b, "4Self", true, &report), 0);
		CHECK_STR(report.text, "");
	}
}

TEST(the_callback_can_end_the_search)
{
	struct report report = { .answer = 7 };
	_cleanup_close_ int fd = -1;
	struct builder b;

	builder_begin(&b, FIXED);
	add_family(&b);
	fd = builder_end(&b);
	CHECK_EQ(ask(fd, "4Base", true, &report), 7);
	CHECK_STR(report.text, "N12_GLOBAL__N_13OneE table 3 3\n");
}

TEST(malformed_files_are_refused_with_an_error_and_a_reason)
{
	static const struct {
		const char *what;
		int error;
	} cases[] = {
		{ "relocations outside the file", -EBADMSG },
		{ "relocations of 16 EiB", -EBADMSG },
		{ "a relocation of a symbol that is not there", -EBADMSG },
		{ "a symbol past the cap", -E2BIG },
		{ "symbols outside the file", -EBADMSG },
		{ "strings outside the file", -EBADMSG },
		{ "data outside the file", -EBADMSG },
		{ "data at the end of the addresses", -EBADMSG },
		{ "data in two segments at one address", -EBADMSG },
		{ "short relocations outside the file", -EBADMSG },
		{ "a dynamic section outside the file", -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int fd = -1;
		struct report report = { 0 };
		struct builder b;
		int r;

		builder_begin(&b, RELA);
		add_family(&b);
		close(builder_end(&b));
		switch (i) {
		case 0:
			b.file.dynamic[0].d_un.d_ptr = 0x10;
			break;
		case 1:
			b.file.dynamic[1].d_un.d_val = UINT64_MAX;
			break;
		case 2:
			b.file.rela[0].r_info = ELF64_R_INFO(100000ull, R_X86_64_64);
			break;
		case 3:
			b.file.rela[0].r_info = ELF64_R_INFO(0xffffffffull, R_X86_64_64);
			break;
		case 4:
			b.file.dynamic[4].d_un.d_ptr = UINT64_MAX;
			break;
		case 5:
			b.file.dynamic[5].d_un.d_ptr = 1;
			break;
		case 6:
			b.file.segments[2].p_filesz = UINT64_MAX / 4;
			break;
		case 7:
			b.file.segments[2].p_vaddr = UINT64_MAX - 4096;
			break;
		case 8:
			b.file.segments[1] = b.file.segments[2];
			break;
		case 9:
			b.file.dynamic[3].d_un.d_val = 1 << 30;
			break;
		case 10:
			b.file.segments[3].p_vaddr = 8;
			break;
		}
		fd = write_file(&b.file);
		r = ask(fd, "4Base", true, &report);
		if (r != cases[i].error)
			fprintf(stderr, "  %s\n", cases[i].what);
		CHECK_EQ(r, cases[i].error);
	}
}

TEST(any_word_of_the_classes_may_be_wrong)
{
	static const uint64_t values[] = { 0,
					   1,
					   AT(words),
					   AT(words) + 4,
					   AT(strings) + sizeof(((struct rtti_file *)0)->strings) -
						   1,
					   UINT64_MAX,
					   INT64_MAX,
					   1ull << 63,
					   0xffffffff00000000 };

	for (enum form form = 0; form < FORMS; form++) {
		struct builder b;

		builder_begin(&b, form);
		add_family(&b);
		close(builder_end(&b));
		for (size_t at = 0; at < (form == RELA ? b.n_rela : b.n_words); at++)
			for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
				struct rtti_file spoilt = b.file;
				_cleanup_close_ int fd = -1;
				struct report report = { 0 };

				if (form == RELA || form == RELA_WHOLE)
					spoilt.rela[MIN(at, b.n_rela - 1)].r_addend =
						(int64_t)values[i];
				else
					spoilt.words[at] = values[i];
				fd = write_file(&spoilt);
				CHECK(ask(fd, NULL, false, &report) <= 0);
				memset(&report, 0, sizeof(report));
				CHECK(ask(fd, "4Base", true, &report) <= 0);
			}
	}
}

TEST(a_file_without_classes_has_none)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct report report = { 0 };

	CHECK_EQ(ask(fd, NULL, false, &report), 0);
	CHECK_STR(report.text, "");
}

/* The C++ library of this machine, loaded: its tables in memory are what the file must lead to. */
struct library {
	void *handle;
	struct link_map *map;
	struct rtti *rtti;
	size_t n_classes, n_slots;
};

static int compare_table(const struct rtti_class *class, void *data)
{
	struct library *library = data;
	char symbol[1024];
	uint64_t *table;

	snprintf(symbol, sizeof(symbol), "_ZTV%s", class->name);
	table = dlsym(library->handle, symbol);
	if (!table)
		return 0;
	library->n_classes++;
	CHECK_EQ(class->vtable + library->map->l_addr, (uintptr_t)(table + 2));
	CHECK_EQ(class->typeinfo + library->map->l_addr, table[1]);
	CHECK(class->n_slots >= 2);
	for (uint32_t i = 0; i < class->n_slots; i++) {
		uint64_t address;

		if (elf_rtti_slot(library->rtti, class, i, &address) == 0) {
			library->n_slots++;
			CHECK_EQ(address + library->map->l_addr, table[2 + i]);
		}
	}
	return 0;
}

TEST(the_classes_of_the_cplusplus_library_have_the_functions_that_run)
{
	_cleanup_(elf_image_freep) struct elf_image *image = NULL;
	_cleanup_(elf_rtti_freep) struct rtti *rtti = NULL;
	struct library library = { .handle = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) };
	_cleanup_close_ int fd = -1;

	CHECK(library.handle && "this test needs libstdc++6");
	if (!library.handle)
		return;
	CHECK_EQ(dlinfo(library.handle, RTLD_DI_LINKMAP, &library.map), 0);
	fd = open(library.map->l_name, O_RDONLY | O_CLOEXEC);
	CHECK_EQ(elf_image_open(fd, &image, NULL), 0);
	CHECK_EQ(elf_rtti_open(image, &rtti, NULL), 0);
	library.rtti = rtti;
	CHECK(elf_rtti_count(rtti) > 200);
	CHECK_EQ(elf_rtti_find(rtti, "St9exception", true, compare_table, &library), 0);
	CHECK(library.n_classes >= 20 && library.n_slots >= 60);
	library.n_classes = 0;
	CHECK_EQ(elf_rtti_find(rtti, "NSt6locale5facetE", true, compare_table, &library), 0);
	CHECK(library.n_classes >= 20);
	dlclose(library.handle);
}

CHECK_MAIN()
