# SPDX-License-Identifier: Apache-2.0
"""Forked workers that run a model in OpenVINO (answers.py). None refuses memory that is both writable and executable, in which the runtime has
the code that it makes.

usage: openvino_answers.py"""
import answers


def load():
    # Not before the fork: it starts threads.
    import openvino
    import openvino_model
    model = openvino.Core().compile_model(openvino_model.layer(), "CPU")
    value = openvino_model.values(64, 64)
    return lambda: model.create_infer_request().infer({0: value})[0].tobytes()


answers.serve(load, ((False, False), (True, False)))
