# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Kinds of statements without state: arithmetic, types, shapes, strings, large tensors, gradients."""

from maker import DEVICES, Maker

LARGE = ((384, 700), (64, 900), (9, 40000))
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
    "tf.ensure_shape(tf1.placeholder_with_default({0}, None) + tf.zeros_like({0}), {0}.shape)",
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
# Whole numbers between -20 and 20 go into every type there and back.
TYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
    "float64", "complex64", "complex128", "qint8", "quint8", "qint32", "string", "variant",
)  # fmt: skip
RAGGED = (
    "tf.boolean_mask({0}, {0} > 0.0)",
    "tf.unique(tf.floor({0}))[0]",
    "tf.where({0} > 0.0)",
    "tf.RaggedTensor.from_row_lengths({0}, [2, 0, 4]).to_tensor(-1.0)",
    "tf.reduce_sum(tf.RaggedTensor.from_row_lengths({0}, [1, 5]), axis=1)",
    "tf.nn.top_k({0}, 3)[1]",
    "tf.dynamic_partition({0}, tf.cast({0} > 0.0, tf.int32), 2)[1]",
    "tf.identity({0})[:0]",
    "tf.SparseTensor([[0], [3]], {0}[:2], [6])",
    "tf.IndexedSlices({0}[:2], tf.constant([1, 0]))",
)
UNEVEN = (  # a row of six, of which none knows how many come
    "tf.boolean_mask({0}, {0} > 0.0)",
    "tf.boolean_mask({0}, {0} > 1e9)",
    "tf.stop_gradient(tf.unique(tf.floor({0}))[0])",
    "tf.RaggedTensor.from_row_lengths({0}, [1, 2, 3])[tf.cast(tf.reduce_max({0}) > 0.5, tf.int32)]",
)


def unary(maker: Maker) -> None:
    one = maker.value()
    shape = maker.values[one]
    code = maker.random.choice(UNARY)
    if "tf.zeros([1])" in code and shape == ():
        shape = (1,)
    maker.add("unary", f"NAME = {code.format(one)}", uses=[one], shape=shape)


def binary(maker: Maker) -> None:
    one = maker.value()
    other = maker.value(maker.values[one])
    code = maker.random.choice(BINARY).format(one, other)
    maker.add("binary", f"NAME = {code}", uses=[one, other], shape=maker.values[one])


def matmul(maker: Maker) -> None:
    one, other = maker.value((4, 6)), maker.value((6, 4))
    if maker.random.random() < 0.5:
        maker.add("matmul", f"NAME = tf.matmul({one}, {other})", uses=[one, other], shape=(4, 4))
    else:
        bias = maker.value((6,))
        code = f"NAME = tf.nn.relu(tf.nn.bias_add(tf.matmul({other}, {one}), {bias}))"
        maker.add("matmul", code, uses=[one, other, bias], shape=(6, 6))


def reduce(maker: Maker) -> None:
    one = maker.value(maker.random.choice([(4, 6), (6, 4)]))
    axis = maker.random.choice((None, 0, 1))
    shape = () if axis is None else (maker.values[one][1 - axis],)
    how = maker.random.choice(("sum", "mean", "max", "logsumexp"))
    maker.add("reduce", f"NAME = tf.reduce_{how}({one}, axis={axis})", uses=[one], shape=shape)


def move(maker: Maker) -> None:
    one = maker.value((4, 6))
    code = maker.random.choice(
        (f"tf.transpose({one})", f"tf.reshape({one}, [6, 4])", f"tf.reverse(tf.transpose({one}), [0])")
    )
    maker.add("move", f"NAME = {code}", uses=[one], shape=(6, 4))


def large(maker: Maker) -> None:
    """Hundreds of KiB: made here, changed there, and a part of it for others."""
    one = maker.value((4, 6))
    shape = maker.random.choice(LARGE)
    maker.add(
        "large",
        f"NAME_all = tf.reshape(tf.tile(tf.reshape({one}, [24]), [{-(-shape[0] * shape[1] // 24)}])"
        f"[:{shape[0] * shape[1]}], {list(shape)})\n"
        f'with tf.device("{maker.random.choice(DEVICES)}"):\n'
        f"    NAME_far = NAME_all * tf.range({shape[1]}, dtype=tf.float32)\n"
        "NAME = tf.reverse(NAME_far, [1])[:4, :6] + NAME_far[-4:, -6:]",
        uses=[one],
        shape=(4, 6),
    )
    if maker.random.random() < 0.3:  # all of it, for the client
        maker.others.append(maker.add("large", f"NAME = {maker.statements[-1].name}_far - 1.0", uses=[_last(maker)]))


