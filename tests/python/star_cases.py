# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The cases that test_star.py runs over each protocol, in one process: python star_cases.py [CASE...].

Clusters of two parameter servers and a worker, one for each protocol. A case builds a graph, runs it, and returns what
it has seen; each case is one line of JSON, with what was seen over each protocol and how many parts a server ran.
"""

import functools
import json
import os
import sys
import tempfile
import traceback
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import tensorflow as tf
from processes import free_addresses
from tensorflow.python.framework import function

import fusewire

tf1 = tf.compat.v1
PROTOCOLS = ("grpc", "star_server", "star_server_lite")
PS, OTHER_PS, WORKER = "/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"
STEP_LIMIT_MS = 20_000
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def variable(name, device, value=0.0, **options):
    with tf.device(device):
        initial = tf1.constant_initializer(value)
        return tf1.get_variable(name, np.shape(value), initializer=initial, **options)


def initialised(start):
    session = start()
    session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
    return session


def error_of(run, *words):
    """The type of an error, and which of the words are in its message."""
    try:
        run()
    except tf.errors.OpError as error:
        return [type(error).__name__, *(word for word in words if word in str(error))]
    return ["no error"]


# ---- control flow ----


def conditions(start, version, use_resource):
    (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
    x = tf1.placeholder(tf.float32, [])
    first = variable("first", PS, 3.0, use_resource=use_resource)
    second = variable("second", OTHER_PS, 5.0, use_resource=use_resource)

    def taken():
        with tf.device(PS), tf.control_dependencies([tf1.assign_add(first, x)]):
            return tf.identity(second * 2.0)

    def not_taken():
        def deep():
            with tf.device(OTHER_PS):
                return tf.identity(tf1.assign_sub(second, x)) + 0.5

        def flat():
            with tf.device(PS):
                return first - x

        return tf.cond(x < -5.0, deep, flat)

    with tf.device(WORKER):
        chosen = tf.cond(x > 0.0, taken, not_taken) + 1.0
    with tf.device(PS):
        # Nothing but the server's own.
        local = tf.cond(first > 6.0, lambda: first * 10.0, lambda: tf.identity(tf1.assign_add(first, 1.0)))
    with initialised(start) as session:
        seen = []
        for value in (2.0, -2.0, 5.0, -7.0, -1.0, 3.0, -9.0):
            seen.append(float(session.run(chosen, {x: value})))
            seen.append(float(session.run(local)))
            seen += [float(each) for each in session.run([first, second])]
        return seen


@case
def conditions_of_version_1(start):
    return conditions(start, 1, True)


@case
def conditions_of_version_1_with_references(start):
    return conditions(start, 1, False)


@case
def conditions_of_version_2(start):
    return conditions(start, 2, True)


@case
def training_under_conditions(start):
    tf1.disable_control_flow_v2()
    x = tf1.placeholder(tf.float32, [3])
    weights = [variable(f"weights{i}", device, [1.0, 2.0, 3.0]) for i, device in enumerate((PS, OTHER_PS))]
    with tf.device(WORKER):
        which = tf.reduce_sum(x) > 0.0
        picked = tf.cond(which, lambda: weights[0] * x, lambda: weights[1] - x)
        loss = tf.reduce_sum(tf.square(picked - 1.0))
        train = tf1.train.GradientDescentOptimizer(0.05).minimize(loss)
    random = np.random.RandomState(1)
    with initialised(start) as session:
        return [session.run([loss, train], {x: random.randn(3)})[0].tobytes().hex() for _ in range(20)]


def loops(start, version):
    (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
    x = tf1.placeholder(tf.float32, [])
    weight, total = variable("weight", PS, 1.5, use_resource=True), variable("total", OTHER_PS, use_resource=True)

    def turn(count, value):
        with tf.device(PS):
            more = value * weight
        with tf.device(OTHER_PS), tf.control_dependencies([tf1.assign_add(total, more)]):
            kept = total * 1.0
        with tf.device(WORKER):
            return count + 1, more + kept

    with tf.device(WORKER):
        _, looped = tf.while_loop(lambda count, _: count < 4, turn, [0, x * weight], parallel_iterations=1)
    with tf.device(PS):
        after = looped * weight
    with initialised(start) as session:
        return [float(value) for i in range(3) for value in session.run([after, looped, total * 2.0], {x: i + 1.0})[:2]]


@case
def loops_of_version_1(start):
    return loops(start, 1)


@case
def loops_of_version_2(start):
    return loops(start, 2)


# ---- sessions ----


def strewn(seed):
    """Places each operation separately, except for fed ones."""

    def place(operation):
        turn = zlib.crc32(f"{seed} {operation.name}".encode())
        return WORKER if operation.type == "Placeholder" else (PS, OTHER_PS, WORKER)[turn % 3]

    return place


def strewn_flow():
    choice = tf1.placeholder(tf.bool, [], name="choice")
    number = tf1.placeholder(tf.int32, [], name="number")
    x, y = tf.constant(1.5), tf.constant(2.5)
    chosen = tf1.cond(choice, lambda: x * 3.0, lambda: y * 5.0)
    constant = tf1.cond(choice, lambda: tf.constant(7.0), lambda: tf.constant(8.0))
    # The gradient of the branch that is not taken is a constant: zeros.
    gradients = [tf.identity(gradient) for gradient in tf.gradients(chosen, [x, y])]
    two = tf.switch_case(number % 2, [lambda: x + 1.0, lambda: tf.constant(9.0)])
    three = tf.switch_case(number % 3, [lambda: x, lambda: y * 2.0, lambda: tf.constant(11.0)])
    loop = tf1.while_loop(lambda i, _: i < 5, lambda i, v: (i + 1, v * 2.0 + 1.0), [tf.constant(0), x])[1]
    return choice, number, [chosen, constant, *gradients, two, three, loop]


@case
def flow_strewn_over_all_tasks(start):
    seen = []
    for version in (1, 2):
        (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
        for seed in range(4):
            with tf.Graph().as_default(), tf1.device(strewn(seed)):
                choice, number, fetches = strewn_flow()
                session = start(tf1.ConfigProto(allow_soft_placement=True))
                for turn in range(3):
                    seen.append(bits(session.run(fetches, {choice: turn % 2 == 0, number: turn})))
                session.close()
    return seen


@case
def variables_without_a_value(start):
    seen = []
    for use_resource in (False, True):
        kept = variable(f"kept_{use_resource}", PS, 1.0, use_resource=use_resource)
        session = start()
        for of in (kept, kept * 2.0, tf1.assign_add(kept, 1.0)):
            seen.append(error_of(functools.partial(session.run, of), "ninitialized"))
        session.close()
    return seen


@case
def feeds_and_fetches_of_servers(start):
    weights = variable("weights", PS, [1.0, 2.0, 3.0])
    with tf.device(PS):
        doubled = weights * 2.0
        shifted = doubled + 1.0
    with tf.device(OTHER_PS):
        total = tf.reduce_sum(shifted)
    with initialised(start) as session:
        seen = session.run([doubled, shifted, total, weights])
        fed = session.run([shifted, total], {doubled: [5.0, 6.0, 7.0]})
        return [np.asarray(each).tolist() for each in (*seen, *fed, *session.run([total], {shifted: [1.0, 1.0, 1.0]}))]


@case
def partial_runs_and_callables(start):
    x, y = tf1.placeholder(tf.float32, []), tf1.placeholder(tf.float32, [])
    weight = variable("weight", PS, 3.0)
    with tf.device(PS):
        first = x * weight
        second = first + y
    with tf.device(WORKER):
        first_here, second_here = tf.identity(first), tf.identity(second)
    with initialised(start) as session:
        part = session.partial_run_setup([first_here, second_here], [x, y])
        seen = [session.partial_run(part, first_here, {x: 4.0}), session.partial_run(part, second_here, {y: 1.0})]
        call = session.make_callable([first_here, second_here], [x, y])
        return [float(each) for each in (*seen, *call(3.0, 1.0), *call(5.0, 2.0))]


@case
def a_debugger_sees_the_operations_of_servers(start):
    weight = variable("weight", PS, 3.0)
    with tf.device(PS):
        watched = tf.multiply(weight, 2.0, name="watched")
    with tf.device(WORKER):
        result = watched + 1.0
    with initialised(start) as session, tempfile.TemporaryDirectory() as folder:
        options = tf1.RunOptions()
        watch = options.debug_options.debug_tensor_watch_opts.add()
        watch.node_name, watch.output_slot = "watched", 0
        watch.debug_ops.append("DebugIdentity")
        watch.debug_urls.append(f"file://{folder}")
        values = [float(session.run(result))]
        before = fusewire.stats()["star_runs_out"]
        values.append(float(session.run(result, options=options)))
        calls = fusewire.stats()["star_runs_out"] - before
        return [*values, float(session.run(result)), calls]


@case
def errors_say_who_and_where(start):
    never = variable("never_initialised", PS)
    table = variable("table", OTHER_PS, [1.0, 2.0])
    at = tf1.placeholder(tf.int32, [])
    with tf.device(PS):
        read = never * 2.0
    with tf.device(OTHER_PS):
        sliced = tf.gather(tf.identity(table), at, name="the_culprit")
    with tf.device(WORKER):
        result = sliced + 1.0
    with start() as session:
        session.run(table.initializer)
        return [
            error_of(lambda: session.run(read), "never_initialised"),
            error_of(lambda: session.run(result, {at: 7}), "the_culprit"),
            float(session.run(result, {at: 1})),
        ]


@case
def isolated_sessions_have_their_own(start):
    count = variable("count", PS)
    more = tf1.assign_add(count, 1.0)
    apart = tf1.ConfigProto(isolate_session_state=True)
    with start(apart) as first, start(apart) as second, start() as third:
        for session in (first, second, third):
            session.run(count.initializer)
        seen = [float(session.run(more)) for session in (first, first, first, second, third, third)]
    with start(apart) as fresh:
        seen.append(error_of(lambda: fresh.run(more), "count"))
    with start() as fresh:
        seen.append(float(fresh.run(more)))
    return seen


@case
def sessions_share_variables_and_not_generators(start):
    with tf.device(PS):
        drawn = tf.random.uniform([2], seed=5)
    with tf.device(OTHER_PS):
        normal = tf.random.normal([2], seed=6)
    with tf.device(WORKER):
        both = drawn + normal
    seen = []
    with start() as first, start() as second:
        for session in (first, first, second, first, second):
            seen.append(session.run(both).tobytes().hex())
        seen.append(first.run(drawn).tobytes().hex())
        seen += [each.tobytes().hex() for each in first.run([drawn, both, normal])]
        seen.append(second.run(normal).tobytes().hex())
    return seen


# ---- what has state ----


@case
def queues(start):
    with tf.device(PS):
        queue = tf1.FIFOQueue(3, [tf.float32, tf.string], shapes=[[2], []], shared_name="of_" + start.protocol)
        put = queue.enqueue(([1.0, 2.0], "a"))
        taken, size = queue.dequeue(), queue.size()
        closed = queue.close()
    weights = variable("weights", PS, [10.0, 20.0])
    with tf.device(PS):
        sum_there = taken[0] + weights
    with tf.device(WORKER):
        here = sum_there * 1.0
    limit = tf1.RunOptions(timeout_in_ms=700)
    with initialised(start) as session:
        seen = [error_of(lambda: session.run(here, options=limit))]
        session.run(put)
        session.run(put)
        seen.append(int(session.run(size)))  # the dequeue that was given up takes none
        seen.append(session.run([here, taken[1]])[0].tolist())
        # Operations beside a queue do not wait for it.
        seen.append(session.run(weights).tolist())
        session.run(put)
        session.run(put)
        seen.append(error_of(lambda: session.run(put, options=limit)))
        session.run(closed)
        for _ in range(int(session.run(size))):
            seen.append(session.run(taken)[1].decode())
        seen.append(error_of(lambda: session.run(taken), "closed"))
        return seen


@case
def tables(start):
    words = tf1.placeholder(tf.string, [None])
    with tf.device(PS):
        keys, values = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
        found = table.lookup(words)
        mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -7)
        learnt = mutable.insert(words, tf.cast(tf.strings.length(words), tf.int64))
        known = mutable.lookup(words)
    with tf.device(WORKER):
        result = found + 0
    with start() as session:
        seen = [error_of(lambda: session.run(result, {words: ["a"]}), "initialized")]
        session.run(tf1.tables_initializer())
        seen.append(session.run(result, {words: ["a", "c", "b"]}).tolist())
        seen.append(session.run(known, {words: ["xyz", "a"]}).tolist())
        session.run(learnt, {words: ["xyz"]})
        seen.append(session.run(known, {words: ["xyz", "a"]}).tolist())
        return seen


@case
def updates_of_every_kind(start):
    seen = []
    rows, by = tf1.placeholder(tf.int32, [None]), tf1.placeholder(tf.float32, [None, 2])
    kept = []
    for use_resource in (False, True):
        table = variable(f"table{use_resource}", PS, np.arange(8.0).reshape(4, 2), use_resource=use_resource)
        kept.append(table)
        for locking in (False, True):
            kept.append(tf1.scatter_add(table, rows, by, use_locking=locking))
            kept.append(tf1.scatter_update(table, rows, by * 3.0, use_locking=locking))
            kept.append(tf1.assign_sub(table, table * 0.25, use_locking=locking))
            kept.append(tf1.assign(table, tf.reverse(table, [0]), use_locking=locking))
    with initialised(start) as session:
        for each in kept:
            seen.append(session.run(each, {rows: [1, 3], by: [[1.0, 2.0], [3.0, 4.0]]}).tolist())
        seen.append(session.run([kept[0], kept[9]])[1].tolist())
    return seen


@case
def optimizers(start):
    seen = []
    rows = tf1.placeholder(tf.int32, [None])
    for use_resource in (False, True):
        for number, optimizer in enumerate(
            (
                tf1.train.AdamOptimizer(0.1),
                tf1.train.FtrlOptimizer(0.1),
                tf1.train.MomentumOptimizer(0.1, 0.9),
                tf1.train.RMSPropOptimizer(0.1),
            )
        ):
            with tf1.variable_scope(f"model{number}_{use_resource}", use_resource=use_resource):
                sparse = variable("sparse", PS, np.linspace(-1.0, 1.0, 12).reshape(6, 2))
                dense = variable("dense", OTHER_PS, [[1.0], [2.0]])
                with tf.device(WORKER):
                    loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.embedding_lookup(sparse, rows), dense) - 1.0))
                    train = optimizer.minimize(loss)
                with initialised(start) as session:
                    feed = {rows: [0, 3, 3, 5]}
                    seen += [session.run([loss, train], feed)[0].tobytes().hex() for _ in range(5)]
    return seen


# ---- tensors ----


@case
def strings_and_variants(start):
    words = tf1.placeholder(tf.string, [None])
    with tf.device(PS):
        joined = tf.strings.join([words, tf.constant("-there")])
        lists = tf.raw_ops.TensorListFromTensor(tensor=words, element_shape=tf.constant([], tf.int32))
        longer = tf.raw_ops.TensorListPushBack(input_handle=lists, tensor=tf.constant("last"))
    with tf.device(WORKER):
        back = tf.strings.join([joined, words])
        stacked = tf.raw_ops.TensorListStack(input_handle=longer, element_shape=[], element_dtype=tf.string)
    with tf.device(PS):
        again = tf.strings.length(back)
        later = tf.raw_ops.TensorListPushBack(input_handle=longer, tensor=tf.strings.as_string(again[0]))
        last = tf.raw_ops.TensorListStack(input_handle=later, element_shape=[], element_dtype=tf.string)
    with start() as session:
        results = session.run([back, stacked, again, last], {words: ["a", "", "\0" * 70000]})
        return [[each.hex()[:40] for each in one] if one.dtype == object else one.tolist() for one in results]


@case
def large_tensors(start):
    weights = variable("weights", PS, use_resource=True)
    fed = tf1.placeholder(tf.float32, [None])
    with tf.device(PS):
        large = fed + weights
    with tf.device(WORKER):
        ends = tf.stack([large[0], large[-1], tf.cast(tf.size(large), tf.float32), tf.reduce_max(large)])
    with initialised(start) as session:
        return [session.run(ends, {fed: np.arange(count, dtype=np.float32)}).tolist() for count in (1, 18 << 20)]


# ---- any graph ----


def draw_graph(random):
    """Placeholders, and an operation that needs all of them; variables accumulate the tensors' values.

    All values are whole numbers below 97, so sums do not depend on their order.
    """
    devices = (PS, PS, OTHER_PS, WORKER, WORKER)
    floats, sums, operations = [], [], []

    def anywhere():
        return tf.device(devices[random.randint(len(devices))])

    def any_float():
        return floats[random.randint(len(floats))]

    def combined(*operands):
        waits = [any_float().op] if random.rand() < 0.3 else []
        with anywhere(), tf.control_dependencies(waits):
            floats.append(tf.math.floormod(tf.add_n(operands) + 1.0, 97.0))
        return floats[-1]

    feeds = []
    for number in range(3):
        with anywhere():
            feeds.append(tf1.placeholder(tf.float32, []))
        floats.append(feeds[-1])
        kept = variable(f"kept{number}", (PS, OTHER_PS)[number % 2], float(number), use_resource=number > 0)
        with tf.device(kept.device):
            floats.append(kept * 1.0)
    for _ in range(random.randint(8, 20)):
        if random.rand() < 0.5:
            combined(any_float(), any_float())
            continue
        with anywhere():
            choice = tf.math.floormod(any_float(), 2.0) > 0.5
        with anywhere():
            no, yes = tf1.raw_ops.Switch(data=any_float(), pred=choice)
        branches = [combined(no, any_float()), combined(yes, any_float())]
        with anywhere():
            floats.append(tf1.raw_ops.Merge(inputs=branches)[0])
    for number, value in enumerate(floats):
        total = variable(f"sum{number}", (PS, OTHER_PS)[random.randint(2)], use_resource=bool(random.randint(2)))
        sums.append(total)
        operations.append(tf1.assign_add(total, value).op)
    return feeds, tf.group(*operations), sums


def any_graph(start, seeds):
    seen = []
    for seed in seeds:
        random = np.random.RandomState(seed)
        with tf.Graph().as_default(), tf1.variable_scope(f"graph{seed}"):
            feeds, everything, sums = draw_graph(random)
            with initialised(start) as session:
                for _ in range(3):
                    session.run(everything, {each: float(random.randint(97)) for each in feeds})
                seen.append([seed, *(float(each) for each in session.run(sums))])
    return seen


@case
def any_graph_computes_the_same(start):
    first = int(os.environ.get("STAR_SEED", "1"))
    return any_graph(start, range(first, first + int(os.environ.get("STAR_GRAPHS", "12"))))


# ---- what else there is ----


@case
def jobs_of_any_name(start):
    there = [f"/job:server/task:{task}" for task in range(2)]
    weights = [variable(f"weights{i}", device, [1.0, 2.0]) for i, device in enumerate(there)]
    with tf.device("/job:chief/task:0"):
        loss = tf.reduce_sum(tf.square(weights[0] * weights[1] - 1.0))
        train = tf1.train.GradientDescentOptimizer(0.05).minimize(loss)
    with initialised(Cluster(start.protocol, "server", "chief")) as session:
        return [session.run([loss, train])[0].tobytes().hex() for _ in range(5)]


@case
def traces_show_what_ran_on_servers(start):
    weights = variable("weights", PS, [1.0, 2.0])
    with tf.device(OTHER_PS):
        there = tf.add(weights, 1.0, name="there")
    with tf.device(WORKER):
        train = tf1.assign_add(weights, there * 2.0, name="update")
    traced = tf1.RunMetadata()
    with initialised(start) as session:
        session.run(train)
        session.run(train, options=tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), run_metadata=traced)
    seen = set()
    for device in traced.step_stats.dev_stats:
        for node in device.node_stats:
            name = node.node_name.split("/")[-1].split(":")[0]
            if "/job:ps/" in device.device and name in ("there", "update") and node.all_end_rel_micros >= 0:
                seen.add(f"{device.device} {name}")
    return sorted(seen)


# ---- functions, and the bits of kernels that are optimised after a graph is cut ----


def bits(fetched):
    return [np.asarray(each).tobytes().hex()[:4096] for each in fetched]


@tf.function
def shaped(x):
    return tf.nn.softmax(tf.tanh(x)) * 2.0


@tf.function
def branched(x):
    return shaped(x) + 1.0 if tf.reduce_sum(x) > 0.0 else shaped(x) - 1.0


@tf.function
def looped(x):
    for _ in tf.range(3):
        x = x * 1.5 + shaped(x)
    return x


@function.Defun(tf.float32)
def inlined(x):
    return tf.nn.softmax(x) * 3.0


@function.Defun(tf.float32, noinline=True)
def called(x):
    return inlined(x) * 3.0


@case
def functions(start):
    x = tf1.placeholder(tf.float32, [4, 8])
    total = variable("total", PS, np.ones([4, 8], np.float32), use_resource=True)

    @tf.function
    def touched(value):
        total.assign_add(value)
        return total.read_value() * 1.0

    tf1.enable_control_flow_v2()
    with tf.device(PS):
        wanted = [function_of(x) for function_of in (shaped, branched, looped, inlined, called, touched)]
        wanted += [tf1.gradients(tf.reduce_sum(function_of(x) * x), x)[0] for function_of in (looped, inlined, called)]
        wanted.append(tf.map_fn(shaped, x))
        wanted.append(tf1.while_loop(lambda i, _: i < 3, lambda i, value: (i + 1, shaped(value)), [0, x])[1])
        numbers = tf1.data.Dataset.range(3).map(lambda number: number * number + 1)
        iterator = tf1.data.make_initializable_iterator(numbers)
        following = iterator.get_next()
    with initialised(start) as session:
        session.run(iterator.initializer)
        seen = []
        for turn in range(4):
            feed = {x: np.random.RandomState(turn).randn(4, 8)}
            for fetch in wanted:  # each a graph of its own
                seen += bits([session.run(fetch, feed)])
            seen += bits(session.run(wanted, feed))
            seen += [session.run(following).tolist() if turn < 3 else error_of(lambda: session.run(following))]
        return seen


@case
def a_function_that_waits_for_a_queue(start):
    """Operations that do not wait for it run anyway."""
    with tf.device(PS):
        queue = tf1.FIFOQueue(4, tf.float32, [[]], shared_name="waited")

        @function.Defun()
        def taken():
            return queue.dequeue() * 2.0

        total = variable("total", PS)
        more, put, result = tf1.assign_add(total, 1.0), queue.enqueue(5.0), taken()
    with initialised(start) as session:
        late = tf1.RunOptions(timeout_in_ms=1000)
        seen = [error_of(lambda: session.run([more, result], options=late)), float(session.run(total))]
        session.run(put)
        return [*seen, float(session.run(result)), float(session.run(more))]


def kernels(start, **options):
    image = tf1.placeholder(tf.float32, [2, 8, 8, 4])
    x, y = tf1.placeholder(tf.float32, [32, 48]), tf1.placeholder(tf.float32, [48, 16])
    random = np.random.RandomState(5)
    filters = random.randn(3, 3, 4, 4).astype(np.float32)
    with tf.device(PS):
        product = tf.matmul(x, y)
        wanted = [
            product,
            tf.nn.relu(tf.nn.bias_add(product, tf.ones([16]) * 0.1)),
            tf.nn.softmax(x),
            tf.nn.log_softmax(x),
            tf.nn.relu(tf.nn.conv2d(image, filters, 1, "SAME")),
            tf1.nn.fused_batch_norm(image, tf.ones([4]), tf.zeros([4]))[0],
            tf.nn.avg_pool2d(image, 2, 2, "SAME"),
            tf.nn.lrn(image),
            tf.nn.gelu(x),
            tf.matmul(tf.reshape(x, [4, 8, 48]), tf.reshape(x, [4, 48, 8])),
            tf.reduce_sum(tf.cast(x, tf.bfloat16) * tf.constant(0.5, tf.bfloat16), axis=1),
            tf.math.l2_normalize(tf.cast(x, tf.float64), axis=1),
        ]
    config = tf1.ConfigProto(graph_options=tf1.GraphOptions(optimizer_options=tf1.OptimizerOptions(**options)))
    with start(config) as session:
        feed = {x: random.randn(32, 48), y: random.randn(48, 16), image: random.randn(2, 8, 8, 4)}
        return [each for fetch in [*wanted, wanted] for each in bits(tf.nest.flatten(session.run([fetch], feed)))]


@case
def kernels_as_a_partition_has_them(start):
    return kernels(start)


@case
def kernels_of_a_graph_that_nobody_optimises(start):
    return kernels(start, opt_level=tf1.OptimizerOptions.L0)


@case
def kernels_whose_functions_are_inlined(start):
    return kernels(start, do_function_inlining=True)


# ---- all of them ----


class Cluster:
    """start() returns a session of its worker."""

    def __init__(self, protocol, serving="ps", working="worker"):
        self.protocol = protocol
        addresses = free_addresses(3)
        tasks = {serving: addresses[:2], working: addresses[2:]}
        self._servers = [
            tf1.train.Server(tasks, job, index, protocol=protocol) for job in tasks for index in range(len(tasks[job]))
        ]

    def __call__(self, config=None):
        limited = tf1.ConfigProto(operation_timeout_in_ms=STEP_LIMIT_MS)
        if config is not None:
            limited.MergeFrom(config)
        return tf1.Session(self._servers[-1].target, config=limited)


def main(names):
    tf1.disable_eager_execution()
    clusters = [Cluster(protocol) for protocol in PROTOCOLS]
    for name in names or CASES:
        result = {"case": name, "seen": {}, "runs": {}}
        for start in clusters:
            before = fusewire.stats()["star_runs_out"]
            tf1.disable_control_flow_v2()
            try:
                with tf.Graph().as_default(), tf1.variable_scope(name):
                    tf1.set_random_seed(3)
                    result["seen"][start.protocol] = CASES[name](start)
            except Exception:
                result["seen"][start.protocol] = f"over {start.protocol}: {traceback.format_exc()[-3000:]}"
            result["runs"][start.protocol] = fusewire.stats()["star_runs_out"] - before
        result["parts"] = fusewire.stats()["star_parts"]
        print("CASE", json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
