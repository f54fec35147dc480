# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The smallest form of a program that differs."""

import dataclasses
from collections.abc import Callable

from program import Program

SHRINKS_MAX = 150


def shrink(program: Program, differs: Callable[[Program], bool]) -> Program:
    """Tries fewer steps, then fewer statements, then simpler steps, as long as the program still differs."""
    tries = 0

    def still(candidate: Program) -> bool:
        nonlocal tries
        tries += 1
        return bool(candidate.steps) and tries <= SHRINKS_MAX and differs(candidate)

    if program.config and still(candidate := dataclasses.replace(program, config="")):
        program = candidate
    for at in range(len(program.steps) - 1, -1, -1):
        steps = program.steps[:at] + program.steps[at + 1 :]
        if still(candidate := dataclasses.replace(program, steps=steps)):
            program = candidate
    again = True
    while again:
        again = False
        for each in reversed(program.statements):
            if each.name not in program.names():
                continue
            candidate = program.without({each.name})
            if still(candidate):
                program, again = candidate, True
    return plainer_steps(program, still)


def plainer_steps(program: Program, still: Callable[[Program], bool]) -> Program:
    for number in range(len(program.steps)):
        for name in program.steps[number].fetches:
            kept = tuple(each for each in program.steps[number].fetches if each != name)
            if kept and still(candidate := with_step(program, number, fetches=kept)):
                program = candidate
        if program.steps[number].how != "run" and still(candidate := with_step(program, number, how="run")):
            program = candidate
    return program


def with_step(program: Program, number: int, **changes) -> Program:
    step = dataclasses.replace(program.steps[number], **changes)
    return dataclasses.replace(program, steps=(*program.steps[:number], step, *program.steps[number + 1 :]))