def _last(maker: Maker) -> str:
    return maker.statements[-1].name


def typed(maker: Maker) -> None:
    """Of another type, to another device, and back."""
    one = maker.value(maker.random.choice([(4, 6), (6,), (4,)]))
    kind = maker.random.choice(TYPES)
    whole = (
        f"tf.clip_by_value(tf.floor(tf.where(tf.math.is_nan({one}), tf.ones_like({one}), {one}) * 4.0), -20.0, 20.0)"
    )
    if kind == "string":
        to, back = f"tf.as_string({whole})", "tf.strings.to_number(NAME_far)"
    elif kind == "variant":
        to = f"tf.raw_ops.TensorListFromTensor(tensor={whole}, element_shape=tf.constant(-1))"
        back = (
            "tf.raw_ops.TensorListStack(input_handle=NAME_far, element_shape=tf.constant(-1), element_dtype=tf.float32)"
        )
    elif kind.startswith("q"):
        plain = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}[kind]
        to = f"tf.bitcast(tf.cast({whole}, tf.{plain}), tf.{kind})"
        back = f"tf.cast(tf.bitcast(NAME_far, tf.{plain}), tf.float32)"
    else:
        absolute = f"tf.abs({whole})" if kind.startswith(("u", "bool")) else whole
        to, back = f"tf.cast({absolute}, tf.{kind})", "tf.cast(NAME_far, tf.float32)"
    maker.add(
        "typed",
        f"NAME_there = {to}\n"
        f'with tf.device("{maker.random.choice(DEVICES)}"):\n'
        "    NAME_far = tf.identity(NAME_there)\n"
        f"NAME = tf.reshape({back}, {list(maker.values[one])})",
        uses=[one],
        shape=maker.values[one],
    )


def ragged(maker: Maker) -> None:
    one = maker.value((6,))
    code = maker.random.choice(RAGGED).format(one)
    maker.others.append(maker.add("ragged", f"NAME = {code}", uses=[one]))


def uneven(maker: Maker) -> None:
    """A tensor whose length the graph does not know, used on another device."""
    one = maker.value((6,))
    code = maker.random.choice(UNEVEN).format(one)
    maker.add(
        "uneven",
        f'NAME_rows = {code}\nwith tf.device("{maker.random.choice(DEVICES)}"):\n'
        "    NAME = tf.reduce_sum(NAME_rows * 2.0) + tf.cast(tf.size(NAME_rows), tf.float32)",
        uses=[one],
        shape=(),
    )


def words(maker: Maker) -> None:
    one = maker.value((4,))
    rounded = f"tf.as_string(tf.floor({one} * 10.0))"
    code = maker.random.choice(
        (
            rounded,
            f"tf.strings.join([{rounded}, 'and'])",
            f"tf.strings.reduce_join({rounded}, separator=',')",
            f"tf.strings.to_hash_bucket_fast({rounded}, 7)",
            f"tf.strings.split({rounded}, '.').values",
            f"tf.strings.join([{rounded}] * 400)",
        )
    )
    uses = [one]
    if maker.fed("words") and maker.random.random() < 0.5:
        uses = [maker.fed("words")]
        code = f"tf.strings.join([tf.strings.upper({uses[0]}), tf.as_string(tf.strings.length({uses[0]}))], '-')"
    far = f'with tf.device("{maker.random.choice(DEVICES)}"):\n    NAME = tf.identity(NAME_near)'
    maker.others.append(maker.add("words", f"NAME_near = {code}\n{far}", uses=uses))


def gradient(maker: Maker) -> None:
    """Of something without state, by what it is made of: through loops, branches and functions."""
    fitting = [name for name in maker.values if not maker.is_from_variables(name)]
    fitting = [name for name in fitting if len(maker.before(name)) > 1]
    if not fitting:
        return
    one = maker.random.choice(fitting)
    sources = [name for name in maker.before(one) if name in maker.values and name != one]
    if not sources:
        return
    source = maker.random.choice(sorted(sources))
    code = (
        f"NAME = tf.reshape(tf.gradients(tf.reduce_sum({one}), [{source}], "
        f"unconnected_gradients='zero')[0], {list(maker.values[source])})"
    )
    maker.add("gradient", code, uses=[one, source], shape=maker.values[source])


WEIGHTS = {
    unary: 4, binary: 4, matmul: 3, reduce: 2, move: 1, large: 1, typed: 2, ragged: 1, uneven: 1, words: 1.5,
    gradient: 1,
}  # fmt: skip
