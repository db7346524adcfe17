# SPDX-License-Identifier: Apache-2.0
"""What the Python test servers share: models, their command line, and the ground truth of who served which request."""
import json
import os
import signal
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import tensorflow as tf

from truth import SIGNALS, Truth, run_until_signal

VALUES_MAX = 65536


class Model:
    def __init__(self, directory):
        versions = [name for name in os.listdir(directory) if name.isdigit()]
        if not versions:
            raise ValueError(f"{directory}: no version of a model there")
        self.name = os.path.basename(directory.rstrip("/"))
        self.version = max(map(int, versions))
        # The loaded object must outlive its functions.
        self.loaded = tf.saved_model.load(os.path.join(directory, str(self.version)))
        self.function = self.loaded.signatures["serving_default"]
        self.batched = self.name.startswith("batched")

    def run(self, **inputs):
        """The outputs as arrays, and what the ground truth says of the run."""
        start_ns = time.monotonic_ns()
        outputs = {name: value.numpy() for name, value in self.function(**inputs).items()}
        run = {"thread": threading.get_native_id(), "run_start_ns": start_ns, "run_end_ns": time.monotonic_ns(),
               "model": self.name}
        if self.batched:
            # Each row says it: the largest input and the rows of the batch that it was in.
            run["batch"] = [int(value) for value in outputs["y"][0][1:3]]
        return outputs, run


def add_arguments(parser):
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--profiler-port", type=int, help="start TensorFlow's in-process profiler there")
    parser.add_argument("--truth", metavar="FILE", help="at the end, write there who served which request")
    parser.add_argument("directories", nargs="+", metavar="MODEL-DIRECTORY")


def load_models(program, options):
    """The models by name; TensorFlow is set up for a small server, and its profiler started when that is asked for."""
    # TensorFlow's threads inherit this, so that only run_until_signal() takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    try:
        models = [Model(directory) for directory in options.directories]
    except (OSError, ValueError) as e:
        sys.exit(f"{program}: {e}")
    if options.profiler_port:
        tf.profiler.experimental.server.start(options.profiler_port)
    return {model.name: model for model in models}


def predict(models, name, body):
    """The status, what the answer is made of, and what the ground truth says of the run."""
    model = models.get(name)
    if model is None:
        return 404, {"error": "no such path or model"}, {}
    try:
        instances = tf.constant(json.loads(body)["instances"], tf.float32)
        if instances.shape.num_elements() > VALUES_MAX:
            raise ValueError("the input is too large")
        outputs, run = model.run(x=instances)
    except (KeyError, TypeError, ValueError, tf.errors.OpError) as e:
        return 400, {"error": str(e)}, {}
    return 200, {"predictions": outputs["y"].tolist()}, run
