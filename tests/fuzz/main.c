/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls a fuzzer without libFuzzer, for make check, which has a build with sanitizers already: with
 * each file of a directory, and then with changed ones until the time is over.
 * usage: fuzz_NAME SECONDS DIRECTORY. The last input is in DIRECTORY.last.
 */
#include <dirent.h>
#include <stdio.h>
#include <time.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX 16384
#define INPUTS_MAX 4096
#define INPUT_SECONDS 10

/* A fuzzer may lack it. */
#pragma weak LLVMFuzzerInitialize

struct input {
	uint8_t *data;
	size_t size;
};

static struct input inputs[INPUTS_MAX];
static size_t n_inputs, n_runs;
static uint64_t state;
static uint8_t *last; /* shared with its file: it is there if this process is not */

static uint64_t next_random(uint64_t limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % limit;
}

static int read_inputs(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)) && n_inputs < INPUTS_MAX) {
		struct input *input = &inputs[n_inputs];
		_cleanup_close_ int fd = openat(dirfd(directory), entry->d_name, O_RDONLY);
		ssize_t n;

		input->data = malloc(INPUT_MAX);
		n = input->data ? read(fd, input->data, INPUT_MAX) : -1;
		if (n < 0) {
			free(input->data);
			continue;
		}
		input->size = (size_t)n;
		n_inputs++;
	}
	if (directory)
		closedir(directory);
	return n_inputs ? 0 : -1;
}

static void change(uint8_t *data, size_t *size)
{
	static const uint8_t likely[] = { 0, 1, 0x7f, 0x80, 0xff, ' ', '?', '\n' };
	const struct input *other = &inputs[next_random(n_inputs)];
	size_t at = next_random(*size + 1), n = next_random(16) + 1;

	switch (next_random(6)) {
	case 0: /* flip a bit */
		if (at < *size)
			data[at] ^= (uint8_t)(1u << next_random(8));
		break;
	case 1: /* another byte */
		if (at < *size)
			data[at] = (uint8_t)next_random(256);
		break;
	case 2:
		if (at < *size)
			data[at] = likely[next_random(sizeof(likely))];
		break;
	case 3: /* leave some out */
		n = MIN(n, *size - at);
		memmove(data + at, data + at + n, *size - at - n);
		*size -= n;
		break;
	case 4: /* insert some */
		n = MIN(n, INPUT_MAX - *size);
		memmove(data + at + n, data + at, *size - at);
		*size += n;
		break;
	default: /* go on as another input */
		n = next_random(other->size + 1);
		n = MIN(n, other->size);
		if (at + (other->size - n) <= INPUT_MAX) {
			memcpy(data + at, other->data + n, other->size - n);
			*size = at + (other->size - n);
		}
	}
}

static void run(const uint8_t *data, size_t size)
{
	/* libFuzzer, too, gives each input memory of its own, so that reading beyond it shows. */
	uint8_t *copy = malloc(size ?: 1);

	if (!copy)
		return;
	memcpy(copy, data, size);
	memcpy(last + sizeof(size), data, size);
	memcpy(last, &size, sizeof(size));
	alarm(INPUT_SECONDS);
	LLVMFuzzerTestOneInput(copy, size);
	n_runs++;
	free(copy);
}

static int map_last(const char *directory)
{
	_cleanup_close_ int fd = -1;
	char path[512];

	snprintf(path, sizeof(path), "%s.last", directory);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, sizeof(size_t) + INPUT_MAX) < 0)
		return -1;
	last = mmap(NULL, sizeof(size_t) + INPUT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return last == MAP_FAILED ? -1 : 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_MAX];
	const char *seed = getenv("CHECK_SEED");
	time_t end;

	if (argc != 3 || map_last(argv[2]) < 0 || read_inputs(argv[2]) < 0) {
		fprintf(stderr, "usage: %s SECONDS DIRECTORY-WITH-INPUTS\n", argv[0]);
		return 2;
	}
	state = (seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL)) * 0x9e3779b97f4a7c15ull |
		1;
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	end = time(NULL) + atoi(argv[1]);
	for (size_t i = 0; i < n_inputs && time(NULL) <= end; i++)
		run(inputs[i].data, inputs[i].size);
	while (time(NULL) < end) {
		const struct input *input = &inputs[next_random(n_inputs)];
		size_t size = input->size;

		memcpy(data, input->data, size);
		for (uint64_t n = next_random(8) + 1; n; n--)
			change(data, &size);
		run(data, size);
	}
	printf("%zu inputs of %zu\n", n_runs, n_inputs);
	return 0;
}
