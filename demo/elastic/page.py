# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The elastic demo's picture, its page, and its table for the terminal."""

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from charts import Scale, number, text, ticks_of
from cluster import Training
from style import COLOURS, STYLE
from watching import Figures, losses, rates, trains

WIDTH, LEFT, RIGHT = 900, 110, 24
HEAD, FAULTS, PANEL, GAP, FOOT = 84, 30, 150, 34, 66  # heights
LANE, LANE_GAP, SIDE_GAP = 9, 3, 12
EVERY_S, LOSS_EVERY_S = 0.5, 1.0  # of the lines
LATE_S = 1.0
BREAK_S = 2.5  # without a point for so long, a line ends
TOLD_S = 1.0  # pauses of this length have their length written beside them
SERIES = (1, 0)  # colours: Fusewire, stock
LOSS_SHOWN_FROM = 0.05  # a share of the training: the first steps would compress the rest

STYLE_HERE = """
line.fault { stroke: #c0392b; stroke-width: 1.5; stroke-dasharray: 4 3; }
svg text.fault { fill: #c0392b; font-weight: 600; }
svg text.title { font-size: 18px; font-weight: 600; fill: var(--text); } svg text.said { font-size: 13px; }
svg text.of-0 { fill: var(--series-0); font-weight: 600; } svg text.of-1 { fill: var(--series-1); font-weight: 600; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .grid { stroke: var(--rule); }
.axis { stroke: var(--quiet); }
"""


@dataclass(frozen=True)
class Shown:
    """One side."""

    training: Training
    figures: Figures

    @property
    def name(self) -> str:
        return self.training.side.name

    @property
    def seconds(self) -> float:
        return self.training.end - self.training.begin


@dataclass(frozen=True)
class Row:
    label: str
    write: Callable[[Figures], str]


ROWS = (
    Row("steps made", lambda figures: f"{figures.steps:,}"),
    Row("steps lost", lambda figures: f"{figures.lost:,} ({share(figures)})"),
    Row("longest pause of a worker", lambda figures: f"{figures.pause_s:.1f} s"),
    Row("sessions rebuilt", lambda figures: f"{figures.rebuilt}"),
    Row("loss at the end", lambda figures: f"{figures.loss:.3f}"),
)


def share(figures: Figures) -> str:
    return f"{100 * figures.lost / max(1, figures.steps):.1f} %"


def table(shown: Sequence[Shown]) -> str:
    """For a terminal."""
    lines = [["", *(side.name for side in shown)]]
    lines += [[row.label, *(row.write(side.figures) for side in shown)] for row in ROWS]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "   ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def faults_of(side: Shown) -> list[tuple[float, str]]:
    return [(event.at, event.words) for event in side.training.events if event.is_fault]


def title_of(shown: Sequence[Shown]) -> str:
    words = " ".join(words for _, words in faults_of(shown[0]))
    done = [word for word in ("killed", "moved", "doubled") if word in words]
    listed = ", ".join(done[:-1]) + (" and " if done[:-1] else "") + done[-1] if done else "left alone"
    return f"Parameter servers {listed} in mid-training"


# ---- the picture ----


def picture(shown: Sequence[Shown], facts: Mapping[str, object]) -> str:
    """A file of its own."""
    parts, height = _drawn(shown, facts)
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    title = html.escape(title_of(shown))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{COLOURS}{STYLE_HERE}</style>'
        f'<title>{title}</title><rect width="{WIDTH}" height="{height:.0f}" rx="8" fill="var(--card)"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _drawn(shown: Sequence[Shown], facts: Mapping[str, object]) -> tuple[list[str], float]:
    x = Scale(0, max(side.seconds for side in shown), LEFT, WIDTH - RIGHT)
    parts = _head(shown)
    top = HEAD + FAULTS
    lanes = sum(_lanes_height(side) + SIDE_GAP for side in shown)
    bottom = top + PANEL + GAP + lanes + GAP + PANEL
    parts += _fault_lines(shown[0], x, top, bottom)
    parts += _panel(
        [rates(side.training.trainees, side.training.begin, side.training.end, EVERY_S) for side in shown],
        x,
        top,
        "steps per second",
        0.0,
    )
    at = top + PANEL + GAP
    for side, series in zip(shown, SERIES, strict=True):
        parts += _lanes(side, x, at, series)
        parts += _notes(side, [when for when, _ in faults_of(shown[0])], x, at)
        at += _lanes_height(side) + SIDE_GAP
    shown_losses = [
        [(when, loss) for when, loss in _losses(side) if when > LOSS_SHOWN_FROM * side.seconds] for side in shown
    ]
    parts += _panel(shown_losses, x, at + GAP - SIDE_GAP, "loss", None)
    bottom = at + GAP - SIDE_GAP + PANEL
    for value in ticks_of(x.low, x.high):
        parts.append(text(x(value), bottom + 18, number(value), "label"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 34, "seconds of training", "label"))
    parts.append(text(16, bottom + FOOT - 12, _foot(facts), "label", "start"))
    return parts, bottom + FOOT


