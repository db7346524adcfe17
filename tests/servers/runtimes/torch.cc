/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's models, in PyTorch's C++ library (Debian's 1.13.1) instead of TensorFlow: each
 * answers x / 2 + 2 to a list of numbers. TORCH_RUN chooses how: no_grad or inference_mode, by
 * operations in such a block, or TorchScript, by …/NAME/VERSION/model.pt in no block.
 */
#define _Thread_local thread_local
extern "C" {
#include "tests/servers/model.h"
}

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <torch/csrc/jit/serialization/import.h>

static const char VERSION[] = "1";
/* An executor's first runs are not like the later ones. */
static constexpr int FIRST_RUNS = 3;

struct model {
	std::string name;
	std::function<at::Tensor(const at::Tensor &)> run;
};

thread_local uint32_t model_thread;

static at::Tensor half_plus_two(const at::Tensor &x)
{
	return x.mul(0.5).add(2);
}

static void choose_run(struct model *m, const std::string &directory)
{
	const char *chosen = std::getenv("TORCH_RUN");
	const std::string way = chosen ? chosen : "no_grad";

	if (way == "no_grad") {
		m->run = [](const at::Tensor &x) {
			at::NoGradGuard block;

			return half_plus_two(x);
		};
	} else if (way == "inference_mode") {
		m->run = [](const at::Tensor &x) {
			c10::InferenceMode block;

			return half_plus_two(x);
		};
	} else {
		auto script = torch::jit::load(directory + "/" + VERSION + "/model.pt");

		m->run = [script](const at::Tensor &x) mutable {
			return script.forward({ x }).toTensor();
		};
		for (int i = 0; i < FIRST_RUNS; i++)
			m->run(at::zeros({ 1 }));
	}
}

int model_load(const char *directory, char *error, size_t error_size, struct model **ret)
{
	const char *slash = std::strrchr(directory, '/');
	auto *m = new model{ slash ? slash + 1 : directory, {} };

	at::set_num_threads(1);
	try {
		choose_run(m, directory);
	} catch (const std::exception &e) {
		std::snprintf(error, error_size, "%s", e.what());
		model_free(m);
		return -EINVAL;
	}
	*ret = m;
	return 0;
}

struct model *model_free(struct model *m)
{
	delete m;
	return nullptr;
}

const char *model_name(const struct model *m)
{
	return m->name.c_str();
}

const char *model_version(const struct model *)
{
	return VERSION;
}

bool model_is_batched(const struct model *)
{
	return false;
}

int model_input_shape(const struct model *, int64_t rows, int64_t dims[2])
{
	dims[0] = rows;
	return 1;
}

int model_run(struct model *m, const struct tensor *input, char *error, size_t error_size,
	      struct tensor *ret)
{
	const auto n = static_cast<size_t>(input->dims[0]);

	if (input->dims_n != 1) {
		std::snprintf(error, error_size, "%s takes a list of numbers", m->name.c_str());
		return -EINVAL;
	}
	try {
		at::Tensor y = m->run(at::from_blob(input->values, { input->dims[0] }));

		ret->values = static_cast<float *>(std::calloc(n + 1, sizeof(float)));
		if (!ret->values)
			throw std::bad_alloc();
		std::memcpy(ret->values, y.data_ptr<float>(), n * sizeof(float));
	} catch (const std::exception &e) {
		std::snprintf(error, error_size, "%s", e.what());
		return -EINVAL;
	}
	ret->dims_n = 1;
	ret->dims[0] = input->dims[0];
	return 0;
}
