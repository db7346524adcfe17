/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the packs: each is pack_NAME, in NAME.c. */
#pragma once

#define PACKS(X)                                                                                   \
	X(tensorflow)                                                                              \
	X(onnxruntime)                                                                             \
	X(openvino)                                                                                \
	X(pytorch) X(jax) X(triton) X(grpc) X(marks) X(openssl) X(cpython) X(python) X(uvloop)