def _losses(side: Shown) -> list[tuple[float, float]]:
    return losses(side.training.trainees, side.training.begin, side.training.end, LOSS_EVERY_S)


def _foot(facts: Mapping[str, object]) -> str:
    return (
        f"Wide & Deep, {facts['servers']} server processes, {facts['workers']} workers, all on one machine; "
        f"TensorFlow {facts['tensorflow']}, {facts['machine']}, {facts['date']}"
    )


def _head(shown: Sequence[Shown]) -> list[str]:
    parts = [text(16, 26, title_of(shown), "title", "start")]
    for line, (side, series) in enumerate(zip(shown, SERIES, strict=True)):
        figures, at = side.figures, 50 + 20 * line
        parts.append(text(16, at, side.name, f"said of-{series}", "start"))
        words = (
            f"longest pause {figures.pause_s:.1f} s;  {figures.lost:,} of {figures.steps:,} steps lost "
            f"({share(figures)});  {figures.rebuilt} sessions rebuilt"
        )
        parts.append(text(150, at, words, "said figure", "start"))
    return parts


def _fault_lines(side: Shown, x: Scale, top: float, bottom: float) -> list[str]:
    parts = []
    for at, words in [(event.at, event.short) for event in side.training.events if event.is_fault]:
        parts.append(f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top - 6:.1f}" y2="{bottom:.1f}" class="fault"/>')
        parts.append(text(x(at), top - 12, words, "fault"))
    return parts


def _notes(side: Shown, others: Sequence[float], x: Scale, top: float) -> list[str]:
    """What could not be done, below the lanes of this side; and faults that came later than the others' there."""
    parts = []
    height = _lanes_height(side)
    for event in side.training.events:
        is_late = event.is_fault and all(abs(event.at - other) > LATE_S for other in others)
        at = x(event.at)
        if is_late:
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{top + height:.1f}" class="fault"/>')
        if event.short and (is_late or not event.is_fault):
            kind = "fault" if event.is_fault else "label"
            parts.append(text(at, top + height + 14, event.short, kind, "middle" if event.is_fault else "start"))
    return parts


def _panel(
    series: Sequence[Sequence[tuple[float, float]]], x: Scale, top: float, label: str, low: float | None
) -> list[str]:
    values = [value for points in series for _, value in points] or [0.0, 1.0]
    high = max(values) * 1.05 or 1.0
    least = min(values) - 0.05 * (max(values) - min(values)) if low is None else low
    y = Scale(least, high if high > least else least + 1, top + PANEL, top)
    parts = []
    for value in ticks_of(y.low, y.high):
        at = y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(text(LEFT - 8, at + 4, number(value), "label", "end"))
    bottom = top + PANEL
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom:.1f}" y2="{bottom:.1f}" class="axis"/>')
    middle = top + PANEL / 2
    parts.append(f'<g transform="rotate(-90 26 {middle})">{text(26, middle, label, "figure")}</g>')
    for points, colour in zip(series, SERIES, strict=True):
        for whole in _unbroken(points):
            drawn = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in whole)
            parts.append(f'<polyline points="{drawn}" class="line series-{colour}"/>')
    return parts


