# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Kinds of statements on variables: reads, updates, lookups, optimizers."""

from maker import DEVICES, READ, SERVERS, Maker, indented

OPTIMIZERS = (
    "GradientDescentOptimizer(0.1)",
    "GradientDescentOptimizer(0.1, use_locking=True)",
    "MomentumOptimizer(0.1, 0.9)",
    "MomentumOptimizer(0.1, 0.9, use_nesterov=True)",
    "AdamOptimizer(0.05)",
    "AdagradOptimizer(0.1)",
    "AdadeltaOptimizer(0.5)",
    "RMSPropOptimizer(0.05)",
    "RMSPropOptimizer(0.05, momentum=0.5, centered=True)",
    "FtrlOptimizer(0.1)",
    "FtrlOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01)",
    "ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01)",
    "ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01)",
    "AdagradDAOptimizer(0.1, tf1.train.get_or_create_global_step())",
)
SPREAD = 'tf1.train.replica_device_setter(2, worker_device="/job:worker/task:1")'


def variable(maker: Maker) -> str:
    shape = maker.random.choice(((4, 6), (6, 4), (6,), (4,), *(((500, 64),) if maker.random.random() < 0.2 else ())))
    options = f"use_resource={maker.random.random() < 0.5}"
    device = maker.random.choice(SERVERS)
    head = ""
    if maker.random.random() < 0.25:
        options += ", partitioner=tf1.fixed_size_partitioner(2)"
        if maker.random.random() < 0.5:  # a part on each server
            device, head = "", f"with tf1.device({SPREAD}):\n    "
    code = f'NAME = tf1.get_variable("NAME", {list(shape)}, initializer=tf1.constant_initializer(0.5), {options})'
    name = maker.add("variable", head + code, device=device, prefix="v")
    maker.variables[name] = shape
    maker.behind[name] = []
    return name


def any_variable(maker: Maker) -> str:
    if not maker.variables or maker.random.random() < 0.3:
        return variable(maker)
    return maker.random.choice(list(maker.variables))


def is_whole(maker: Maker, name: str) -> bool:
    return "partitioner" not in maker.statement(name).code


def is_resource(maker: Maker, name: str) -> bool:
    return "use_resource=True" in maker.statement(name).code


def may_change(maker: Maker, name: str) -> bool:
    """One in parts cannot be assigned."""
    return is_whole(maker, name) and name not in maker.fixed


def changing_variable(maker: Maker) -> str | None:
    fitting = [name for name in maker.variables if may_change(maker, name)]
    name = maker.random.choice(fitting) if fitting else variable(maker)
    return name if may_change(maker, name) else None


def read(maker: Maker) -> None:
    of = any_variable(maker)
    name = maker.add("read", READ.format(of), uses=[of], after=maker.behind[of], shape=maker.variables[of])
    maker.behind[of].append(name)


def update(maker: Maker) -> None:
    of = changing_variable(maker)
    if of is None:
        return
    more = maker.value(maker.variables[of])
    how = maker.random.choice(("assign", "assign_add", "assign_sub"))
    change = f"tf1.{how}({of}, tf.clip_by_value({more}, -2.0, 2.0))"
    if is_resource(maker, of) and maker.random.random() < 0.25:
        change = f"tf1.cond(tf.reduce_sum({more}) > 0.0, lambda: {change} * 1.0, lambda: {of}.read_value())"
    code = f"with tf.device({of}.device):\n    NAME = {change} * 1.0"
    name = maker.add("update", code, uses=[of, more], after=list(maker.behind[of]), shape=maker.variables[of])
    maker.behind[of] = [name]


def scatter(maker: Maker) -> None:
    of = changing_variable(maker)
    if of is None:
        return
    shape = maker.variables[of]
    rows = [maker.random.randrange(shape[0]) for _ in range(3)]
    how = maker.random.choice(("add", "sub", "update", "max", "mul"))
    if how == "update":
        rows = sorted(set(rows))
    values = f"tf.constant(2.0, shape=[{len(rows)}, {', '.join(map(str, shape[1:]))}])".replace(", ])", "])")
    changed = f"tf1.scatter_{how}({of}, {rows}, {values})"
    code = f"with tf1.control_dependencies([{changed}]):\n{indented(READ.format(of))}"
    name = maker.add("scatter", code, uses=[of], after=maker.behind[of], shape=shape)
    maker.behind[of] = [name]


