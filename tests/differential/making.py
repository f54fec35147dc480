# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Draws a program from a seed: placed at random on two parameter servers and two workers, and with one result only.

Every read of a variable comes behind the updates before it, and every update behind the reads before it, on the
variable's own device: a reference that travels is read when it is sent. What TensorFlow reads of a reference by itself,
for a gradient or a lookup, no control edge orders: such a variable is looked up never, and trained only before anything
else happens to it.
"""

import random

from program import Program, Statement, Step

# Its present value, as control edges order it.
READ = """\
NAME_read = []
for NAME_part in list({0}) if hasattr({0}, "_get_variable_list") else [{0}]:
    with tf.device(NAME_part.device):
        NAME_read.append(NAME_part.read_value() * 1.0)
NAME = tf.concat(NAME_read, 0)"""

DEVICES = ("/job:ps/task:0", "/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1")
SERVERS = DEVICES[:3]
SHAPES = ((4, 6), (6, 4), (6,), (4,), ())
UNARY = (
    "tf.tanh({0})",
    "tf.nn.relu({0})",
    "tf.nn.softmax({0} + tf.zeros([1]))",
    "tf.sigmoid({0})",
    "tf.square({0})",
    "tf.sign({0}) * 0.5",
    "tf.math.softplus({0})",
    "tf.abs({0}) + 0.25",
    "tf.floor({0} * 3.0)",
    "tf.clip_by_value({0}, -1.0, 1.0)",
    "tf.math.cumsum({0} + tf.zeros([1]))",
    "tf.stop_gradient(-{0})",
    "tf.cast(tf.cast({0}, tf.bfloat16) * tf.constant(1.5, tf.bfloat16), tf.float32)",
    "tf.cast(tf.cast({0}, tf.float64) / 3.0, tf.float32)",
    "tf.math.divide_no_nan({0}, tf.floor({0}))",
)
BINARY = (
    "{0} + {1}",
    "{0} * {1}",
    "{0} - {1} * 0.5",
    "tf.maximum({0}, {1})",
    "tf.where({0} > {1}, {0}, {1} * 2.0)",
    "tf.math.squared_difference({0}, {1})",
    "tf.add_n([{0}, {1}])",  # of three, AddN takes that first whose memory it may use: another order, other bits
)
OPTIMIZERS = (
    "GradientDescentOptimizer(0.1)",
    "MomentumOptimizer(0.1, 0.9)",
    "AdamOptimizer(0.05)",
    "AdagradOptimizer(0.1)",
    "RMSPropOptimizer(0.05)",
    "FtrlOptimizer(0.1)",
)
HOWS = ("run", "run", "run", "callable", "traced", "limited", "partial")


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.statements: list[Statement] = []
        self.values: dict[str, tuple[int, ...]] = {}  # float32 tensors, by their shapes
        self.others: list[str] = []  # fetched, and used by nobody
        self.feeds: list[str] = []
        self.variables: dict[str, tuple[int, ...]] = {}
        self.behind: dict[str, list[str]] = {}  # of a variable: reads and updates since the last update

    def add(self, kind, code, device=None, uses=(), after=(), shape=None, prefix="t") -> str:
        name = f"{prefix}{len(self.statements)}"
        device = self.random.choice(DEVICES) if device is None else device
        text = code.replace("NAME", name)
        self.statements.append(Statement(name, kind, text, device, tuple(uses), tuple(after)))
        if shape is not None:
            self.values[name] = shape
        return name

    def value(self, shape=None) -> str:
        fitting = [name for name, of in self.values.items() if shape is None or of == shape]
        if not fitting or self.random.random() < 0.1:
            return self.constant(self.random.choice(SHAPES) if shape is None else shape)
        return self.random.choice(fitting[-8:] if self.random.random() < 0.7 else fitting)

    def constant(self, shape) -> str:
        draw = f"np.random.RandomState({self.random.randrange(1000)}).randn(*{shape})"
        return self.add("constant", f"NAME = tf.constant(np.asarray({draw}, np.float32))", shape=shape)

    def feed(self) -> None:
        shape = self.random.choice(SHAPES)
        code = f'NAME = tf1.placeholder(tf.float32, {list(shape)}, name="NAME")'
        self.feeds.append(self.add("feed", code, device="/job:worker/task:0", shape=shape, prefix="x"))

    def unary(self) -> None:
        one = self.value()
        shape = self.values[one]
        code = self.random.choice(UNARY)
        if "tf.zeros([1])" in code and shape == ():
            shape = (1,)
        self.add("unary", f"NAME = {code.format(one)}", uses=[one], shape=shape)

    def binary(self) -> None:
        one = self.value()
        other = self.value(self.values[one])
        code = self.random.choice(BINARY).format(one, other)
        self.add("binary", f"NAME = {code}", uses=[one, other], shape=self.values[one])

    def matmul(self) -> None:
        one, other = self.value((4, 6)), self.value((6, 4))
        if self.random.random() < 0.5:
            self.add("matmul", f"NAME = tf.matmul({one}, {other})", uses=[one, other], shape=(4, 4))
        else:
            bias = self.value((6,))
            code = f"NAME = tf.nn.relu(tf.nn.bias_add(tf.matmul({other}, {one}), {bias}))"
            self.add("matmul", code, uses=[one, other, bias], shape=(6, 6))

    def reduce(self) -> None:
        one = self.value(self.random.choice([(4, 6), (6, 4)]))
        axis = self.random.choice((None, 0, 1))
        shape = () if axis is None else (self.values[one][1 - axis],)
        how = self.random.choice(("sum", "mean", "max", "logsumexp"))
        self.add("reduce", f"NAME = tf.reduce_{how}({one}, axis={axis})", uses=[one], shape=shape)

    def move(self) -> None:
        one = self.value((4, 6))
        code = self.random.choice(
            (f"tf.transpose({one})", f"tf.reshape({one}, [6, 4])", f"tf.reverse(tf.transpose({one}), [0])")
        )
        self.add("move", f"NAME = {code}", uses=[one], shape=(6, 4))

    def ragged(self) -> None:
        one = self.value((6,))
        code = self.random.choice(
            (
                f"tf.boolean_mask({one}, {one} > 0.0)",
                f"tf.unique(tf.floor({one}))[0]",
                f"tf.where({one} > 0.0)",
                f"tf.RaggedTensor.from_row_lengths({one}, [2, 0, 4]).to_tensor(-1.0)",
                f"tf.reduce_sum(tf.RaggedTensor.from_row_lengths({one}, [1, 5]), axis=1)",
                f"tf.nn.top_k({one}, 3)[1]",
                f"tf.dynamic_partition({one}, tf.cast({one} > 0.0, tf.int32), 2)[1]",
            )
        )
        self.others.append(self.add("ragged", f"NAME = {code}", uses=[one]))

    def words(self) -> None:
        one = self.value((4,))
        rounded = f"tf.as_string(tf.floor({one} * 10.0))"
        code = self.random.choice(
            (
                rounded,
                f"tf.strings.join([{rounded}, 'and'])",
                f"tf.strings.reduce_join({rounded}, separator=',')",
                f"tf.strings.to_hash_bucket_fast({rounded}, 7)",
                f"tf.strings.split({rounded}, '.').values",
            )
        )
        self.others.append(self.add("words", f"NAME = {code}", uses=[one]))

    def drawn(self) -> None:
        shape = self.random.choice(SHAPES)
        how = self.random.choice(("uniform", "normal", "truncated_normal"))
        code = f"NAME = tf1.random_{how}({list(shape)}, seed={self.random.randrange(100)})"
        code = code.replace("tf1.random_truncated_normal", "tf1.truncated_normal")
        self.add("drawn", code, shape=shape)

    def variable(self) -> str:
        shape = self.random.choice(((4, 6), (6, 4), (6,), (4,)))
        options = f"use_resource={self.random.random() < 0.5}"
        if self.random.random() < 0.25:
            options += ", partitioner=tf1.fixed_size_partitioner(2)"
        code = f'NAME = tf1.get_variable("NAME", {list(shape)}, initializer=tf1.constant_initializer(0.5), {options})'
        name = self.add("variable", code, device=self.random.choice(SERVERS), prefix="v")
        self.variables[name] = shape
        self.behind[name] = []
        return name

    def any_variable(self) -> str:
        if not self.variables or self.random.random() < 0.3:
            return self.variable()
        return self.random.choice(list(self.variables))

    def whole_variable(self) -> str:
        """Not one in parts, which cannot be assigned."""
        whole = [each.name for each in self.statements if each.kind == "variable" and "partitioner" not in each.code]
        return self.random.choice(whole) if whole else self.variable()

    def is_resource(self, variable: str) -> bool:
        return any(each.name == variable and "use_resource=True" in each.code for each in self.statements)

    def read(self) -> None:
        variable = self.any_variable()
        code = READ.format(variable)
        name = self.add("read", code, uses=[variable], after=self.behind[variable], shape=self.variables[variable])
        self.behind[variable].append(name)

    def update(self) -> None:
        variable = self.whole_variable()
        if "partitioner" in next(each.code for each in self.statements if each.name == variable):
            return
        more = self.value(self.variables[variable])
        how = self.random.choice(("assign", "assign_add", "assign_sub"))
        code = (
            f"with tf.device({variable}.device):\n"
            f"    NAME = tf1.{how}({variable}, tf.clip_by_value({more}, -2.0, 2.0)) * 1.0"
        )
        after = list(self.behind[variable])
        name = self.add("update", code, uses=[variable, more], after=after, shape=self.variables[variable])
        self.behind[variable] = [name]

    def scatter(self) -> None:
        variable = self.whole_variable()
        shape = self.variables[variable]
        if "partitioner" in next(each.code for each in self.statements if each.name == variable):
            return
        rows = [self.random.randrange(shape[0]) for _ in range(3)]
        how = self.random.choice(("scatter_add", "scatter_sub"))
        code = (
            f"with tf1.control_dependencies([tf1.{how}({variable}, {rows}, tf.ones([3, *{shape[1:]}]))]):\n"
            + "\n".join(f"    {line}" for line in READ.format(variable).splitlines())
        )
        name = self.add("scatter", code, uses=[variable], after=self.behind[variable], shape=shape)
        self.behind[variable] = [name]

    def embedding(self) -> None:
        variable = self.any_variable()
        if len(self.variables[variable]) != 2 or not self.is_resource(variable):
            return
        rows, width = self.variables[variable]
        ids = [self.random.randrange(rows) for _ in range(4)]
        code = f"NAME = tf.nn.embedding_lookup({variable}, {ids})"
        name = self.add("embedding", code, uses=[variable], after=self.behind[variable], shape=(4, width))
        self.behind[variable].append(name)

    def train(self) -> None:
        variable = self.any_variable()
        if not self.is_resource(variable) and self.behind[variable]:
            return
        shape = self.variables[variable]
        if len(shape) == 2 and self.random.random() < 0.6:
            picked = [self.random.randrange(shape[0]) for _ in range(4)]
            seen = f"tf.nn.embedding_lookup({variable}, {picked})"
            goal = self.value((4, shape[1]))
        else:
            seen, goal = f"(tf.convert_to_tensor({variable}) * 1.0)", self.value(shape)
        code = (
            f"NAME_loss = tf.reduce_mean(tf.square({seen} - tf.clip_by_value(tf.stop_gradient({goal}), -3.0, 3.0)))\n"
            f'NAME_to = list({variable}) if hasattr({variable}, "_get_variable_list") else [{variable}]\n'
            f"NAME_all = tf1.train.{self.random.choice(OPTIMIZERS)}.minimize(NAME_loss, var_list=NAME_to)\n"
            "with tf1.control_dependencies([NAME_all]):\n"
            "    NAME = tf.identity(NAME_loss)"
        )
        name = self.add("train", code, uses=[variable, goal], after=self.behind[variable], shape=())
        self.behind[variable] = [name]

    def choice(self) -> None:
        one = self.value((4, 6))
        version = self.random.choice(("enable", "disable"))
        near, far = self.random.choice(DEVICES), self.random.choice(DEVICES)
        code = (
            f"def NAME_yes():\n    with tf.device({near!r}):\n        return tf.tanh({one}) + 1.0\n"
            f"def NAME_no():\n    with tf.device({far!r}):\n        return {one} * 0.5\n"
            f"tf1.{version}_control_flow_v2()\n"
            f"NAME = tf1.cond(tf.reduce_sum({one}) > 0.0, NAME_yes, NAME_no)\n"
            "tf1.disable_control_flow_v2()"
        )
        self.add("choice", code, uses=[one], shape=(4, 6))

    def loop(self) -> None:
        one = self.value((6,))
        version = self.random.choice(("enable", "disable"))
        code = (
            f"tf1.{version}_control_flow_v2()\n"
            f"NAME = tf1.while_loop(lambda i, _: i < {self.random.randrange(1, 4)}, "
            f"lambda i, x: (i + 1, tf.tanh(x) * 1.5 + {one}), [tf.constant(0), {one}])[1]\n"
            "tf1.disable_control_flow_v2()"
        )
        self.add("loop", code, uses=[one], shape=(6,))

    def call(self) -> None:
        one = self.value((4, 6))
        body = self.random.choice(("tf.nn.softmax(x) * 2.0", "tf.tanh(x) - x", "tf.nn.relu(x) + tf.reduce_mean(x)"))
        head = self.random.choice(
            ("@tf.function", "@function.Defun(tf.float32)", "@function.Defun(tf.float32, noinline=True)")
        )
        code = f"{head}\ndef NAME_of(x):\n    return {body}\nNAME = tf.reshape(NAME_of({one}), [4, 6])"
        self.add("call", code, uses=[one], shape=(4, 6))

    def mapped(self) -> None:
        one = self.value((4, 6))
        code = f"NAME = tf.map_fn(lambda row: tf.nn.softmax(row) + row[0], {one})"
        self.add("mapped", code, uses=[one], shape=(4, 6))

    def queue(self) -> None:
        one = self.value((6,))
        kind = self.random.choice(("FIFOQueue", "PriorityQueue", "PaddingFIFOQueue"))
        server = self.random.choice(SERVERS)
        if kind == "PriorityQueue":
            code = (
                'NAME_q = tf1.PriorityQueue(9, [tf.float32], [[6]], shared_name="NAME")\n'
                f"with tf1.control_dependencies([NAME_q.enqueue([tf.constant(3, tf.int64), {one}])]):\n"
                "    NAME = NAME_q.dequeue()[1]"
            )
        else:
            code = (
                f'NAME_q = tf1.{kind}(9, [tf.float32], [[6]], shared_name="NAME")\n'
                f"with tf1.control_dependencies([NAME_q.enqueue({one})]):\n"
                "    NAME = NAME_q.dequeue()"
            )
        self.add("queue", f"{code}\nNAME = tf.reshape(NAME, [6])", device=server, uses=[one], shape=(6,))

    def accumulator(self) -> None:
        one = self.value((4,))
        code = (
            'NAME_a = tf1.ConditionalAccumulator(tf.float32, [4], shared_name="NAME")\n'
            f"with tf1.control_dependencies([NAME_a.apply_grad({one}, local_step=1 << 40)]):\n"
            "    NAME = tf.reshape(NAME_a.take_grad(1), [4])"
        )
        self.add("accumulator", code, device=self.random.choice(SERVERS), uses=[one], shape=(4,))

    def table(self) -> None:
        one = self.value((4,))
        code = (
            "NAME_t = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0, name='NAME')\n"
            f"with tf1.control_dependencies([NAME_t.insert(tf.range(4, dtype=tf.int64), {one})]):\n"
            "    NAME = tf.reshape(NAME_t.lookup(tf.constant([3, 1, 9, 0], tf.int64)), [4])"
        )
        self.add("table", code, device=self.random.choice(SERVERS), uses=[one], shape=(4,))

    def python(self) -> None:
        one = self.value((4,))
        code = (
            f"NAME = tf1.py_func(lambda x: x * np.float32(2) + np.float32(1), [{one}], tf.float32)\n"
            "NAME = tf.reshape(NAME, [4])"
        )
        self.add("python", code, device=self.random.choice(DEVICES), uses=[one], shape=(4,))

    def wrong(self) -> None:
        """Fails for some values."""
        one = self.value((6,))
        row = f"tf.cast(tf.reduce_sum(tf.cast({one} > 1.0, tf.int32)) * 3, tf.int32)"
        self.others.append(self.add("wrong", f"NAME = tf.gather({one}, {row})", uses=[one]))


KINDS = (
    [Maker.unary] * 4 + [Maker.binary] * 4 + [Maker.matmul] * 3 + [Maker.reduce] * 2 + [Maker.move]
    + [Maker.read] * 3 + [Maker.update] * 3 + [Maker.train] * 4 + [Maker.embedding] * 2 + [Maker.scatter]
    + [Maker.choice] * 2 + [Maker.loop] + [Maker.call] * 2 + [Maker.mapped] + [Maker.queue, Maker.accumulator]
    + [Maker.table, Maker.python, Maker.drawn, Maker.ragged, Maker.words]
)  # fmt: skip


def make(seed: int) -> Program:
    maker = Maker(seed)
    for _ in range(maker.random.randrange(1, 4)):
        maker.feed()
    for _ in range(maker.random.randrange(4, 28)):
        maker.random.choice(KINDS)(maker)
    if maker.random.random() < 0.1:
        maker.wrong()
    every = [name for name in (*maker.values, *maker.others) if name not in maker.feeds]
    # What changes a variable is fetched by every step or by none, so that both sessions' steps mean one thing.
    kept = [name for name in every if maker.random.random() < 0.6] or every[-1:]
    few = kept[: max(1, len(kept) // 2)]
    steps = []
    for turn in range(maker.random.randrange(2, 5)):
        for worker in range(2):
            fetches = kept if turn % 2 == 0 else few
            steps.append(Step(worker, tuple(fetches), maker.random.randrange(1 << 20), maker.random.choice(HOWS)))
    return Program(seed, tuple(maker.statements), tuple(steps))
