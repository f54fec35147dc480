# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Kinds of statements that branch, loop and call."""

from maker import DEVICES, Maker, indented
from making_variables import any_variable, is_resource, is_whole
from program import STREWN

BODIES = ("tf.nn.softmax(x) * 2.0", "tf.tanh(x) - x", "tf.nn.relu(x) + tf.reduce_mean(x)")


def somewhere(maker: Maker) -> str:
    """For code that may stand in pieces."""
    if maker.random.random() < 0.35:
        return f"{STREWN}({maker.random.randrange(1000)})"
    return maker.random.choice(DEVICES)


def of_version(maker: Maker, code: str) -> str:
    version = maker.random.choice(("enable", "disable"))
    return f"tf1.{version}_control_flow_v2()\n{code}\ntf1.disable_control_flow_v2()"


def captured(maker: Maker, shape: tuple[int, ...]) -> tuple[str, list[str], list[str], str | None]:
    """A value that a body captures: its code, its inputs, its predecessors, and the variable that it reads."""
    fitting = [
        name
        for name, of in maker.variables.items()
        if of == shape and is_resource(maker, name) and is_whole(maker, name)
    ]
    if fitting and maker.random.random() < 0.6:
        of = maker.random.choice(fitting)
        return f"{of}.read_value()", [of], list(maker.behind[of]), of
    other = maker.value(shape)
    return other, [other], [], None


def choice(maker: Maker) -> None:
    one = maker.value((4, 6))
    extra, uses, after, variable = captured(maker, (4, 6))
    device = somewhere(maker)
    near = far = ""
    if not device.startswith(STREWN):
        near, far = maker.random.choice(DEVICES), maker.random.choice(DEVICES)
    other = maker.random.choice((f"{one} * 0.5", f"{one} * 0.5", one, "tf.constant(0.25, shape=[4, 6])"))
    inner = f"tf.tanh({one}) + {extra}"
    if maker.random.random() < 0.3:
        inner = f"tf1.cond(tf.reduce_max({one}) > 1.0, lambda: {inner}, lambda: {one} - 1.0)"
    code = (
        f"def NAME_yes():\n    with tf.device({near!r}):\n        return {inner}\n"
        f"def NAME_no():\n    with tf.device({far!r}):\n        return {other}\n"
        + of_version(maker, f"NAME = tf.reshape(tf1.cond(tf.reduce_sum({one}) > 0.0, NAME_yes, NAME_no), [4, 6])")
    )
    name = maker.add("choice", code, device, uses=[one, *uses], after=after, shape=(4, 6))
    if variable:
        maker.behind[variable].append(name)


def cases(maker: Maker) -> None:
    """A branch by number, with results of two types."""
    one = maker.value((6,))
    count = maker.random.randrange(2, 5)
    branches = ", ".join(f"lambda: ({one} * {by}.0, tf.constant('{by}'))" for by in range(count))
    code = of_version(
        maker,
        f"NAME_both = tf.switch_case(tf.cast(tf.argmax({one}[:{count}]), tf.int32), [{branches}])",
    )
    code += "\nNAME = tf.reshape(NAME_both[0] + tf.cast(tf.strings.length(NAME_both[1]), tf.float32), [6])"
    maker.add("cases", code, somewhere(maker), uses=[one], shape=(6,))


