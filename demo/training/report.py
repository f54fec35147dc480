# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The demo's page: one self-contained file, readable in light and dark mode."""

import html
import itertools
import pathlib
import sys
from collections.abc import Mapping, Sequence

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import machine
from charts import Line, bars, lines, standalone_bars
from records import Record
from style import COLOURS, STYLE
from table import NAMES, ROWS, Row, cells_of
from training import Result

STEPS = "steps_per_s"
SMOOTH_STEPS = 100  # loss is shown as the mean of this many steps: the loss of a batch of 64 varies too much
POINTS_MAX = 240
SHOWN_SHARE = 0.995  # of the steps in the plot of step times; the slowest few would compress the others


def smoothed(losses: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The mean loss of every SMOOTH_STEPS consecutive steps, at the time of the last, in at most POINTS_MAX points."""
    sums = list(itertools.accumulate((loss for _, loss in losses), initial=0.0))
    width = max(1, min(SMOOTH_STEPS, len(losses) // 2))
    ends = [*range(width, len(losses), max(1, (len(losses) - width) // POINTS_MAX)), len(losses)]
    return [(losses[end - 1][0], (sums[end] - sums[end - width]) / width) for end in ends]


def cumulative(seconds: Sequence[float]) -> list[tuple[float, float]]:
    """(milliseconds, per cent of the steps that took no longer), in at most POINTS_MAX points."""
    ordered = sorted(seconds)
    shown = max(1, int(len(ordered) * SHOWN_SHARE))
    places = sorted({round(part * (shown - 1) / (POINTS_MAX - 1)) for part in range(POINTS_MAX)})
    return [(ordered[place] * 1e3, 100 * (place + 1) / len(ordered)) for place in places]


def bar_figure(results: Sequence[Result], row: Row) -> str:
    values = [result.figures[row.key] for result in results]
    written = [f"{cell.figure}, {cell.ratio}" if cell.ratio else cell.figure for cell in cells_of(row, results)]
    title = row.label[0].upper() + row.label[1:]
    names = [NAMES[result.program] for result in results]
    better = "less is better" if row.less_is_better else "more is better"
    return figure_of(title, bars(names, values, written, title), better)


def chart(results: Sequence[Result], facts: Mapping[str, object]) -> str:
    """A standalone picture of the steps per second, which names the machine. Facts: those of page()."""
    row = next(row for row in ROWS if row.key == STEPS)
    written = [f"{cell.figure}, {cell.ratio}" if cell.ratio else cell.figure for cell in cells_of(row, results)]
    below = (
        f"Wide & Deep, {facts['servers']} parameter servers, {facts['workers']} workers, all on one machine",
        f"TensorFlow {facts['tensorflow']}, {facts['machine']}, {facts['date']}",
    )
    programs = [result.program for result in results]
    return steps_chart(programs, [result.figures[STEPS] for result in results], written, below)


def chart_of(about: machine.Facts, records: Sequence[Record]) -> str:
    """The same picture, from the records of several rounds: medians with their spread."""
    shown = [record for record in records if record["metric"] == STEPS]
    servers, workers = str(shown[0]["case"]).partition("_")[2].split("x")
    first = shown[0]
    values = [float(first["peer"]), *(float(record["ours"]) for record in shown)]
    written = [
        steps_words(first["peer"], first["peer_spread"]),
        *(f"{steps_words(one['ours'], one['ours_spread'])}, {one['ratio']:.1f}x" for one in shown),
    ]
    below = (
        f"Wide & Deep, {servers} parameter servers, {workers} workers, one machine, medians of {about['runs']} rounds",
        f"TensorFlow {about['versions']['TensorFlow']}, {machine.processor_words(about)}, {about['date']}",
    )
    return steps_chart(["grpc", *(str(record["variant"]) for record in shown)], values, written, below)


def steps_words(steps_per_s: float, spread: float) -> str:
    return f"{steps_per_s:,.0f} ± {spread * 100:.0f} %"


def steps_chart(programs: Sequence[str], values: Sequence[float], written: Sequence[str], below: Sequence[str]) -> str:
    names = [NAMES[program] for program in programs]
    return standalone_bars(names, values, written, "Steps per second", below, COLOURS)


def figure_of(title: str, svg: str, caption: str, legend: str = "") -> str:
    head = f"<h2>{html.escape(title)}</h2>{legend}"
    return f"<figure>{head}{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def name_of(index: int, result: Result) -> str:
    return f'<span class="swatch series-{index}"></span>{html.escape(NAMES[result.program])}'


def legend_of(results: Sequence[Result]) -> str:
    return f'<div class="legend">{"".join(f"<span>{name_of(*pair)}</span>" for pair in enumerate(results))}</div>'


def table(results: Sequence[Result]) -> str:
    heads = "".join(f"<th>{name_of(*pair)}</th>" for pair in enumerate(results))
    rows = []
    for row in ROWS:
        cells = "".join(
            f'<td>{html.escape(cell.figure)}{f"""<span class="ratio">{cell.ratio}</span>""" if number else ""}</td>'
            for number, cell in enumerate(cells_of(row, results))
        )
        rows.append(f"<tr><td>{html.escape(row.label)}</td>{cells}</tr>")
    return f'<div class="scroll"><table><tr><th></th>{heads}</tr>{"".join(rows)}</table></div>'


def page(results: Sequence[Result], facts: Mapping[str, object]) -> str:
    """Facts: servers, workers, steps, tensorflow, machine, date."""
    losses = [Line(NAMES[result.program], smoothed(result.losses)) for result in results]
    times = [Line(NAMES[result.program], cumulative(result.seconds)) for result in results]
    rows = {row.key: row for row in ROWS}
    figures = [
        figure_of(
            "Loss over time",
            lines(losses, "Loss over time", "seconds of training", "loss"),
            f"Training loss, mean of {SMOOTH_STEPS} steps. Each line ends when its {facts['steps']} steps are done.",
            legend_of(results),
        ),
        figure_of(
            "Duration of a step",
            lines(times, "Step times", "milliseconds", "% of steps that took no longer", (0, 100)),
            "Further left is faster; steeper is more uniform.",
            legend_of(results),
        ),
        *(bar_figure(results, rows[key]) for key in ("steps_per_s", "p50_ms", "rpcs_per_step", "cpu_ms_per_step")),
    ]
    model = (
        f"Wide &amp; Deep with 26 categorical features in 52 tables, batches of 64, on {facts['servers']} parameter "
        f"servers and {facts['workers']} workers, {facts['steps']} steps for each training. Each training starts new "
        "servers and workers, each in its own process, on this machine."
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Fusewire: Wide &amp; Deep over four protocols</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Wide &amp; Deep, trained once with each protocol</h1>
<p class="quiet">TensorFlow {html.escape(str(facts["tensorflow"]))}, {html.escape(str(facts["machine"]))},
{html.escape(str(facts["date"]))}</p>
<p>{model}</p>
{table(results)}
<div class="grid-2">{"".join(figures)}</div>
<p class="quiet" style="margin-top: 24px">RPCs over stock gRPC are counted in the graphs that ran; with the others by
the plug-in. Bytes are those that the kernel sent on TCP connections, CPU time is that of all processes. The labels are
drawn from a planted model, so the best possible AUC is known.</p>
</body>
</html>
"""
