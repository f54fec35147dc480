# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The records that the tables of the documentation are made of: bench/figures/SUITE.json.

A suite may be measured in parts, on several days: each part is a measurement with its own machine record, and takes
the place of earlier records of the same cases.
"""

import json
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from records import Record, best_rows

DIGITS = 4
# Of whose cases only the best peer of each target is shown.
BEST_ONLY = ("collective", "paths")


@dataclass(frozen=True)
class Measurement:
    machine: dict[str, object]
    records: list[Record]


def kept_value(value: object) -> object:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def measured(folder: pathlib.Path, suite: str) -> Measurement:
    """What bench/run.py has left in a folder, as far as the tables need it."""
    records = json.loads((folder / f"{suite}.json").read_text(encoding="utf-8"))
    machine = json.loads((folder / f"{suite}.machine.json").read_text(encoding="utf-8"))
    if suite in BEST_ONLY:
        records = [records[index] for index in best_rows(records)]
    return Measurement(
        machine | {"repeated": len(machine["repeated"])},
        [{key: kept_value(value) for key, value in record.items()} for record in records],
    )


def load(folder: pathlib.Path, suite: str) -> list[Measurement]:
    """Nothing if the suite has not been measured."""
    path = folder / f"{suite}.json"
    if not path.exists():
        return []
    return [Measurement(one["machine"], one["records"]) for one in json.loads(path.read_text(encoding="utf-8"))]


def text_of(measurements: Sequence[Measurement]) -> str:
    """A line for each record, so that a difference shows which ones have changed."""
    parts = []
    for one in measurements:
        records = ",\n".join(f"   {json.dumps(record)}" for record in one.records)
        parts.append(f' {{"machine": {json.dumps(one.machine)},\n  "records": [\n{records}]}}')
    return "[\n" + ",\n".join(parts) + "\n]\n"


def merged(old: Sequence[Measurement], new: Measurement) -> list[Measurement]:
    """The old ones without the cases that the new one has measured again."""
    again = {record["case"] for record in new.records}
    left = [Measurement(one.machine, [record for record in one.records if record["case"] not in again]) for one in old]
    return [*(one for one in left if one.records), new]


def keep(folder: pathlib.Path, suite: str, new: Measurement) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{suite}.json").write_text(text_of(merged(load(folder, suite), new)), encoding="utf-8")