def loop(maker: Maker) -> None:
    one = maker.value((6,))
    extra, uses, after, variable = captured(maker, (6,))
    body = f"tf.tanh(x) * 1.5 + {extra}"
    kind = maker.random.choice(("plain", "plain", "branch", "nested", "far", "summed"))
    lines = [f"NAME_x = {body}"]
    if kind == "branch":
        lines = [f"NAME_x = tf.reshape(tf1.cond(tf.reduce_sum(x) > 0.0, lambda: {body}, lambda: x * 0.25), [6])"]
    elif kind == "nested":
        inner = "tf1.while_loop(lambda j, _: j < 2, lambda j, y: (j + 1, y * 0.5 + x), [tf.constant(0), x])[1]"
        lines = [f"NAME_x = tf.reshape({inner}, [6]) + {extra}"]
    elif kind == "far":
        lines = [f'with tf.device("{maker.random.choice(DEVICES)}"):', *[f"    {line}" for line in lines]]
    if kind == "summed":  # how often is known to the data only
        cond = f"lambda i, x: tf.logical_and(i < 4, tf.reduce_sum(x) < {maker.random.randrange(3, 30)}.0)"
    else:
        cond = f"lambda i, _: i < {maker.random.randrange(1, 4)}"
    parallel = maker.random.choice(("", ", parallel_iterations=1", ", swap_memory=True"))
    lines += ["NAME_x.set_shape(x.shape)", "return i + 1, NAME_x"]
    code = "def NAME_body(i, x):\n" + indented("\n".join(lines)) + "\n"
    code += of_version(maker, f"NAME = tf1.while_loop({cond}, NAME_body, [tf.constant(0), {one}]{parallel})[1]")
    name = maker.add("loop", code, somewhere(maker), uses=[one, *uses], after=after, shape=(6,))
    if variable:
        maker.behind[variable].append(name)


def call(maker: Maker) -> None:
    one = maker.value((4, 6))
    body = maker.random.choice(BODIES)
    head = maker.random.choice(
        (
            "@tf.function",
            "@tf.function(autograph=False)",
            "@function.Defun(tf.float32)",
            "@function.Defun(tf.float32, noinline=True)",
        )
    )
    extra, uses, after, variable = "0.0", [], [], None
    if maker.random.random() < 0.5:
        extra, uses, after, variable = captured(maker, (4, 6))
    lines = [f"return {body} + {extra}"]
    if maker.random.random() < 0.4:
        lines = [head, "def NAME_in(x):", f"    return {body}", f"return NAME_in(x * 0.5) + {extra}"]
    code = f"{head}\ndef NAME_of(x):\n{indented(chr(10).join(lines))}\nNAME = tf.reshape(NAME_of({one}), [4, 6])"
    if maker.random.random() < 0.2:  # again, at another place
        far = maker.random.choice(DEVICES)
        code += f'\nwith tf.device("{far}"):\n    NAME = tf.reshape(NAME_of(NAME), [4, 6])'
    name = maker.add("call", code, uses=[one, *uses], after=after, shape=(4, 6))
    if variable:
        maker.behind[variable].append(name)


def call_that_changes(maker: Maker) -> None:
    """A function that assigns to a variable that it has caught."""
    of = any_variable(maker)
    if not is_resource(maker, of) or not is_whole(maker, of):
        return
    shape = list(maker.variables[of])
    more = maker.value(maker.variables[of])
    code = (
        f"@tf.function(autograph=False)\ndef NAME_of(x):\n    {of}.assign_add(tf.clip_by_value(x, -1.0, 1.0))\n"
        f"    return {of}.read_value() * 1.0\n"
        f"with tf.device({of}.device):\n    NAME = tf.reshape(NAME_of({more}), {shape})"
    )
    name = maker.add("update", code, uses=[of, more], after=maker.behind[of], shape=maker.variables[of])
    maker.behind[of] = [name]


def mapped(maker: Maker) -> None:
    one = maker.value((4, 6))
    # Version 1 lays the rows where they are made, and what reads them there: both on this statement's device.
    code = "NAME_rows = tf.identity({0})\nNAME = tf.reshape({1}, [4, 6])"
    how = maker.random.choice(
        (
            "tf.map_fn(lambda row: tf.nn.softmax(row) + row[0], NAME_rows)",
            "tf.scan(lambda sum, row: tf.tanh(sum + row), NAME_rows)",
            "tf.vectorized_map(lambda row: tf.square(row) - row[0], NAME_rows)",
        )
    )
    maker.add("mapped", of_version(maker, code.format(one, how)), uses=[one], shape=(4, 6))


WEIGHTS = {choice: 2, cases: 0.5, loop: 2, call: 2.5, call_that_changes: 0.7, mapped: 1}
