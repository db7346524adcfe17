/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the packs: each is pack_NAME, in NAME.c. */
#pragma once

#define PACKS(X)                                                                                   \
	X(tensorflow)                                                                              \
	X(onnxruntime)                                                                             \
	X(openvino)                                                                                \
	X(pytorch)                                                                                 \
	X(jax)                                                                                     \
	X(triton)                                                                                  \
	X(triton_python)                                                                           \
	X(grpc)                                                                                    \
	X(marks)                                                                                   \
	X(openssl)                                                                                 \
	X(python) X(uvloop) X(cpython310) X(cpython311) X(cpython312) X(cpython313) X(cpython314)
