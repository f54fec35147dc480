# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Decides which protocol a server speaks, from the program, FUSEWIRE_PROTOCOL and FUSEWIRE_DISABLE.

A program that was written for gRPC names either no protocol or "grpc". With FUSEWIRE_PROTOCOL=grpc++ both mean grpc++,
and such a program need not be edited. With FUSEWIRE_DISABLE=1 each of our names means grpc. TensorFlow takes the
protocol from a ServerDef and from the scheme of a session's target; we rewrite both where they are created.
"""

import contextlib
import difflib
import gc
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from fusewire import settings
from fusewire.pages import page
from fusewire.reporting import is_launched
from fusewire.tf import config as options
from fusewire.tf import library
from fusewire.tf.patching import replace

STOCK = "grpc"
OURS = ("grpc++", "star_server", "star_server_lite")  # the protocols that the plug-in registers
KNOWN = (STOCK, *OURS)
VARIABLE = "FUSEWIRE_PROTOCOL"
ALIKE = 0.75  # a word is a mistyped one of ours; "grpc+verbs" is not
LOCAL_MARK = b"fusewire+"  # prefix of a target whose server is in this process; only the plug-in sees it


def install() -> None:
    """Applies effective() wherever a ServerDef or a target is read. A second call has no effect."""
    # Imported here because the command uses this module without TensorFlow.
    from tensorflow.python.client import session
    from tensorflow.python.eager import context
    from tensorflow.python.training import server_lib

    effective(STOCK)  # reports an unknown FUSEWIRE_PROTOCOL at import, not at the first server
    replace(server_lib, "_make_server_def", _made_server_def)
    replace(server_lib.Server, "__init__", _server_init)
    for method in ("set_server_def", "update_server_def", "enable_collective_ops"):
        replace(context.Context, method, _with_server_def)
    replace(session.BaseSession, "__init__", _session_init)
    replace(session.BaseSession, "partial_run_setup", _partial_run_setup)
    replace(session.tf_session, "TF_NewSessionOptions", _new_session_options)


def effective(protocol: str) -> str:
    """The protocol that a server speaks if its program names `protocol`. One of ours, mistyped, is a NotFoundError: an
    eager context crashes with it. Another plug-in may have protocols of its own, not like ours."""
    spoken = _chosen(protocol)
    if spoken not in ("", *KNOWN) and difflib.get_close_matches(spoken, OURS, 1, ALIKE):
        from tensorflow.python.framework import errors

        raise errors.NotFoundError(None, None, unknown_text(spoken).strip())
    return spoken


def _chosen(protocol: str) -> str:
    if protocol in ("", STOCK) and _Scope.protocol:
        protocol = _Scope.protocol
    if settings.is_disabled():
        if os.environ.get(VARIABLE, "") in OURS:
            _warn_once(f"{VARIABLE} has no effect: FUSEWIRE_DISABLE is set. Fix: unset one of them")
        if settings.hosts_several():  # the cluster would wait for the others
            raise ValueError(
                f"{settings.TASKS}={os.environ[settings.TASKS]}: FUSEWIRE_DISABLE is set, and a server of stock "
                "TensorFlow serves one task.\n"
                f"  Fix: start a process for each task, without {settings.TASKS}\n  See: {page('hosting')}"
            )
        return STOCK if protocol in OURS else protocol
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", STOCK, protocol) and protocol not in ("", STOCK):
        _warn_once(f'{VARIABLE}={wanted} has no effect: the program names protocol="{protocol}" itself. Fix: unset one')
    if wanted not in ("", *KNOWN):
        raise ValueError(
            f"{VARIABLE}={wanted}: there is no such protocol.\n"
            f"  Fix: set it to one of {', '.join(KNOWN)}, or unset it\n  See: {page('protocol')}"
        )
    return wanted if wanted and protocol in ("", STOCK) else protocol


def warn_of_earlier_servers() -> None:
    """If this process has made a server before `import fusewire`: that one stays with gRPC."""
    from tensorflow.python.eager import context
    from tensorflow.python.training import server_lib

    is_eager = context.context_safe() is not None and context.context()._server_def is not None
    if is_eager or any(isinstance(each, server_lib.Server) for each in gc.get_objects()):
        _warn_once(
            "`import fusewire` came after this process had made its server, which therefore runs over stock gRPC. Fix: "
            "import fusewire first, before a server or a strategy is created"
        )


def warn_of_misspelt_settings() -> None:
    """`fusewire run` has logged it for all of its tasks."""
    if not is_launched() and (text := settings.misspelt()):
        _warn_once(text, "setting")


def _warn_once(text: str, kind: str = "no effect") -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(f"{text} (see: {page(kind)})", RuntimeWarning, stacklevel=2)


_warned: set[str] = set()


class _Scope:
    """The settings of Estimator's RunConfig that Estimator does not pass to the servers it creates. Not per thread,
    because Estimator creates servers on its own threads, too."""

    config: Any = None
    protocol: str | None = None


@contextlib.contextmanager
def servers_of(config: Any, protocol: str | None) -> Iterator[None]:
    """Servers created in this context take our options from `config`, and `protocol` if their program names none."""
    before = (_Scope.config, _Scope.protocol)
    _Scope.config, _Scope.protocol = config, protocol
    try:
        yield
    finally:
        _Scope.config, _Scope.protocol = before


def _made_server_def(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    server_def = original(*arguments, **keywords)
    if _Scope.config is not None:
        options.copy_own(_Scope.config, server_def.default_session_config)
    server_def.protocol = effective(server_def.protocol)
    return server_def


def _server_init(original: Callable[..., Any], self: Any, *arguments: Any, **keywords: Any) -> Any:
    with _explained(self):
        original(self, *arguments, **keywords)
    _tasks[self.target] = f"{self.server_def.job_name}:{self.server_def.task_index}"


def task_of(target: str) -> str:
    """The task whose server in this process has this target, or the target."""
    return _tasks.get(target, target)


_tasks: dict[str, str] = {}


@contextlib.contextmanager
def _explained(server: Any) -> Iterator[None]:
    """Adds what to do next to TensorFlow's error about a server that can't be made."""
    from tensorflow.python.framework import errors

    try:
        yield
    except errors.NotFoundError as error:
        named = re.search(r'protocol: "([^"]*)"', error.message)
        if "No server factory registered" not in error.message or not named:
            raise
        raise type(error)(error.node_def, error.op, f"{error.message.rstrip()}\n{unknown_text(named[1])}") from None
    except errors.UnknownError as error:
        if "Could not start gRPC server" not in error.message:
            raise
        raise type(error)(error.node_def, error.op, f"{error.message.rstrip()}\n{_taken_text(server)}") from None


def unknown_text(protocol: str) -> str:
    near = difflib.get_close_matches(protocol, KNOWN, 1, ALIKE)
    fix = f'protocol="{near[0]}"' if near else f"one of {', '.join(KNOWN)}"
    return f'  There is no protocol "{protocol}". Fix: {fix} (see: {page("protocol")})'


def _taken_text(server: Any) -> str:
    named = server.server_def
    jobs = {job.name: job.tasks for job in named.cluster.job}
    address = jobs.get(named.job_name, {}).get(named.task_index, "")
    return (
        f"  {named.job_name}:{named.task_index} can't listen at {address}: the port is taken, or the address is not "
        "one of this machine. Fix: `ss -ltnp` shows which process has the port; end that one, or give the task another "
        f"port (see: {page('ports')})"
    )


def _with_server_def(original: Callable[..., Any], self: Any, server_def: Any, *arguments: Any, **keywords: Any) -> Any:
    if server_def and effective(server_def.protocol) != server_def.protocol:
        changed = type(server_def)()
        changed.CopyFrom(server_def)
        changed.protocol = effective(server_def.protocol)
        server_def = changed
    return original(self, server_def, *arguments, **keywords)


def _session_init(original: Callable[..., Any], self: Any, target: Any = "", *rest: Any, **keywords: Any) -> Any:
    scheme, mark, address = target.partition("://") if isinstance(target, str) else ("", "", "")
    if mark and scheme in OURS:  # a target with scheme grpc is left as it is: the plug-in serves it, too
        target = f"{effective(scheme)}://{address}"
    return original(self, target, *rest, **keywords)


def _new_session_options(original: Callable[..., Any], target: Any = None, config: Any = None) -> Any:
    """Marks a local target here, not in the session: the program still sees its own target."""
    if isinstance(target, bytes) and library.is_local(target):
        target = LOCAL_MARK + target
    return original(target=target, config=config)


def _partial_run_setup(original: Callable[..., Any], self: Any, *arguments: Any, **keywords: Any) -> Any:
    """A partial run creates its graph here. It must not be fused, as part of it waits for later feeds."""
    with library.fusion_held():
        return original(self, *arguments, **keywords)
