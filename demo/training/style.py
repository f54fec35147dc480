# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""The look of the demos' pages and pictures, in light and dark mode."""

COLOURS = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1c2330; --quiet: #5b6575; --rule: #d9dee6; --card: #f6f8fa;
  --series-0: #7b8494; --series-1: #1769c2; --series-2: #c8590b; --series-3: #2a7f4f; }
@media (prefers-color-scheme: dark) { :root { --page: #12161d; --text: #e6eaf0; --quiet: #9aa5b5; --rule: #2d3542;
  --card: #1a202a; --series-0: #8f99a8; --series-1: #5aa5f5; --series-2: #f39a4a; --series-3: #58b981; } }
svg text { font: 12px system-ui, sans-serif; fill: var(--quiet); }
svg text.figure { fill: var(--text); font-weight: 600; }
""" + "".join(
    f".line.series-{n} {{ stroke: var(--series-{n}); }} .bar.series-{n}, .swatch.series-{n} "
    f"{{ fill: var(--series-{n}); background: var(--series-{n}); }}\n"
    for n in range(4)
)

STYLE = (
    COLOURS
    + """
body { margin: 0 auto; max-width: 1180px; padding: 32px 24px 64px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0 0 8px; }
p { margin: 0 0 16px; max-width: 78ch; } .quiet { color: var(--quiet); }
.legend { color: var(--quiet); font-size: 13px; display: flex; flex-wrap: wrap; gap: 4px 16px; margin-bottom: 6px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 16px 0 28px; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 16px 6px 0; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; }
td .ratio { color: var(--quiet); display: inline-block; min-width: 4.5em; }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.grid-2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 20px; }
figure { margin: 0; padding: 16px 16px 12px; background: var(--card);
  border: 1px solid var(--rule); border-radius: 8px; }
figcaption { color: var(--quiet); font-size: 13px; }
svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--rule); } .axis { stroke: var(--quiet); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
"""
)
