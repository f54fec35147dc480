# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Kinds of statements on resources: queues, accumulators, tables, iterators; what is drawn, Python, and what fails."""

from maker import DEVICES, SERVERS, SHAPES, Maker


def queue(maker: Maker) -> None:
    one = maker.value((6,))
    kind = maker.random.choice(("FIFO", "FIFO of two", "Priority", "PaddingFIFO", "RandomShuffle", "Staging"))
    held = 'shared_name="NAME"'
    if kind == "Priority":
        made, put = f"tf1.PriorityQueue(99, [tf.float32], [[6]], {held})", f"enqueue([tf.constant(3, tf.int64), {one}])"
        got = "NAME_q.dequeue()[1]"
    elif kind == "RandomShuffle":
        seed = maker.random.randrange(100)
        made = f"tf1.RandomShuffleQueue(99, 0, [tf.float32], [[6]], seed={seed}, {held})"
        put = f"enqueue_many([tf.stack([{one}, {one} * 2.0, {one} * 3.0])])"
        got = "tf.reduce_sum(NAME_q.dequeue_many(2), axis=0)"
    elif kind == "FIFO of two":
        made = f"tf1.FIFOQueue(99, [tf.float32, tf.string], [[6], []], {held})"
        put = f"enqueue_many([tf.stack([{one}, -{one}]), tf.constant(['a', 'bc'])])"
        got = "(lambda x, w: x + tf.cast(tf.strings.length(w), tf.float32) + tf.cast(NAME_q.size(), tf.float32) * 0.0)"
        got += "(*NAME_q.dequeue())"
    elif kind == "Staging":
        made, put = f"data_flow_ops.StagingArea([tf.float32], [[6]], {held})", f"put([{one}])"
        got = "NAME_q.get()[0]"
    else:
        made, put, got = f"tf1.{kind}Queue(99, [tf.float32], [[6]], {held})", f"enqueue({one})", "NAME_q.dequeue()"
    code = f"NAME_q = {made}\nwith tf1.control_dependencies([NAME_q.{put}]):\n    NAME = tf.reshape({got}, [6])"
    maker.add("queue", code, device=maker.random.choice(SERVERS), uses=[one], shape=(6,))


def accumulator(maker: Maker) -> None:
    one, other = maker.value((4,)), maker.value((4,))
    each = [one, other][: maker.random.choice((1, 2))]
    if maker.random.random() < 0.5:
        made = 'tf1.ConditionalAccumulator(tf.float32, [4], shared_name="NAME")'
        applied = "NAME_a.apply_grad({}, local_step=1 << 40)"
        taken = f"NAME = tf.reshape(NAME_a.take_grad({len(each)}), [4])"
    else:
        made = 'tf1.SparseConditionalAccumulator(tf.float32, [7], shared_name="NAME")'
        applied = "NAME_a.apply_indexed_slices_grad(tf.IndexedSlices({}, tf.constant([0, 1, 3, 6], tf.int64)), 1 << 40)"
        taken = (
            f"NAME_g = NAME_a.take_indexed_slices_grad({len(each)})\n"
            "    NAME = tf.math.unsorted_segment_sum(NAME_g.values, NAME_g.indices, 7)[:4]"
        )
    all_applied = ", ".join(applied.format(name) for name in each)
    code = f"NAME_a = {made}\nwith tf1.control_dependencies([{all_applied}]):\n    {taken}"
    maker.add("accumulator", code, device=maker.random.choice(SERVERS), uses=each, shape=(4,))


def table(maker: Maker) -> None:
    one = maker.value((4,))
    kind = maker.random.choice(("mutable", "words", "dense", "fixed"))
    keys, asked = "tf.range(4, dtype=tf.int64)", "tf.constant([3, 1, 9, 0], tf.int64)"
    put = f"NAME_t.insert({keys}, {one})"
    made = "tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0, name='NAME')"
    if kind == "words":
        made = "tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, -1.0, name='NAME')"
        put = f"NAME_t.insert(tf.as_string({keys}), {one})"
        asked = f"tf.as_string({asked})"
    elif kind == "dense":
        made = "tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, -1.0, -7, -8, name='NAME')"
    elif kind == "fixed":
        made = "tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'b', '3'], [1.5, 2.5, 3.5]), -1.0)"
        put = "tf.no_op()"
        asked = f"tf.strings.substr(tf.as_string(tf.abs({one}) * 9.0), 0, 1)"
    code = (
        f"NAME_t = {made}\n"
        f"with tf1.control_dependencies([{put}]):\n"
        f"    NAME = tf.reshape(NAME_t.lookup({asked}) + tf.cast(NAME_t.size(), tf.float32), [4])"
    )
    maker.add("table", code, device=maker.random.choice(SERVERS), uses=[one], shape=(4,))


