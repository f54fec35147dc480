# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The state while a program is drawn: its statements so far, and their dependencies.

Every read of a variable is ordered after the updates before it, and every update after the reads before it, on the
variable's own device: a reference is read when it is sent to another device. A read of a reference that TensorFlow
adds, for a gradient or a lookup, is not ordered by control edges: such a variable is trained only before any other
update, and not changed after a lookup.
"""

import random

from program import Statement

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
# Not for concurrent steps: two of them may be of one session, and would share its random numbers.
CHANGES = (
    *("update", "scatter", "train", "queue", "accumulator", "table", "iterator", "counter", "generator"),
    *("drawn", "wrong", "blocked"),
)


def indented(code: str, spaces: int = 4) -> str:
    return "\n".join(" " * spaces + line for line in code.splitlines())


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.statements: list[Statement] = []
        self.values: dict[str, tuple[int, ...]] = {}  # float32 tensors: {name: shape}
        self.others: list[str] = []  # fetched, but not used by other statements
        self.roles: dict[str, str] = {}  # fed values that are not float: "ids", "words"
        self.variables: dict[str, tuple[int, ...]] = {}
        self.behind: dict[str, list[str]] = {}  # of a variable: reads and updates since the last update
        self.fixed: set[str] = set()  # references that were read without an order by control edges

    def add(self, kind, code, device=None, uses=(), after=(), shape=None, prefix="t", role=None) -> str:
        name = f"{prefix}{len(self.statements)}"
        device = self.random.choice(DEVICES) if device is None else device
        text = code.replace("NAME", name)
        self.statements.append(Statement(name, kind, text, device, tuple(uses), tuple(after)))
        if shape is not None:
            self.values[name] = shape
        if role is not None:
            self.roles[name] = role
        return name

    def statement(self, name: str) -> Statement:
        return next(each for each in self.statements if each.name == name)

    def value(self, shape=None) -> str:
        fitting = [name for name, of in self.values.items() if shape is None or of == shape]
        if not fitting or self.random.random() < 0.1:
            return self.constant(self.random.choice(SHAPES) if shape is None else shape)
        return self.random.choice(fitting[-8:] if self.random.random() < 0.7 else fitting)

    def constant(self, shape) -> str:
        draw = f"np.random.RandomState({self.random.randrange(1000)}).randn(*{shape})"
        return self.add("constant", f"NAME = tf.constant(np.asarray({draw}, np.float32))", shape=shape)

    def fed(self, role: str) -> str | None:
        return next((name for name, of in self.roles.items() if of == role), None)

    def before(self, name: str) -> set[str]:
        """A statement and all statements that it needs."""
        found: set[str] = set()
        ahead = [name]
        while ahead:
            each = ahead.pop()
            if each not in found:
                found.add(each)
                statement = self.statement(each)
                ahead += [*statement.uses, *statement.after]
        return found

    def is_pure(self, name: str) -> bool:
        """Whether it neither changes state nor depends on a statement that does."""
        return not any(self.statement(each).kind in CHANGES for each in self.before(name))

    def is_from_variables(self, name: str) -> bool:
        return not self.is_pure(name) or any(self.statement(each).kind == "variable" for each in self.before(name))
