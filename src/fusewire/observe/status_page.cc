// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/status_page.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "fusewire/observe/json.h"

namespace fusewire::observe {
namespace {

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
  json->Key("now_ns").Signed(facts.now_ns);
  json->Key("begun_ns").Signed(facts.begun_ns);
  char time[32];
  std::snprintf(time, sizeof(time), "%.6f", facts.time_s);
  json->Key("time").Raw(time);
  json->Key("tasks").Open('[');
  for (const TaskFacts& task : facts.tasks) {
    json->Open('{');
    json->Key("task").Text(task.task);
    json->Key("protocol").Text(task.protocol);
    json->Key("data_port").Number(task.data_port);
    json->Key("members").Open('{');
    for (const auto& [name, address] : task.members) json->Key(name).Text(address);
    json->Close('}');
    json->Close('}');
  }
  json->Close(']');
}

void WriteWho(const Tag& tag, JsonWriter* json) {
  json->Key("kind").Text(KindName(tag.kind));
  json->Key("task").Text(tag.task);
  json->Key("peer").Text(tag.peer);
  json->Key("name").Text(tag.name);
}

void WriteOpen(Recorder& recorder, const Facts& facts, const std::vector<Seen>& open, JsonWriter* json) {
  json->Key("open_total").Number(open.size());
  json->Key("open").Open('[');
  for (size_t i = 0; i < std::min(open.size(), kOpenShown); ++i) {
    const Seen& seen = open[i];
    json->Open('{');
    WriteWho(recorder.tags().at(seen.tag), json);
    json->Key("step").Signed(seen.step);
    json->Key("age_ns").Signed(std::max<int64_t>(0, facts.now_ns - seen.begun_ns));
    json->Key("landed").Bool(seen.landed_ns != 0);
    json->Key("flow").Text(std::to_string(seen.flow));
    json->Close('}');
  }
  json->Close(']');
}

// One row for each kind of operation with each peer.
void WriteLines(Recorder& recorder, const Facts& facts, const std::vector<Seen>& open, JsonWriter* json) {
  std::map<const Line*, std::pair<uint64_t, int64_t>> now;  // how many are open, and since when
  for (const Seen& seen : open) {
    auto& [count, since_ns] = now[recorder.tags().at(seen.tag).line];
    if (count++ == 0) since_ns = seen.begun_ns;  // they come oldest first
  }
  json->Key("lines").Open('[');
  for (const Line* line : recorder.tags().lines()) {
    const Spread::Counts spread = line->duration_ns.Read();
    const auto found = now.find(line);
    if (spread.count == 0 && found == now.end()) continue;
    json->Open('{');
    json->Key("kind").Text(KindName(line->kind));
    json->Key("task").Text(line->task);
    json->Key("peer").Text(line->peer);
    json->Key("count").Number(spread.count);
    json->Key("failed").Number(line->failed.load(std::memory_order_relaxed));
    json->Key("bytes").Number(line->bytes.load(std::memory_order_relaxed));
    json->Key("time_ns").Number(spread.sum);
    json->Key("p50_ns").Number(spread.Quantile(0.5));
    json->Key("p99_ns").Number(spread.Quantile(0.99));
    json->Key("max_ns").Number(spread.max);
    json->Key("open").Number(found == now.end() ? 0 : found->second.first);
    json->Key("oldest_ns").Signed(found == now.end() ? 0 : std::max<int64_t>(0, facts.now_ns - found->second.second));
    json->Close('}');
  }
  json->Close(']');
}

void WriteNames(Recorder& recorder, JsonWriter* json) {
  struct Row {
    uint32_t tag;
    uint64_t bytes, time_ns;
  };
  std::vector<Row> rows;
  for (uint32_t i = 0; i < recorder.tags().size(); ++i) {
    const Tag& tag = recorder.tags().at(i);
    if (tag.count.load(std::memory_order_relaxed) == 0) continue;
    rows.push_back({i, tag.bytes.load(std::memory_order_relaxed), tag.time_ns.load(std::memory_order_relaxed)});
  }
  std::set<uint32_t> shown;
  for (const bool by_bytes : {true, false}) {
    std::sort(rows.begin(), rows.end(),
              [by_bytes](const Row& a, const Row& b) { return by_bytes ? a.bytes > b.bytes : a.time_ns > b.time_ns; });
    for (size_t i = 0; i < std::min(rows.size(), kNamesShown); ++i) shown.insert(rows[i].tag);
  }
  json->Key("names_total").Number(rows.size());
  json->Key("names").Open('[');
  for (const uint32_t number : shown) {
    const Tag& tag = recorder.tags().at(number);
    json->Open('{');
    WriteWho(tag, json);
    json->Key("count").Number(tag.count.load(std::memory_order_relaxed));
    json->Key("bytes").Number(tag.bytes.load(std::memory_order_relaxed));
    json->Key("time_ns").Number(tag.time_ns.load(std::memory_order_relaxed));
    json->Close('}');
  }
  json->Close(']');
}

}  // namespace

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
  // Since when nothing has ended: a task whose program is elsewhere has nothing open, and this grows.
  std::map<const Line*, int64_t> last;
  for (const Seen& seen : all) {
    if (seen.is_open) continue;
    int64_t& ended_ns = last[recorder.tags().at(seen.tag).line];
    ended_ns = std::max(ended_ns, seen.ended_ns);
  }
  json.Key("last").Open('[');
  for (const auto& [line, ended_ns] : last) {
    json.Open('{');
    json.Key("kind").Text(KindName(line->kind));
    json.Key("task").Text(line->task);
    json.Key("peer").Text(line->peer);
    json.Key("age_ns").Signed(std::max<int64_t>(0, facts.now_ns - ended_ns));
    json.Close('}');
  }
  json.Close(']');
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
    WriteWho(recorder.tags().at(number), &json);
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
