// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/page.h"

namespace fusewire::observe {
namespace {

// Every text of a task goes into the page as text, never as markup.
constexpr std::string_view kPage = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Fusewire</title>
<meta name="viewport" content="width=device-width">
<style>
  :root { color-scheme: light dark; --line: #8884; --quiet: #888; --bad: #c33; --good: #293; }
  body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem; max-width: 75rem; }
  h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
  th, td { text-align: right; padding: .15rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
  th { color: var(--quiet); font-weight: normal; }
  td.text, th.text { text-align: left; overflow: hidden; text-overflow: ellipsis; max-width: 28rem; }
  .bad { color: var(--bad); } .good { color: var(--good); } .quiet { color: var(--quiet); }
</style></head><body>
<h1>Fusewire <span id="tasks"></span> <small id="state" class="quiet">asks ...</small></h1>
<h2>Peers</h2><table id="peers"></table>
<h2>Open operations <small id="open_total" class="quiet"></small></h2><table id="open"></table>
<h2>Most bytes</h2><table id="most_bytes"></table>
<h2>Most time</h2><table id="most_time"></table>
<script>
"use strict";
const every_ms = 1000, rows_max = 12, old_ns = 2e9;
let before = null;
const by_id = (id) => document.getElementById(id);
function seconds(ns) {
  if (ns < 1e6) return (ns / 1e3).toFixed(0) + " us";
  if (ns < 1e9) return (ns / 1e6).toFixed(1) + " ms";
  return (ns / 1e9).toFixed(1) + " s";
}
function amount(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000) return count.toFixed(unit === "B" ? 0 : 1) + " " + unit;
    count /= 1000;
  }
  return count.toFixed(1) + " TB";
}
function fill(id, heads, rows) {
  const table = by_id(id);
  table.replaceChildren();
  const put = (row, kind, text, style) => {
    const cell = document.createElement(kind);
    cell.textContent = text;
    cell.className = style;
    if (style === "text") cell.title = text;
    row.append(cell);
  };
  const top = table.insertRow();
  heads.forEach((head, i) => put(top, "th", head, i < 3 ? "text" : ""));
  for (const row of rows) {
    const line = table.insertRow();
    row.forEach((cell, i) => {
      const old = typeof cell === "object";
      put(line, "td", old ? cell.text : cell, i < 3 ? "text" : old && cell.bad ? "bad" : "");
    });
  }
}
const key_of = (row) => JSON.stringify([row.kind, row.task, row.peer, row.name]);
function since(rows, old_rows) {
  const old = new Map((old_rows || []).map((row) => [key_of(row), row]));
  return rows.map((row) => {
    const then = old.get(key_of(row)) || { count: 0, bytes: 0, time_ns: 0 };
    const [count, bytes] = [row.count - then.count, row.bytes - then.bytes];
    return { ...row, count, bytes, time_ns: row.time_ns - then.time_ns };
  });
}
const age = (ns) => ({ text: ns ? seconds(ns) : "-", bad: ns > old_ns });
function show(now) {
  const over_s = before && before.pid === now.pid ? (now.now_ns - before.now_ns) / 1e9 : 0;
  const rate = (value) => (over_s > 0 ? value / over_s : 0);
  by_id("tasks").textContent = now.tasks.map((task) => task.task + " over " + task.protocol).join(", ");
  document.title = "Fusewire " + now.tasks.map((task) => task.task).join(", ");
  by_id("state").textContent = "version " + now.fusewire + ", process " + now.pid;
  const lines = since(now.lines, over_s > 0 ? before.lines : now.lines);
  fill("peers", ["operation", "task", "peer", "per second", "bytes/s", "p50", "p99", "failed", "open", "oldest"],
    lines.map((row) => [row.kind, row.task, row.peer, rate(row.count).toFixed(1), amount(rate(row.bytes)),
      seconds(row.p50_ns), seconds(row.p99_ns), String(row.failed), String(row.open), age(row.oldest_ns)]));
  by_id("open_total").textContent = String(now.open_total);
  fill("open", ["operation", "peer", "name", "step", "age"], now.open.slice(0, rows_max).map((row) =>
    [row.kind, row.peer, row.name, String(row.step), age(row.age_ns)]));
  const names = since(now.names, over_s > 0 ? before.names : now.names);
  for (const [id, field] of [["most_bytes", "bytes"], ["most_time", "time_ns"]]) {
    const most = [...names].sort((a, b) => b[field] - a[field]).slice(0, rows_max);
    fill(id, ["operation", "peer", "name", "per second", "bytes/s", "time/s"], most.map((row) => [row.kind, row.peer,
      row.name, rate(row.count).toFixed(1), amount(rate(row.bytes)), seconds(rate(row.time_ns))]));
  }
  before = now;
}
async function turn() {
  const state = by_id("state");
  try {
    const answer = await fetch("status.json", { signal: AbortSignal.timeout(3000) });
    if (!answer.ok) throw new Error(await answer.text());
    show(await answer.json());
    state.className = "good";
  } catch (error) {
    state.className = "bad";
    state.textContent = "no answer: " + error.message;
  }
  setTimeout(turn, every_ms);
}
turn();
</script></body></html>
)page";

}  // namespace

std::string_view Page() { return kPage; }

}  // namespace fusewire::observe
