// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/metrics_page.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

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

struct LineNow {
  const Line* line = nullptr;
  Spread::Counts spread;
  uint64_t open = 0;
  int64_t since_ns = 0;
};

std::vector<LineNow> ReadLines(Recorder& recorder) {
  std::map<const Line*, LineNow> all;
  for (const Seen& seen : recorder.Read()) {
    if (!seen.is_open) continue;
    const Line* line = recorder.tags().at(seen.tag).line;
    LineNow& now = all[line];
    if (now.open++ == 0 || seen.begun_ns < now.since_ns) now.since_ns = seen.begun_ns;
  }
  std::vector<LineNow> lines;
  for (const Line* line : recorder.tags().lines()) {
    LineNow now = all[line];
    now.line = line;
    now.spread = line->duration_ns.Read();
    if (now.spread.count > 0 || now.open > 0) lines.push_back(now);
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
      for (; bucket < Spread::kBuckets && Spread::UpperBound(bucket) < bound; ++bucket)
        below += now.spread.buckets[bucket];
      Row("fusewire_operation_seconds_bucket", labels + ",le=\"" + Seconds(static_cast<double>(bound)) + "\"",
          std::to_string(below), out);
    }
    Row("fusewire_operation_seconds_bucket", labels + ",le=\"+Inf\"", std::to_string(now.spread.count), out);
    Row("fusewire_operation_seconds_sum", labels, Seconds(static_cast<double>(now.spread.sum)), out);
    Row("fusewire_operation_seconds_count", labels, std::to_string(now.spread.count), out);
  }
}

}  // namespace

std::string MetricsText(Recorder& recorder, const Facts& facts) {
  const std::vector<LineNow> lines = ReadLines(recorder);
  std::string text;
  About("fusewire_info", "1, with the version as a label.", "gauge", &text);
  Row("fusewire_info", "version=" + Quoted(facts.version), "1", &text);
  About("fusewire_task", "1 for each task of a cluster in this process.", "gauge", &text);
  for (const TaskFacts& task : facts.tasks)
    Row("fusewire_task", "task=" + Quoted(task.task) + ",protocol=" + Quoted(task.protocol), "1", &text);
  About("fusewire_recorded_seconds", "Time since recording began.", "gauge", &text);
  Row("fusewire_recorded_seconds", "", Seconds(static_cast<double>(facts.now_ns - facts.begun_ns)), &text);
  WriteDurations(lines, &text);
  About("fusewire_operation_bytes_total", "Bytes of tensors in operations that have ended.", "counter", &text);
  for (const LineNow& now : lines)
    Row("fusewire_operation_bytes_total", LabelsOf(*now.line),
        std::to_string(now.line->bytes.load(std::memory_order_relaxed)), &text);
  About("fusewire_operation_failures_total", "Operations that have ended with an error.", "counter", &text);
  for (const LineNow& now : lines)
    Row("fusewire_operation_failures_total", LabelsOf(*now.line),
        std::to_string(now.line->failed.load(std::memory_order_relaxed)), &text);
  About("fusewire_operations_open", "Operations that have begun and not ended.", "gauge", &text);
  for (const LineNow& now : lines)
    Row("fusewire_operations_open", LabelsOf(*now.line), std::to_string(now.open), &text);
  About("fusewire_operation_oldest_seconds", "Age of the oldest operation that has not ended; 0 without one.", "gauge",
        &text);
  for (const LineNow& now : lines) {
    const int64_t age_ns = now.open == 0 ? 0 : std::max<int64_t>(0, facts.now_ns - now.since_ns);
    Row("fusewire_operation_oldest_seconds", LabelsOf(*now.line), Seconds(static_cast<double>(age_ns)), &text);
  }
  About("fusewire_operations_unrecorded_total", "Operations for which the ring had no room.", "counter", &text);
  Row("fusewire_operations_unrecorded_total", "", std::to_string(recorder.unrecorded()), &text);
  for (const Number& number : facts.numbers) {
    const std::string name = "fusewire_" + number.name + (number.is_gauge ? "" : "_total");
    About(name, number.help, number.is_gauge ? "gauge" : "counter", &text);
    Row(name, "", std::to_string(number.value), &text);
  }
  return text;
}

}  // namespace fusewire::observe
