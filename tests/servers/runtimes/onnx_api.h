/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server calls of ONNX Runtime's C API, whose header is in no wheel: entries of struct
 * OrtApi by their numbers, which no release changes. Taken from onnxruntime_c_api.h of API version
 * 24, which Microsoft's Maven archive and the Go module github.com/yalue/onnxruntime_go carry.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ort_api_base {
	const void *const *(*get_api)(uint32_t version);
	const char *(*version)(void);
};

/* OrtGetApiBase(), which the library exports. */
typedef const struct ort_api_base *(*ort_get_api_base)(void);

/* Of the first release of the API that has all that is used here. */
#define ORT_API_VERSION 16
/* The enums of the API, as far as they are used. */
#define ORT_WARNINGS 2
#define ORT_FLOAT 1
#define ORT_ARENA_ALLOCATOR 1
#define ORT_MEMORY_DEFAULT 0

/* A failure's object; NULL: none. All others are opaque, too. */
typedef void *ort_status;
typedef void (*ort_callback)(void *data, void **outputs, size_t n_outputs, ort_status status);

#define ORT(number, type) ((type)ort_api[number])
#define ort_message ORT(2, const char *(*)(ort_status))
#define ort_create_env ORT(3, ort_status (*)(int, const char *, void **))
#define ort_create_session ORT(7, ort_status (*)(void *, const char *, void *, void **))
#define ort_run                                                                                    \
	ORT(9, ort_status (*)(void *, const void *, const char *const *, const void *const *,      \
			      size_t, const char *const *, size_t, void **))
#define ort_create_options ORT(10, ort_status (*)(void **))
#define ort_set_intra_op_threads ORT(24, ort_status (*)(void *, int))
#define ort_create_run_options ORT(39, ort_status (*)(void **))
#define ort_create_tensor                                                                          \
	ORT(49, ort_status (*)(const void *, void *, size_t, const int64_t *, size_t, int, void **))
#define ort_tensor_data ORT(51, ort_status (*)(void *, void **))
#define ort_create_memory_info ORT(69, ort_status (*)(int, int, void **))
#define ort_release_status ORT(93, void (*)(ort_status))
#define ort_release_session ORT(95, void (*)(void *))
#define ort_release_value ORT(96, void (*)(void *))
#define ort_release_run_options ORT(97, void (*)(void *))
#define ort_release_options ORT(100, void (*)(void *))
#define ort_run_with_binding ORT(133, ort_status (*)(void *, const void *, const void *))
#define ort_create_binding ORT(134, ort_status (*)(void *, void **))
#define ort_release_binding ORT(135, void (*)(void *))
#define ort_bind_input ORT(136, ort_status (*)(void *, const char *, const void *))
#define ort_bind_output ORT(137, ort_status (*)(void *, const char *, const void *))
#define ort_run_async                                                                              \
	ORT(260,                                                                                   \
	    ort_status (*)(void *, const void *, const char *const *, const void *const *, size_t, \
			   const char *const *, size_t, void **, ort_callback, void *))
