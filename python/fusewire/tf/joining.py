# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The chief joins a living job: it restores no checkpoint over parameter servers that are alive and ahead of it.

A chief that restarts, or whose session is lost, creates a session by SessionManager.prepare_session, which restores
the last checkpoint into all parameter servers before it looks at them. With FUSEWIRE_CHIEF_JOINS=1 we look first: if
every variable is initialised, and the global step is not behind the checkpoint's, the chief starts as a worker does, by
what SessionManager.wait_for_session does. Otherwise TensorFlow goes on as it always did.
"""

import dataclasses
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fusewire import settings
from fusewire.pages import page
from fusewire.tf import config as options
from fusewire.tf import patching, protocol

ASK_S = 60.0  # after this long without an answer, TensorFlow goes on as without us; a lost peer is noticed earlier
LOCAL = ("", "local")  # a session of its own: nobody else can have initialised it
NAMED_MAX = 3  # variables in a message


class StaysError(Exception):
    """The chief does not join. The text says why."""


@dataclasses.dataclass(frozen=True)
class Start:
    """What a program asks its SessionManager for."""

    manager: Any
    master: str
    config: Any
    saver: Any
    checkpoint_dir: str | None
    has_init_fn: bool


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The one that TensorFlow would restore; `path` is empty if there is none."""

    path: str = ""
    all_paths: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def install() -> None:
    """A second call has no effect."""
    patching.when_imported("tensorflow.python.training.session_manager", change_session_manager)


def change_session_manager(module: Any) -> None:
    patching.replace(module.SessionManager, "prepare_session", _prepare_session)
    patching.replace(module.SessionManager, "recover_session", _recover_session)


def _prepare_session(original: Callable[..., Any], self: Any, *arguments: Any, **keywords: Any) -> Any:
    session = joined_session(original, self, *arguments, **keywords)
    return original(self, *arguments, **keywords) if session is None else session


def _recover_session(original: Callable[..., Any], self: Any, *arguments: Any, **keywords: Any) -> tuple[Any, bool]:
    session = joined_session(original, self, *arguments, **keywords)
    return original(self, *arguments, **keywords) if session is None else (session, True)


def joined_session(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """A session in which the chief goes on with what the parameter servers have, or None: TensorFlow restores."""
    try:
        given = inspect.signature(original).bind(*arguments, **keywords).arguments
    except TypeError:
        return None  # TensorFlow says what is wrong
    # A program that names a file wants that one: an evaluation, for example.
    if not is_wanted(given.get("config")) or given["master"] in LOCAL or given.get("checkpoint_filename_with_path"):
        return None
    start = Start(
        given["self"],
        given["master"],
        given.get("config"),
        given.get("saver"),
        given.get("checkpoint_dir"),
        given.get("init_fn") is not None,
    )
    who = f"the chief {protocol.task_of(start.master)}"
    checkpoint = checkpoint_of(start)
    try:
        refuse_what_cannot_be_asked(start)
        saved = step_of(checkpoint, start)
        session, step = _join(start, checkpoint, saved)
    except StaysError as reason:
        then = f"it restores {checkpoint.name} into all of them" if checkpoint.path else "it initialises all variables"
        _say(f"{who} does not join the parameter servers: {reason}; {then}, as without FUSEWIRE_CHIEF_JOINS")
        return None
    beyond = f"the last checkpoint is of step {saved}" if checkpoint.path else "there is no checkpoint"
    _say(f"{who} joins the parameter servers at step {step}; {beyond}; nothing was restored or initialised")
    return session


def is_wanted(config: Any) -> bool:
    """FUSEWIRE_DISABLE overrides all."""
    return not settings.is_disabled() and bool(options.read(config, "chief_joins"))


def _say(text: str) -> None:
    if os.environ.get("FUSEWIRE_LOG", "") not in ("off", "error"):
        sys.stderr.write(f"fusewire: {text} (see: {page('chief')})\n")


# ---- what graph and files say ----


def refuse_what_cannot_be_asked(start: Start) -> None:
    """StaysError if the answers to our questions would not show that all state is there."""
    graph = start.manager._graph
    if graph.get_collection("saved_model_initializers"):
        raise StaysError("the graph has a SavedModel's initializers, which set variables in each new session")
    if _global_step(graph) is None:
        raise StaysError("the graph has no global step to compare with the checkpoint's")
    question = _question(start.manager)
    if question is None:
        raise StaysError("its SessionManager has no ready_op that says which variables are initialised")
    try:
        forgotten, unseen = what_is_not_asked(graph, question, start.saver)
    except (AttributeError, TypeError, ValueError) as error:  # a variable or a saver of another library
        raise StaysError(f"its graph has what we don't know: {_first_line(error)}") from error
    if forgotten:
        raise StaysError(f"its ready_op does not ask for {_listed(forgotten)}")
    if unseen:
        raise StaysError(
            f"the server of {_listed(unseen)} has no variable, which would show whether the server has kept its state"
        )


def what_is_not_asked(graph: Any, question: Any, saver: Any) -> tuple[list[str], list[str]]:
    """(variables that the question leaves out, what is saved from servers of which it asks nothing).

    A server that has lost its state shows it by its variables, and not by its tables.
    """
    from tensorflow.python.framework import ops

    held = graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES)
    asked = names_before(getattr(question, "op", question))
    seen = {_task(each.device) for each in held}
    return (
        [each.op.name for each in held if each.op.name not in asked],
        [each.name for each in _saved(saver) if _task(each.device) not in seen],
    )


