// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/status_page.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <span>

namespace fusewire::observe {

namespace {

constexpr int kBoundPowerMin = 14, kBoundPowerMax = 36;  // of the histogram, in ns: 16 us to 69 s, each four times the
constexpr int kBoundPowers = 2;                          // one before

void About(std::string_view name, std::string_view help, std::string_view type, std::string* out) {
  out->append("# HELP ").append(name).append(" ").append(help).append("\n");
  out->append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

std::string Quoted(std::string_view value) {
  std::string text = "\"";
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    if (letter == '\n') {
      text += "\\n";
    } else {
      // Labels are UTF-8, and names of tasks are ASCII; what is neither becomes a question mark.
      text += static_cast<unsigned char>(letter) < 0x80 ? letter : '?';
    }
  }
  return text + "\"";
}

std::string Seconds(double ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", ns / 1e9);
  return text;
}

std::string LabelsOf(const Line& line) {
  return std::string("kind=\"") + KindName(line.kind) + "\",task=" + Quoted(line.task) + ",peer=" + Quoted(line.peer);
}

void Row(std::string_view name, const std::string& labels, const std::string& value, std::string* out) {
  out->append(name);
  if (!labels.empty()) out->append("{").append(labels).append("}");
  out->append(" ").append(value).append("\n");
}

// A metric with one row.
void Single(std::string_view name, std::string_view help, std::string_view type, const std::string& labels,
            const std::string& value, std::string* out) {
  About(name, help, type, out);
  Row(name, labels, value, out);
}

struct LineNow {
  // Of the oldest operation that has not ended; 0 without one.
  int64_t AgeNs(int64_t now_ns) const { return open == 0 ? 0 : std::max<int64_t>(0, now_ns - since_ns); }

