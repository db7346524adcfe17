/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/elf/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/macro.h"

#define CHUNK_BYTES (64u << 10)

/* Decompresses one xz stream of an image, piece by piece. */
struct decoder {
	lzma_stream stream;
	uint64_t at, left; /* of the compressed bytes in the file */
	uint64_t written;
	uint8_t input[CHUNK_BYTES], output[CHUNK_BYTES];
};

static int fail(const char **ret_reason, int error, const char *reason)
{
	if (ret_reason)
		*ret_reason = reason;
	return error;
}

static void decoder_freep(struct decoder **decoder)
{
	if (*decoder)
		lzma_end(&(*decoder)->stream);
	free(*decoder);
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int explain(lzma_ret result, const char **ret_reason)
{
	if (result == LZMA_MEM_ERROR)
		return fail(ret_reason, -ENOMEM, "out of memory");
	if (result == LZMA_MEMLIMIT_ERROR)
		return fail(ret_reason, -E2BIG,
			    "the compressed symbols (.gnu_debugdata) need too much memory");
	return fail(ret_reason, -EBADMSG, "the compressed symbols (.gnu_debugdata) are malformed");
}

/* Writes the whole of the decompressed stream. */
static int decode(struct decoder *decoder, const struct elf_image *image, int fd,
		  const char **ret_reason)
{
	lzma_stream *stream = &decoder->stream;
	lzma_ret result = LZMA_OK;

	while (result != LZMA_STREAM_END) {
		size_t size;
		int r;

		if (stream->avail_in == 0 && decoder->left > 0) {
			size = MIN(decoder->left, CHUNK_BYTES);
			r = elf_image_read(image, decoder->at, decoder->input, size);
			if (r < 0)
				return fail(ret_reason, r, "the compressed symbols cannot be read");
			decoder->at += size;
			decoder->left -= size;
			stream->next_in = decoder->input;
			stream->avail_in = size;
		}
		stream->next_out = decoder->output;
		stream->avail_out = CHUNK_BYTES;
		result = lzma_code(stream, decoder->left > 0 ? LZMA_RUN : LZMA_FINISH);
		if (result != LZMA_OK && result != LZMA_STREAM_END)
			return explain(result, ret_reason);
		size = CHUNK_BYTES - stream->avail_out;
		if (size > DEBUG_DATA_MAX - decoder->written)
			return fail(ret_reason, -E2BIG,
				    "the compressed symbols (.gnu_debugdata) are too large");
		decoder->written += size;
		r = write_all(fd, decoder->output, size);
		if (r < 0)
			return fail(ret_reason, r,
				    "the decompressed symbols cannot be kept in memory");
	}
	return 0;
}

int elf_debug_open_embedded(const struct elf_image *image, struct elf_image **ret,
			    const char **ret_reason)
{
	const Elf64_Shdr *section = elf_image_find_named(image, SHT_PROGBITS, ".gnu_debugdata");
	_cleanup_(decoder_freep) struct decoder *decoder = NULL;
	_cleanup_close_ int fd = -1;
	lzma_ret result;
	int r;

	if (!section)
		return -ENOENT;
	if (section->sh_offset > elf_image_size(image) ||
	    section->sh_size > elf_image_size(image) - section->sh_offset)
		return fail(ret_reason, -EBADMSG,
			    "the compressed symbols (.gnu_debugdata) lie outside the file");
	decoder = calloc(1, sizeof(*decoder));
	if (!decoder)
		return fail(ret_reason, -ENOMEM, "out of memory");
	decoder->stream = (lzma_stream)LZMA_STREAM_INIT;
	decoder->at = section->sh_offset;
	decoder->left = section->sh_size;
	result = lzma_stream_decoder(&decoder->stream, DEBUG_DECODER_MAX, 0);
	if (result != LZMA_OK)
		return explain(result, ret_reason);
	fd = memfd_create("symbols", MFD_CLOEXEC);
	if (fd < 0)
		return fail(ret_reason, -errno,
			    "the decompressed symbols cannot be kept in memory");
	r = decode(decoder, image, fd, ret_reason);
	return r < 0 ? r : elf_image_open(fd, ret, ret_reason);
}

int elf_debug_find(const char *build_id, const char *directory, int *ret_fd)
{
	char path[PATH_MAX];
	int n, fd;

	if (strlen(build_id) < 4 || build_id[strspn(build_id, "0123456789abcdef")])
		return -ENOENT;
	n = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", directory, build_id,
		     build_id + 2);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	/* A file that is not regular is refused later, and must not block here. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* The next executable PT_LOAD at or after *at, which is moved past it. */
static const Elf64_Phdr *next_code(const struct elf_image *image, size_t *at)
{
	const Elf64_Phdr *segment;

	while ((segment = elf_image_segment(image, (*at)++)))
		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
			break;
	return segment;
}

static bool has_same_code(const struct elf_image *a, const struct elf_image *b)
{
	size_t at_a = 0, at_b = 0;

	for (;;) {
		const Elf64_Phdr *x = next_code(a, &at_a), *y = next_code(b, &at_b);

		if (!x || !y)
			return x == y;
		if (x->p_vaddr != y->p_vaddr || x->p_memsz != y->p_memsz ||
		    x->p_flags != y->p_flags)
			return false;
	}
}

int elf_debug_open(const struct elf_image *image, int fd, struct elf_image **ret,
		   const char **ret_reason)
{
	_cleanup_(elf_image_freep) struct elf_image *debug = NULL;
	int r;

	if (!elf_image_is_system(image))
		return fail(
			ret_reason, -EPERM,
			"debug files are only used for files that root owns and no other user can write");
	r = elf_image_open(fd, &debug, ret_reason);
	if (r < 0)
		return r;
	if (!elf_image_is_system(debug))
		return fail(ret_reason, -EPERM,
			    "the debug file is not owned by root, or other users can write it");
	if (!elf_image_build_id(image)[0] ||
	    strcmp(elf_image_build_id(image), elf_image_build_id(debug)))
		return fail(ret_reason, -ESTALE, "the debug file has another build-id");
	if (!has_same_code(image, debug))
		return fail(ret_reason, -ESTALE,
			    "the debug file belongs to a file with other code");
	*ret = TAKE_PTR(debug);
	return 0;
}
