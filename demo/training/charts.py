# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Plots as SVG inside a page: lines and bars, in the page's colours.

Colours are CSS classes, which the page defines for light and dark mode: series-0, series-1 ... for the
data; axis, grid and label for the rest.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 12, 44
TICKS = 5


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]


def tick_step(span: float, count: int = TICKS) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that divides the span into at most that many parts."""
    power = 10 ** math.floor(math.log10(span / count))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= count + 1e-9)


def ticks_of(low: float, high: float) -> list[float]:
    step = tick_step(high - low)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def text(x: float, y: float, words: str, css: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{html.escape(words)}</text>'


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def frame(x: Scale, y: Scale, x_label: str, y_label: str) -> list[str]:
    parts = []
    for value in ticks_of(y.low, y.high):
        at = y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(text(LEFT - 6, at + 4, number(value), "label", "end"))
    for value in ticks_of(x.low, x.high):
        parts.append(text(x(value), HEIGHT - BOTTOM + 16, number(value), "label"))
    bottom = HEIGHT - BOTTOM
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" class="axis"/>')
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label, "label"))
    middle = (TOP + bottom) / 2
    parts.append(f'<g transform="rotate(-90 14 {middle})">{text(14, middle, y_label, "label")}</g>')
    return parts


def svg(parts: Sequence[str], title: str, height: float = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(title)}">'
        f"<title>{html.escape(title)}</title>{''.join(parts)}</svg>"
    )


def lines(
    series: Sequence[Line], title: str, x_label: str, y_label: str, y_range: tuple[float, float] | None = None
) -> str:
    """Draws all series in one plot; x begins at 0, y at a given value or a little below the lowest point."""
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points]
    margin = (max(ys) - min(ys)) * 0.05 or 1.0
    low, high = y_range or (min(ys) - margin, max(ys) + margin)
    x = Scale(0, max(xs), LEFT, WIDTH - RIGHT)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = frame(x, y, x_label, y_label)
    for index, line in enumerate(series):
        points = " ".join(f"{x(px):.1f},{y(py):.1f}" for px, py in line.points)
        parts.append(f'<polyline points="{points}" class="line series-{index}"/>')
    return svg(parts, title)


BAR_HEIGHT, BAR_GAP, BAR_NAMES, BAR_WORDS = 26, 12, 150, 160
HEAD_HEIGHT, LINE_HEIGHT, LEFT_OF_TEXT = 36, 18, 16


def bars(names: Sequence[str], values: Sequence[float], written: Sequence[str], title: str) -> str:
    """Draws bars, one below the other, each with its name on the left and its figure on the right."""
    return svg(_bars(names, values, written), title, len(names) * (BAR_HEIGHT + BAR_GAP))


def standalone_bars(
    names: Sequence[str], values: Sequence[float], written: Sequence[str], title: str, below: Sequence[str], style: str
) -> str:
    """The same as a file of its own: the title above, lines of text below, and the style that a page would bring."""
    height = HEAD_HEIGHT + len(names) * (BAR_HEIGHT + BAR_GAP) + LINE_HEIGHT * len(below) + BAR_GAP
    parts = [
        f"<style>{style}</style><title>{html.escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="var(--card)"/>',
        text(LEFT_OF_TEXT, HEAD_HEIGHT - 12, title, "figure", "start"),
        f'<g transform="translate(0 {HEAD_HEIGHT})">{"".join(_bars(names, values, written))}</g>',
        *(
            text(LEFT_OF_TEXT, height - BAR_GAP - LINE_HEIGHT * number, line, "label", "start")
            for number, line in enumerate(reversed(below))
        ),
    ]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{"".join(parts)}</svg>\n'


def _bars(names: Sequence[str], values: Sequence[float], written: Sequence[str]) -> list[str]:
    room = WIDTH - BAR_NAMES - BAR_WORDS
    parts = []
    for index, (name, value, figure) in enumerate(zip(names, values, written, strict=True)):
        top = index * (BAR_HEIGHT + BAR_GAP) + BAR_GAP / 2
        width = max(1.0, room * value / max(values))
        middle = top + BAR_HEIGHT / 2 + 4
        parts.append(text(BAR_NAMES - 8, middle, name, "label", "end"))
        place = f'x="{BAR_NAMES}" y="{top:.1f}" width="{width:.1f}" height="{BAR_HEIGHT}"'
        parts.append(f'<rect {place} class="bar series-{index}"/>')
        parts.append(text(BAR_NAMES + width + 8, middle, figure, "figure", "start"))
    return parts