def names_before(op: Any) -> set[str]:
    """The names of this operation and of all that it needs."""
    found: set[str] = set()
    left = [op]
    while left:
        each = left.pop()
        if each.name not in found:
            found.add(each.name)
            left += [tensor.op for tensor in each.inputs]
            left += each.control_inputs
    return found


def checkpoint_of(start: Start) -> Checkpoint:
    from tensorflow.python.checkpoint import checkpoint_management

    if not start.saver or not start.checkpoint_dir:
        return Checkpoint()
    state = checkpoint_management.get_checkpoint_state(start.checkpoint_dir)
    if not state or not state.model_checkpoint_path:
        return Checkpoint()
    return Checkpoint(state.model_checkpoint_path, tuple(state.all_model_checkpoint_paths))


def step_of(checkpoint: Checkpoint, start: Start) -> int:
    """The global step in the checkpoint, or -1 if there is none. StaysError if it can't be read."""
    if not checkpoint.path:
        return -1
    from tensorflow.python.framework import errors
    from tensorflow.python.training import checkpoint_utils

    try:
        reader = checkpoint_utils.load_checkpoint(checkpoint.path)
        held = reader.get_variable_to_shape_map()
        for name in names_in_checkpoint(_global_step(start.manager._graph), start.saver):
            if name in held:
                return int(reader.get_tensor(name))
    except (errors.OpError, ValueError, TypeError, RuntimeError) as error:
        raise StaysError(f"checkpoint {checkpoint.path} can't be read: {_first_line(error)}") from error
    raise StaysError(f"checkpoint {checkpoint.path} does not say its step")


def names_in_checkpoint(step: Any, saver: Any) -> Iterator[str]:
    """The names that the global step may have: the saver's, its own, or the one in a tf.train.Checkpoint."""
    variables = getattr(saver, "_var_list", None)
    if isinstance(variables, dict):
        yield from (str(name) for name, variable in variables.items() if variable is step)
    yield step.op.name
    yield f"{step.op.name}/.ATTRIBUTES/VARIABLE_VALUE"


def _global_step(graph: Any) -> Any:
    from tensorflow.python.training import training_util

    with graph.as_default():
        try:
            return training_util.get_global_step(graph)
        except TypeError:
            return None


def _question(manager: Any) -> Any:
    """The operation that lists the variables that are not initialised; those that each session initialises for itself
    can be among them only if there is no better question."""
    better = manager._ready_for_local_init_op
    return manager._ready_op if better is None else better


def _saved(saver: Any) -> Iterator[Any]:
    """All that the saver saves, each with a name and a device."""
    variables = getattr(saver, "_var_list", None) or ()
    for each in variables.values() if isinstance(variables, dict) else variables:
        yield from each if isinstance(each, list | tuple) or type(each).__name__ == "PartitionedVariable" else [each]


