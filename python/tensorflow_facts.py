# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Tells CMake where TensorFlow is and which build of it a plug-in must match.

`tensorflow_facts.py find` prints the folder of the TensorFlow that this Python would import; `tensorflow_facts.py facts
FOLDER` prints that TensorFlow's version and ABI as JSON. Run it with python -E: pip builds a wheel in an isolated
environment, set up through PYTHONPATH, and TensorFlow is installed outside of it.
"""

import importlib.util
import json
import os
import pathlib
import sys

NOT_FOUND = """TensorFlow is not installed for {python}; the plug-in is built for the installed TensorFlow.
  Fix: {python} -m pip install tensorflow-cpu==2.21.0, then run the same command again;
  or point to a TensorFlow in another environment: FUSEWIRE_TENSORFLOW=.../site-packages/tensorflow"""


def find() -> str:
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise SystemExit(NOT_FOUND.format(python=sys.executable))
    return str(pathlib.Path(spec.origin).parent)


def facts(folder: str) -> dict[str, str | int]:
    if not pathlib.Path(folder, "libtensorflow_framework.so.2").is_file():
        raise SystemExit(
            f"FUSEWIRE_TENSORFLOW={folder} is not a TensorFlow folder: it has no libtensorflow_framework.so.2.\n"
            "  Fix: FUSEWIRE_TENSORFLOW=.../site-packages/tensorflow"
        )
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
