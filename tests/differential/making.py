# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Draws a program from a seed: placed at random on two parameter servers and two workers, with a deterministic
result."""

import making_flow
import making_state
import making_tensors
import making_variables
from maker import DEVICES, SHAPES, Maker
from program import Program, Step

WEIGHTS = {
    **making_tensors.WEIGHTS,
    **making_variables.WEIGHTS,
    **making_flow.WEIGHTS,
    **making_state.WEIGHTS,
}
HOWS = (
    *("run",) * 4, "callable", "callable with options", "partial", "traced", "traced in software", "limited",
    "partitions shown", "allocations reported", "with an operation",
)  # fmt: skip
NO_GRAPPLER = "rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True)"
CONFIGS = (
    *("",) * 5,
    *(f"graph_options=tf1.GraphOptions(rewrite_options={NO_GRAPPLER})",) * 3,
    "graph_options=tf1.GraphOptions(optimizer_options=tf1.OptimizerOptions(opt_level=tf1.OptimizerOptions.L0))",
    "graph_options=tf1.GraphOptions(optimizer_options=tf1.OptimizerOptions(do_function_inlining=True))",
    "graph_options=tf1.GraphOptions(place_pruned_graph=True)",
    "allow_soft_placement=True",
    "isolate_session_state=True",
    "operation_timeout_in_ms=60000",
)


def feed(maker: Maker) -> None:
    shape = maker.random.choice(SHAPES)
    code = f'NAME = tf1.placeholder(tf.float32, {list(shape)}, name="NAME")'
    maker.add("feed", code, device=maker.random.choice(("/job:worker/task:0", *DEVICES)), shape=shape, prefix="x")


def feed_ids(maker: Maker) -> str:
    code = 'NAME = tf1.placeholder(tf.int64, [4], name="NAME")'
    return maker.add("feed", code, prefix="x", role="ids")


def feed_words(maker: Maker) -> str:
    code = 'NAME = tf1.placeholder(tf.string, [3], name="NAME")'
    return maker.add("feed", code, prefix="x", role="words")


def steps_of(maker: Maker) -> tuple[Step, ...]:
    feeds = {each.name for each in maker.statements if each.kind == "feed"}
    every = [name for name in (*maker.values, *maker.others) if name not in feeds]
    # An update of a variable is fetched by every step or by none, so that the order of both sessions' steps does not
    # matter.
    kept = [name for name in every if maker.random.random() < 0.6] or every[-1:]
    few = kept[: max(1, len(kept) // 2)]
    steps = []
    for turn in range(maker.random.randrange(2, 4)):
        fetches = kept if turn % 2 == 0 else few
        pure = [name for name in fetches if maker.is_pure(name)]
        together = bool(pure) and maker.random.random() < 0.2
        workers = (0, 1) if together or turn == 0 or maker.random.random() < 0.4 else (maker.random.randrange(2),)
        for worker in workers:
            how = "together" if together else maker.random.choice(HOWS)
            if any(maker.statement(name).kind == "blocked" for name in fetches):
                how = "cut short"
            steps.append(Step(worker, tuple(pure if together else fetches), maker.random.randrange(1 << 20), how))
    return tuple(steps)


def make(seed: int) -> Program:
    maker = Maker(seed)
    for _ in range(maker.random.randrange(1, 4)):
        feed(maker)
    if maker.random.random() < 0.4:
        feed_ids(maker)
    if maker.random.random() < 0.2:
        feed_words(maker)
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    for _ in range(maker.random.randrange(4, 22)):
        maker.random.choices(kinds, weights)[0](maker)
    chance = maker.random.random()
    if chance < 0.1:
        making_state.wrong(maker)
    elif chance < 0.12:
        making_state.blocked(maker)
    return Program(seed, tuple(maker.statements), steps_of(maker), maker.random.choice(CONFIGS))