def _task(device: str) -> tuple[str | None, int | None]:
    from tensorflow.python.framework import device as devices

    spec = devices.DeviceSpec.from_string(device or "")
    return spec.job, spec.task


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _first_line(error: Exception) -> str:
    return str(getattr(error, "message", error)).strip().partition("\n")[0]


# ---- what the servers say ----


def _join(start: Start, checkpoint: Checkpoint, saved: int) -> tuple[Any, int]:
    """A session in which all is ready, and the step of the servers. StaysError if it must not be used.

    UnavailableError and AbortedError go to the program, as from a restore: it creates another session, and asks again.
    """
    from tensorflow.python.client import session as sessions
    from tensorflow.python.framework import errors

    if not checkpoint.path and start.has_init_fn:
        raise StaysError("there is no checkpoint, and init_fn may not have run")
    manager = start.manager
    manager._target = start.master
    session = sessions.Session(start.master, graph=manager._graph, config=start.config)
    asker = Asker(session, start.config)
    try:
        step = _step_ahead(asker, manager, saved)
        is_ready, why = manager._try_run_local_init_op(session)
        if is_ready:
            is_ready, why = manager._model_ready(session)
        if not is_ready:
            raise StaysError(f"the model is not ready: {why}")
    except StaysError:
        manager._safe_close(session)
        raise
    except (errors.UnavailableError, errors.AbortedError):
        raise
    except errors.OpError as error:
        # Closing may wait for the server that has not answered.
        threading.Thread(target=manager._safe_close, args=(session,), name="fusewire-close", daemon=True).start()
        if isinstance(error, errors.DeadlineExceededError):
            raise StaysError(f"they did not say within {asker.limit_s:g} s what they have") from error
        raise StaysError(f"asking them failed: {type(error).__name__}: {_first_line(error)}") from error
    if checkpoint.path:
        start.saver.recover_last_checkpoints(list(checkpoint.all_paths))  # as after a restore: old ones get deleted
    return session, step


def _step_ahead(asker: "Asker", manager: Any, saved: int) -> int:
    """The step of the servers, if they have all variables and are not behind the checkpoint."""
    if left := uninitialised(asker.answer(_question(manager)), manager):
        raise StaysError(f"{_listed(left)} {'is' if len(left) == 1 else 'are'} not initialised")
    step = int(asker.answer(_global_step(manager._graph)))
    if step < saved:
        raise StaysError(f"they are at step {step}, behind the checkpoint's step {saved}")
    if saved < 0 and step == 0:
        raise StaysError("there is no checkpoint, and no step was made")
    return step


def uninitialised(answer: Any, manager: Any) -> list[str]:
    """The names in the answer of a ready_op, less those of variables that the session initialises for itself."""
    from tensorflow.python.framework import ops

    if answer is None or answer.dtype == "int32":  # for TensorFlow, too, this means that it is ready
        return []
    local: set[str] = set()
    if manager._local_init_op is not None and manager._ready_for_local_init_op is None:
        local = {each.op.name for each in manager._graph.get_collection(ops.GraphKeys.LOCAL_VARIABLES)}
    return [name for name in (each.decode(errors="replace") for each in answer.reshape(-1)) if name not in local]


class Asker:
    """Runs questions in a session, all of them within one limit."""

    def __init__(self, session: Any, config: Any) -> None:
        self._session = session
        own_ms = config.operation_timeout_in_ms if config is not None else 0
        self.limit_s = min(ASK_S, own_ms / 1000) if own_ms > 0 else ASK_S
        self._ends: float | None = None

    def answer(self, question: Any) -> Any:
        from tensorflow.core.protobuf import config_pb2
        from tensorflow.python.framework import errors

        if self._ends is None:
            self._ends = time.monotonic() + self.limit_s
        left_ms = max(1, int(1000 * (self._ends - time.monotonic())))
        try:
            return self._session.run(question, options=config_pb2.RunOptions(timeout_in_ms=left_ms))
        except errors.FailedPreconditionError as error:
            if "uninitialized" not in str(error):
                raise
            raise StaysError(f"a variable is not initialised: {_first_line(error)}") from error