def _unbroken(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The parts of a line between its pauses."""
    found: list[list[tuple[float, float]]] = []
    for point in points:
        if found and point[0] - found[-1][-1][0] < BREAK_S:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def _lanes_height(side: Shown) -> float:
    return len(side.training.trainees) * (LANE + LANE_GAP) - LANE_GAP


def _lanes(side: Shown, x: Scale, top: float, series: int) -> list[str]:
    """One lane for each worker, filled while it makes steps; where none does, how long."""
    height = _lanes_height(side)
    parts = [text(LEFT - 8, top + height / 2 + 4, _short(side.name), f"of-{series}", "end")]
    running: list[tuple[float, float]] = []
    for lane, worker in enumerate(side.training.trainees):
        y = top + lane * (LANE + LANE_GAP)
        for begin, end in trains(worker, side.training.begin, side.training.end):
            place = f'x="{x(begin):.1f}" y="{y:.1f}" width="{max(1.0, x(end) - x(begin)):.1f}" height="{LANE}"'
            parts.append(f'<rect {place} class="bar series-{series}"/>')
            running.append((begin, end))
    for begin, end in _pauses(running, side.seconds):
        parts.append(text(x((begin + end) / 2), top + height / 2 + 4, f"{end - begin:.1f} s", "figure"))
    return parts


def _pauses(running: Sequence[tuple[float, float]], seconds: float) -> list[tuple[float, float]]:
    """When no worker makes steps, for long enough to be mentioned."""
    found, done = [], 0.0
    for begin, end in [*sorted(running), (seconds, seconds)]:
        if begin - done >= TOLD_S:
            found.append((done, begin))
        done = max(done, end)
    return found


def _short(name: str) -> str:
    return name.partition(" ")[0]


# ---- the page ----


def page(shown: Sequence[Shown], facts: Mapping[str, object]) -> str:
    parts, height = _drawn(shown, facts)
    title = html.escape(title_of(shown))
    drawing = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Fusewire: {title}</title>
<style>{STYLE}{STYLE_HERE}</style>
</head>
<body>
<h1>{title}</h1>
<p class="quiet">TensorFlow {html.escape(str(facts["tensorflow"]))}, {html.escape(str(facts["machine"]))},
{html.escape(str(facts["date"]))}</p>
<p>The same program, twice: Wide &amp; Deep under MonitoredTrainingSession, on {facts["servers"]} processes with
parameter servers and {facts["workers"]} workers. What is done to it, at the same times, is marked in red. Over
Fusewire, steps wait until another process has what was lost. Stock TensorFlow builds every session anew, and goes back
to the checkpoint.</p>
<figure>{drawing}</figure>
{_table(shown)}
<div class="grid-2">{"".join(_story(side) for side in shown)}</div>
<h2>How it is measured</h2>
<p>Everything on this page was measured in this run. Each step adds one to a variable on each parameter server: when
such a count goes back, the missing steps were lost; steps that several servers have lost are counted once. A bar of the
middle part is a worker that makes steps. A pause is the time from one step of a worker to its next one.</p>
<p>Fusewire: protocol star_server, four parameter servers, snapshots each second. Stock TensorFlow: protocol grpc, the
plug-in is not loaded, a parameter server in each process. Both write a checkpoint each 5 s. A stock server that was
killed is started again at once. A worker that waits for the chief looks each second, while TensorFlow's default is each
30 s.</p>
</body>
</html>
"""


def _table(shown: Sequence[Shown]) -> str:
    heads = "".join(
        f'<th><span class="swatch series-{series}"></span>{html.escape(side.name)}</th>'
        for side, series in zip(shown, SERIES, strict=True)
    )
    rows = "".join(
        f"<tr><td>{html.escape(row.label)}</td>"
        + "".join(f"<td>{html.escape(row.write(side.figures))}</td>" for side in shown)
        + "</tr>"
        for row in ROWS
    )
    return f'<div class="scroll"><table><tr><th></th>{heads}</tr>{rows}</table></div>'


def _story(side: Shown) -> str:
    """What was done, and its effect."""
    rows = "".join(
        f"<tr><td>{at:.1f} s</td><td style='text-align: left; white-space: normal'>{html.escape(words)}</td></tr>"
        for at, words in side.training.told
    )
    return f"<figure><h2>{html.escape(side.name)}</h2><table>{rows}</table></figure>"