def counter(maker: Maker) -> None:
    """Of another type, and changed by one statement only."""
    kind, more = maker.random.choice(
        (("int64", 3), ("int32", 2), ("float64", 0.25), ("bfloat16", 1.0), ("string", "x"))
    )
    if kind == "string":
        start, change = "tf1.constant_initializer('a')", "tf1.assign(NAME_n, tf.strings.join([CURRENT, 'x']))"
        out = "tf.cast(tf.strings.length(NAME_after), tf.float32)"
    else:
        start, change = "tf1.constant_initializer(7)", f"tf1.assign_add(NAME_n, tf.constant({more}, tf.{kind}))"
        out = "tf.cast(NAME_after, tf.float32)"
    change = change.replace("CURRENT", "NAME_n.read_value()")
    code = (
        f'NAME_n = tf1.get_variable("NAME", [], tf.{kind}, initializer={start}, trainable=False, '
        f"use_resource={maker.random.random() < 0.5})\n"
        f"with tf1.control_dependencies([{change}]):\n"
        "    NAME_after = tf.reshape(NAME_n.read_value(), [1])[0]\n"
        f'with tf.device("{maker.random.choice(DEVICES)}"):\n'
        f"    NAME = {out}"
    )
    maker.add("counter", code, device=maker.random.choice(SERVERS), shape=())


def lookup(maker: Maker, of: str) -> tuple[str, tuple[int, ...], list[str]]:
    """A lookup of rows: its code, its shape, and its other inputs."""
    rows, width = maker.variables[of]
    strategy = maker.random.choice(("mod", "div"))
    ids, uses = str([maker.random.randrange(rows) for _ in range(4)]), []
    if maker.fed("ids") and maker.random.random() < 0.5:
        ids, uses = maker.fed("ids"), [maker.fed("ids")]
    how = maker.random.choice(("plain", "plain", "sparse", "safe", "repeated"))
    if how == "plain":
        return f'tf1.nn.embedding_lookup({of}, {ids}, partition_strategy="{strategy}")', (4, width), uses
    if how == "repeated":
        code = f'tf1.nn.embedding_lookup({of}, tf.tile({ids}, [2])[2:6], partition_strategy="{strategy}")'
        return code, (4, width), uses
    if not uses:  # constants are folded, all the way to the variable, and what is to come before is forgotten
        ids = f"tf1.placeholder_with_default({ids}, [4])"
    sparse = f"tf.SparseTensor([[0, 0], [0, 1], [2, 0], [2, 2]], tf.cast({ids}, tf.int64), [3, 3])"
    name = "embedding_lookup_sparse" if how == "sparse" else "safe_embedding_lookup_sparse"
    combiner = maker.random.choice(("sum", "mean", "sqrtn"))
    code = f'tf1.nn.{name}({of}, {sparse}, None, partition_strategy="{strategy}", combiner="{combiner}")'
    if how == "safe":  # takes variables in a list
        code = code.replace(f"({of},", f'(list({of}) if hasattr({of}, "_get_variable_list") else [{of}],')
    return code, (3, width), uses


def embedding(maker: Maker) -> None:
    of = any_variable(maker)
    if len(maker.variables[of]) != 2:
        return
    if not is_resource(maker, of):
        if any(maker.statement(each).kind != "embedding" for each in maker.behind[of]):
            return
        maker.fixed.add(of)
    code, shape, uses = lookup(maker, of)
    name = maker.add("embedding", f"NAME = {code}", uses=[of, *uses], after=maker.behind[of], shape=shape)
    maker.behind[of].append(name)


def train(maker: Maker) -> None:
    of = any_variable(maker)
    if of in maker.fixed or (not is_resource(maker, of) and maker.behind[of]):
        return
    shape = maker.variables[of]
    uses = []
    if len(shape) == 2 and maker.random.random() < 0.6:
        seen, wanted, uses = lookup(maker, of)
        goal = maker.value(wanted)
    else:
        # Of one in parts, its value as a tensor is made once, and no control edge orders that.
        parts = f'(list({of}) if hasattr({of}, "_get_variable_list") else [{of}])'
        seen, goal = f"tf.concat([part.read_value() * 1.0 for part in {parts}], 0)", maker.value(shape)
    optimizer = maker.random.choice(OPTIMIZERS)
    lines = [
        f"NAME_loss = tf.reduce_mean(tf.square({seen} - tf.clip_by_value(tf.stop_gradient({goal}), -3.0, 3.0)))",
        f'NAME_to = list({of}) if hasattr({of}, "_get_variable_list") else [{of}]',
        f"NAME_by = tf1.train.{optimizer}",
    ]
    if maker.random.random() < 0.3:
        lines += [
            "NAME_of, NAME_to = zip(*NAME_by.compute_gradients(NAME_loss, var_list=NAME_to))",
            "NAME_all = NAME_by.apply_gradients(zip(tf.clip_by_global_norm(NAME_of, 0.5)[0], NAME_to))",
        ]
    else:
        lines += ["NAME_all = NAME_by.minimize(NAME_loss, var_list=NAME_to)"]
    lines += ["with tf1.control_dependencies([NAME_all]):", "    NAME = tf.identity(NAME_loss)"]
    name = maker.add("train", "\n".join(lines), uses=[of, goal, *uses], after=maker.behind[of], shape=())
    maker.behind[of] = [name]


WEIGHTS = {read: 3, update: 3, train: 4, embedding: 2.5, scatter: 1.5, counter: 1}
