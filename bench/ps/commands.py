# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The side of a task that answers what tasks.Task asks it: a line of JSON for each command and each answer."""

import json
import os
import sys
from collections.abc import Callable
from typing import NoReturn

Say = Callable[[dict], None]
Answer = Callable[[str, dict], dict]


def serve(description: str, make: Callable[[dict, Say], Answer]) -> NoReturn:
    """Makes the task of this description, and ends this process once there are no more commands."""
    # Standard output is only for answers; all other output goes to the log.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        answer = make(json.loads(description), say)
        say({})
        for line in sys.stdin:
            arguments = json.loads(line)
            say(answer(arguments.pop("command"), arguments))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        # TensorFlow's servers never stop, so there is nothing to wait for.
        sys.stderr.flush()
        os._exit(0)