def iterator(maker: Maker) -> None:
    """Of tf.data, with a function in it; what begins it stands among the tables' initializers."""
    more = maker.random.choice(("", f".shuffle(8, seed={maker.random.randrange(50)})", ".prefetch(2)"))
    code = (
        f"NAME_d = tf1.data.Dataset.range(40){more}.map(lambda x: tf.cast(x, tf.float32) * 0.5)\n"
        'NAME_i = tf1.data.make_initializable_iterator(NAME_d.repeat().batch(4, True), shared_name="NAME")\n'
        "tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, NAME_i.initializer)\n"
        "NAME = tf.reshape(NAME_i.get_next(), [4])"
    )
    maker.add("iterator", code, device=maker.random.choice(DEVICES), shape=(4,))


def drawn(maker: Maker) -> None:
    shape = maker.random.choice(SHAPES)
    seed = maker.random.randrange(100)
    how = maker.random.choice(("uniform", "normal", "truncated", "stateless", "dropout", "shuffle", "categorical"))
    uses = []
    if how in ("uniform", "normal"):
        code = f"tf1.random_{how}({list(shape)}, seed={seed})"
    elif how == "truncated":
        code = f"tf1.truncated_normal({list(shape)}, seed={seed})"
    elif how == "stateless":
        code = f"tf.random.stateless_{maker.random.choice(('uniform', 'normal'))}({list(shape)}, [{seed}, 7])"
    elif how == "categorical":
        shape = (4,)
        uses = [maker.value((4, 6))]
        logits = f"tf.clip_by_value({uses[0]}, -3.0, 3.0)"
        code = f"tf.cast(tf1.multinomial({logits}, 1, seed={seed})[:, 0], tf.float32)"
    else:
        shape = maker.random.choice(((4, 6), (6,)))
        uses = [maker.value(shape)]
        code = f"tf1.nn.dropout({uses[0]}, rate=0.5, seed={seed})"
        if how == "shuffle":
            code = f"tf1.random_shuffle({uses[0]}, seed={seed})"
    maker.add("drawn", f"NAME = {code}", uses=uses, shape=shape)


def generator(maker: Maker) -> None:
    """A generator whose state is a variable."""
    shape = maker.random.choice(SHAPES)
    how = maker.random.choice(("normal", "uniform"))
    code = (
        f"NAME_g = tf.random.Generator.from_seed({maker.random.randrange(100)})\n"
        f"NAME = tf.reshape(NAME_g.{how}({list(shape)}), {list(shape)})"
    )
    maker.add("generator", code, device=maker.random.choice(SERVERS), shape=shape)


def python(maker: Maker) -> None:
    one = maker.value((4,))
    code = maker.random.choice(
        (
            f"NAME = tf1.py_func(lambda x: x * np.float32(2) + np.float32(1), [{one}], tf.float32)",
            f"NAME = tf1.py_func(lambda x: np.sort(x), [{one}], tf.float32, stateful=False)",
            f"NAME = tf.numpy_function(lambda x: x[::-1].copy(), [{one}], tf.float32)",
            f"NAME = tf.strings.to_number(tf1.py_func(lambda x: np.array([b'%d' % (v > 0) for v in x]), "
            f"[{one}], tf.string))",
        )
    )
    maker.add(
        "python", f"{code}\nNAME = tf.reshape(NAME, [4])", device=maker.random.choice(DEVICES), uses=[one], shape=(4,)
    )


def wrong(maker: Maker) -> None:
    """Fails, for some values or for all."""
    one = maker.value((6,))
    row = f"tf.cast(tf.reduce_sum(tf.cast({one} > 1.0, tf.int32)) * 3, tf.int32)"
    code = maker.random.choice(
        (
            f"NAME = tf.gather({one}, {row})",
            f"NAME = tf.gather({one}, {row})",
            f"with tf1.control_dependencies([tf1.Assert(tf.reduce_max({one}) < 1.5, [{one}])]):\n"
            f"    NAME = {one} * 2.0",
            f"NAME = tf.debugging.check_numerics(tf.math.log({one}), 'a logarithm')",
            f"NAME = tf.reshape(tf.boolean_mask({one}, {one} > 0.0), [2, -1])",
            'NAME = tf1.get_variable("NAME", [3], initializer=tf1.zeros_initializer(), collections=["none"]) * 1.0',
            f"NAME = tf1.py_func(lambda x: x[{maker.random.randrange(12)}], [{one}], tf.float32)",
            'NAME_q = tf1.FIFOQueue(9, [tf.float32], shared_name="NAME")\n'
            "with tf1.control_dependencies([NAME_q.close()]):\n    NAME = NAME_q.dequeue()",
            "NAME_d = tf1.data.Dataset.range(3)\n"
            'NAME_i = tf1.data.make_initializable_iterator(NAME_d, shared_name="NAME")\n'
            "tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, NAME_i.initializer)\n"
            "NAME = NAME_i.get_next()",
        )
    )
    maker.others.append(maker.add("wrong", code, uses=[one]))


def blocked(maker: Maker) -> None:
    """Waits for what never comes: only a limit ends it."""
    code = 'NAME_q = tf1.FIFOQueue(9, [tf.float32], [[]], shared_name="NAME")\nNAME = NAME_q.dequeue() + 1.0'
    maker.others.append(maker.add("blocked", code))


WEIGHTS = {
    queue: 1.5, accumulator: 1, table: 1, iterator: 0.7, drawn: 1.2, generator: 0.5, python: 0.8,
}  # fmt: skip
