# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What CMake asks about TensorFlow: where it is, and what a plug-in must be built for.

`tensorflow_facts.py find` prints the folder of the TensorFlow that this Python would import; `tensorflow_facts.py facts
FOLDER` prints what that TensorFlow says about itself as JSON. Run with python -E: pip builds a wheel in an environment
of its own, which it enters through PYTHONPATH; TensorFlow stands outside of it.
"""

import importlib.util
import json
import os
import pathlib
import sys

NOT_FOUND = """TensorFlow is not installed for {python}, and a plug-in is built for one TensorFlow.
  Fix: {python} -m pip install tensorflow-cpu==2.21.0, then the same command again;
  or name the folder of a TensorFlow of another environment: FUSEWIRE_TENSORFLOW=.../site-packages/tensorflow"""


def find() -> str:
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise SystemExit(NOT_FOUND.format(python=sys.executable))
    return str(pathlib.Path(spec.origin).parent)


def facts(folder: str) -> dict[str, str | int]:
    if not pathlib.Path(folder, "libtensorflow_framework.so.2").is_file():
        raise SystemExit(f"{folder} holds no TensorFlow: no libtensorflow_framework.so.2.\n  Fix: name its folder")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    sys.path.insert(0, str(pathlib.Path(folder).parent))
    import tensorflow

    return {
        "tensorflow": tensorflow.version.VERSION,
        "git_version": tensorflow.version.GIT_VERSION,
        "cxx11_abi": tensorflow.sysconfig.CXX11_ABI_FLAG,
    }


if __name__ == "__main__":
    print(find() if sys.argv[1:] == ["find"] else json.dumps(facts(sys.argv[2])))