  const Line* line = nullptr;
  HistogramSnapshot durations;
  SharedHistogram::Counts counts;
  uint64_t open = 0;
  int64_t since_ns = 0;
};

// Those of which an operation has begun. `all_seen`: at least all operations that have not ended.
std::vector<LineNow> ReadLines(Recorder& recorder, const std::vector<Seen>& all_seen) {
  std::map<const Line*, LineNow> all;
  for (const Seen& seen : all_seen) {
    if (!seen.is_open) continue;
    const Line* line = recorder.tags().at(seen.tag).line;
    LineNow& now = all[line];
    if (now.open++ == 0 || seen.begun_ns < now.since_ns) now.since_ns = seen.begun_ns;
  }
  std::vector<LineNow> lines;
  for (const Line* line : recorder.tags().lines()) {
    LineNow now = all[line];
    now.line = line;
    now.durations = line->duration_ns.Read(&now.counts);
    if (now.durations.count > 0 || now.open > 0) lines.push_back(now);
  }
  return lines;
}

void WriteDurations(const std::vector<LineNow>& lines, std::string* out) {
  About("fusewire_operation_seconds", "Duration of operations that have ended, by kind and peer.", "histogram", out);
  for (const LineNow& now : lines) {
    const std::string labels = LabelsOf(*now.line);
    uint64_t below = 0;
    size_t bucket = 0;
    for (int power = kBoundPowerMin; power <= kBoundPowerMax; power += kBoundPowers) {
      const uint64_t bound = uint64_t{1} << power;
      for (; bucket < SharedHistogram::kBuckets && SharedHistogram::UpperBound(bucket) < bound; ++bucket)
        below += now.counts[bucket];
      Row("fusewire_operation_seconds_bucket", labels + ",le=\"" + Seconds(static_cast<double>(bound)) + "\"",
          std::to_string(below), out);
    }
    Row("fusewire_operation_seconds_bucket", labels + ",le=\"+Inf\"", std::to_string(now.durations.count), out);
    Row("fusewire_operation_seconds_sum", labels, Seconds(static_cast<double>(now.durations.sum)), out);
    Row("fusewire_operation_seconds_count", labels, std::to_string(now.durations.count), out);
  }
}

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
  #rates { display: flex; gap: 1.5rem; } figure { flex: 1; margin: 0; } figcaption { margin-bottom: .2rem; }
  svg { width: 100%; height: 4rem; border-bottom: 1px solid var(--line); }
  polyline { fill: none; stroke: var(--good); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
  .bad { color: var(--bad); } .good { color: var(--good); } .quiet { color: var(--quiet); }
</style></head><body>
<h1>Fusewire <span id="tasks"></span> <small id="state" class="quiet">asks ...</small></h1>
<h2>Last minutes</h2><div id="rates"></div>
<h2>Peers</h2><table id="peers"></table>
<h2>Open operations <small id="open_total" class="quiet"></small></h2><table id="open"></table>
<h2>Most bytes</h2><table id="most_bytes"></table>
<h2>Most time</h2><table id="most_time"></table>
<script>
"use strict";
const every_ms = 1000, rows_max = 12, old_ns = 2e9, shown_ns_min = 60e9, wide = 300, high = 60;
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
// A curve for each column of /history.json, whose rows are totals at a time: at most the last five minutes.
function draw(rows, counted) {
  const last_ns = rows.length ? rows[rows.length - 1][0] : 0;
  const shown_ns = rows.length ? Math.max(shown_ns_min, last_ns - rows[0][0]) : shown_ns_min;
  const per_second = (count) => count.toFixed(count < 10 ? 1 : 0) + "/s";
  const bytes = (count) => amount(count) + "/s";
  const curves = [[counted, per_second], ["bytes in", bytes], ["bytes out", bytes]].map(([title, text], i) => {
    const rates = rows.slice(1).map((row, j) =>
      Math.max(0, row[i + 1] - rows[j][i + 1]) / (row[0] - rows[j][0]) * 1e9);
    const most = Math.max(...rates, 1e-9);
    const points = rates.map((rate, j) => {
      const x = wide * (1 - (last_ns - rows[j + 1][0]) / shown_ns);
      return x.toFixed(1) + "," + (high - 1 - rate / most * (high - 2)).toFixed(1);
    });
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const now = rates.length ? text(rates[rates.length - 1]) + ", at most " + text(most < 1e-6 ? 0 : most) : "-";
    caption.textContent = title + ": " + now;
    const make = (kind) => document.createElementNS("http://www.w3.org/2000/svg", kind);
    const svg = make("svg"), line = make("polyline");
    svg.setAttribute("viewBox", "0 0 " + wide + " " + high);
    svg.setAttribute("preserveAspectRatio", "none");
    line.setAttribute("points", points.join(" "));
    svg.append(line);
    figure.append(caption, svg);
    return figure;
  });
  by_id("rates").replaceChildren(...curves);
}
const age = (ns) => ({ text: ns ? seconds(ns) : "-", bad: ns > old_ns });
function show(now) {
  const over_s = before && before.pid === now.pid ? (now.now_ns - before.now_ns) / 1e9 : 0;
  const rate = (value) => (over_s > 0 ? value / over_s : 0);
  by_id("tasks").textContent = now.tasks.map((task) => task.task + " over " + task.protocol).join(", ");
  document.title = "Fusewire " + now.tasks.map((task) => task.task).join(", ");
  const cpu = over_s > 0 ? (now.cpu_ns - before.cpu_ns) / 1e7 / over_s : 0;
  by_id("state").textContent = "version " + now.fusewire + ", process " + now.pid + ", processor " + cpu.toFixed(0) +
    " %, memory " + amount(now.memory_bytes);
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
async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(3000) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
async function turn() {
  const state = by_id("state");
  try {
    const now = await ask("status.json");
    show(now);
    const is_rank = now.tasks.length > 0 && now.tasks[0].protocol === "collective";
    draw((await ask("history.json")).history, is_rank ? "calls" : "steps");
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

std::vector<Seen> OpenOf(const std::vector<Seen>& all) {
  std::vector<Seen> open;
  for (const Seen& seen : all) {
    if (seen.is_open) open.push_back(seen);
  }
  std::sort(open.begin(), open.end(), [](const Seen& a, const Seen& b) { return a.begun_ns < b.begun_ns; });
  return open;
}

void WriteProcess(const Facts& facts, JsonWriter* json) {
  json->Key("fusewire").Text(facts.version);
  json->Key("pid").Signed(facts.pid);
  json->Key("start").Number(facts.start);
  json->Key("machine").Text(facts.machine);
  json->Key("cpu_ns").Number(facts.cpu_ns);
  json->Key("memory_bytes").Number(facts.memory_bytes);
  json->Key("now_ns").Signed(facts.now_ns);
  json->Key("begun_ns").Signed(facts.begun_ns);
  char time[32];
  std::snprintf(time, sizeof(time), "%.6f", facts.time_s);
  json->Key("time").Raw(time);
  size_t number = 0;
  json->Key("tasks").Objects(facts.tasks, [&](const TaskFacts& task) {
    json->Key("task").Text(task.task);
    json->Key("protocol").Text(task.protocol);
    json->Key("data_port").Number(task.data_port);
    WriteMembers(facts.tasks, number++, json);
  });
}

// Of a line or a tag.
template <class Counted>
void WriteWho(const Counted& counted, JsonWriter* json) {
  json->Key("kind").Text(KindName(counted.kind));
  json->Key("task").Text(counted.task);
  json->Key("peer").Text(counted.peer);
}

void WriteTag(const Tag& tag, JsonWriter* json) {
  WriteWho(tag, json);
  json->Key("name").Text(tag.name);
}

void WriteOpen(Recorder& recorder, const Facts& facts, const std::vector<Seen>& open, JsonWriter* json) {
  json->Key("open_total").Number(open.size());
  json->Key("open").Objects(std::span(open).first(std::min(open.size(), kOpenShown)), [&](const Seen& seen) {
    WriteTag(recorder.tags().at(seen.tag), json);
    json->Key("step").Signed(seen.step);
    json->Key("age_ns").Signed(std::max<int64_t>(0, facts.now_ns - seen.begun_ns));
    json->Key("landed").Bool(seen.landed_ns != 0);
    json->Key("flow").Text(std::to_string(seen.flow));
  });
}

// One row for each kind of operation with each peer.
void WriteLines(Recorder& recorder, const Facts& facts, const std::vector<Seen>& open, JsonWriter* json) {
  json->Key("lines").Objects(ReadLines(recorder, open), [&](const LineNow& now) {
    const Line* const line = now.line;
    const HistogramSnapshot& durations = now.durations;
    WriteWho(*line, json);
    json->Key("count").Number(durations.count);
    json->Key("failed").Number(line->failed.Read());
    json->Key("bytes").Number(line->bytes.Read());
    json->Key("bytes_given").Number(line->bytes_given.Read());
    json->Key("time_ns").Number(durations.sum);
    json->Key("p50_ns").Number(durations.p50);
    json->Key("p99_ns").Number(durations.p99);
    json->Key("max_ns").Number(durations.max);
    json->Key("open").Number(now.open);
    json->Key("oldest_ns").Signed(now.AgeNs(facts.now_ns));
  });
}

void WriteNames(Recorder& recorder, JsonWriter* json) {
  struct Row {
    uint32_t tag;
    uint64_t bytes, time_ns;
  };
  std::vector<Row> rows;
  for (uint32_t i = 0; i < recorder.tags().size(); ++i) {
    const Tag& tag = recorder.tags().at(i);
    if (tag.count.Read() == 0) continue;
    rows.push_back({i, tag.bytes.Read(), tag.time_ns.Read()});
  }
  std::set<uint32_t> shown;
  for (const bool by_bytes : {true, false}) {
    std::sort(rows.begin(), rows.end(),
              [by_bytes](const Row& a, const Row& b) { return by_bytes ? a.bytes > b.bytes : a.time_ns > b.time_ns; });
    for (size_t i = 0; i < std::min(rows.size(), kNamesShown); ++i) shown.insert(rows[i].tag);
  }
  json->Key("names_total").Number(rows.size());
  json->Key("names").Objects(shown, [&](uint32_t number) {
    const Tag& tag = recorder.tags().at(number);
    WriteTag(tag, json);
    json->Key("count").Number(tag.count.Read());
    json->Key("bytes").Number(tag.bytes.Read());
    json->Key("time_ns").Number(tag.time_ns.Read());
  });
}

}  // namespace

void WriteMembers(const std::vector<TaskFacts>& tasks, size_t task, JsonWriter* json) {
  json->Key("members").Open('{');
  if (task == 0 || tasks[task - 1].members != tasks[task].members) {
    for (const auto& [name, address] : *tasks[task].members) json->Key(name).Text(address);
  }
  json->Close('}');
}

std::string MetricsText(Recorder& recorder, const Facts& facts) {
  const std::vector<LineNow> lines = ReadLines(recorder, recorder.Read());
  std::string text;
  Single("fusewire_info", "1, with the version as a label.", "gauge", "version=" + Quoted(facts.version), "1", &text);
  About("fusewire_task", "1 for each task of a cluster in this process.", "gauge", &text);
  for (const TaskFacts& task : facts.tasks)
    Row("fusewire_task", "task=" + Quoted(task.task) + ",protocol=" + Quoted(task.protocol), "1", &text);
  Single("fusewire_recorded_seconds", "Time since recording began.", "gauge", "",
         Seconds(static_cast<double>(facts.now_ns - facts.begun_ns)), &text);
  Single("fusewire_process_cpu_seconds_total", "Processor time of this process.", "counter", "",
         Seconds(static_cast<double>(facts.cpu_ns)), &text);
  Single("fusewire_process_memory_bytes", "Memory of this process that is resident.", "gauge", "",
         std::to_string(facts.memory_bytes), &text);
  WriteDurations(lines, &text);
  const auto each_line = [&](std::string_view name, std::string_view help, std::string_view type, auto value_of) {
    About(name, help, type, &text);
    for (const LineNow& now : lines) Row(name, LabelsOf(*now.line), value_of(now), &text);
  };
  each_line("fusewire_operation_bytes_total", "Bytes of tensors in operations that have ended.", "counter",
            [](const LineNow& now) { return std::to_string(now.line->bytes.Read()); });
  each_line("fusewire_operation_failures_total", "Operations that have ended with an error.", "counter",
            [](const LineNow& now) { return std::to_string(now.line->failed.Read()); });
  each_line("fusewire_operations_open", "Operations that have begun and not ended.", "gauge",
            [](const LineNow& now) { return std::to_string(now.open); });
  each_line("fusewire_operation_oldest_seconds", "Age of the oldest operation that has not ended; 0 without one.",
            "gauge", [&](const LineNow& now) { return Seconds(static_cast<double>(now.AgeNs(facts.now_ns))); });
  Single("fusewire_operations_unrecorded_total", "Operations for which the ring had no room.", "counter", "",
         std::to_string(recorder.unrecorded()), &text);
  for (const Number& number : facts.numbers)
    Single("fusewire_" + number.name + (number.is_gauge ? "" : "_total"), number.help,
           number.is_gauge ? "gauge" : "counter", "", std::to_string(number.value), &text);
  return text;
}

std::string_view Page() { return kPage; }

std::string StatusJson(Recorder& recorder, const Facts& facts) {
  const std::vector<Seen> all = recorder.Read(), open = OpenOf(all);
  std::string text;
  JsonWriter json(&text);
  json.Open('{');
  WriteProcess(facts, &json);
  WriteLines(recorder, facts, open, &json);
  WriteOpen(recorder, facts, open, &json);
  WriteNames(recorder, &json);
  json.Key("numbers").Open('{');
  for (const Number& number : facts.numbers) json.Key(number.name).Number(number.value);
  json.Close('}');
  json.Key("unrecorded").Number(recorder.unrecorded());
  // When an operation ended last: while the task's program does something else, nothing is open, and only this tells.
  std::map<const Line*, int64_t> last;
  for (const Seen& seen : all) {
    if (seen.is_open) continue;
    int64_t& ended_ns = last[recorder.tags().at(seen.tag).line];
    ended_ns = std::max(ended_ns, seen.ended_ns);
  }
  json.Key("last").Objects(last, [&](const auto& ended) {
    WriteWho(*ended.first, &json);
    json.Key("age_ns").Signed(std::max<int64_t>(0, facts.now_ns - ended.second));
  });
  json.Close('}');
  text += '\n';
  return text;
}

std::string RingJson(Recorder& recorder, const Facts& facts, int64_t after_ns) {
  std::vector<Seen> shown;
  for (const Seen& seen : recorder.Read()) {
    if (seen.is_open || seen.ended_ns > after_ns) shown.push_back(seen);
  }
  std::sort(shown.begin(), shown.end(), [](const Seen& a, const Seen& b) { return a.begun_ns < b.begun_ns; });
  if (shown.size() > kRingShown) shown.erase(shown.begin(), shown.end() - static_cast<std::ptrdiff_t>(kRingShown));
  std::string text;
  JsonWriter json(&text);
  json.Open('{');
  WriteProcess(facts, &json);
  // The operations as rows of numbers, and the names that they use: a tenth of the bytes.
  std::set<uint32_t> used;
  for (const Seen& seen : shown) used.insert(seen.tag);
  json.Key("tags").Open('{');
  for (const uint32_t number : used) {
    json.Key(std::to_string(number)).Open('{');
    WriteTag(recorder.tags().at(number), &json);
    json.Close('}');
  }
  json.Close('}');
  json.Key("columns").Raw(R"(["id","tag","open","failed","step","bytes","begun_ns","landed_ns","ended_ns","flow"])");
  json.Key("ring").Open('[');
  for (const Seen& seen : shown) {
    json.Open('[');
    json.Number(seen.id);
    json.Number(seen.tag);
    json.Number(seen.is_open ? 1 : 0);
    json.Number(seen.end == End::kOk ? 0 : 1);
    json.Signed(seen.step);
    json.Number(seen.bytes);
    json.Signed(seen.begun_ns);
    json.Signed(seen.landed_ns);
    json.Signed(seen.ended_ns);
    json.Text(std::to_string(seen.flow));
    json.Close(']');
  }
  json.Close(']');
  json.Close('}');
  text += '\n';
  return text;
}

}  // namespace fusewire::observe
