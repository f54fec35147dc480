// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/history.h"

#include <algorithm>

#include "fusewire/observe/json.h"

namespace fusewire::observe {

// As `fusewire top` counts them: a worker's own steps if its program makes them here, else those that masters ask of
// it.
void History::Add(Recorder& recorder, const std::vector<Number>& numbers, int64_t now_ns) {
  Sample sample;
  sample.now_ns = now_ns;
  uint64_t sessions = 0, parts = 0, collectives = 0;
  for (const Line* line : recorder.tags().lines()) {
    const uint64_t bytes = line->bytes.Read();
    const uint64_t given = std::min(bytes, line->bytes_given.Read());  // it may be newer
    switch (line->kind) {
      case Kind::kSession: sessions += line->duration_ns.Read().count; break;
      case Kind::kStep: parts += line->duration_ns.Read().count; break;
      case Kind::kReceive:
      case Kind::kRunOut:
        sample.bytes_in += bytes - given;
        sample.bytes_out += given;
        break;
      case Kind::kProvide:
      case Kind::kRunIn:
        sample.bytes_out += bytes - given;
        sample.bytes_in += given;
        break;
      case Kind::kCall:
      case Kind::kCollective: break;
    }
  }
  for (const Number& number : numbers) {
    if (number.name == "collectives") collectives = number.value;
    if (number.name != "collective_bytes") continue;
    sample.bytes_in += number.value;
    sample.bytes_out += number.value;
  }
  sample.steps = sessions != 0 ? sessions : parts != 0 ? parts : collectives;
  samples_.push_back(sample);
  if (samples_.size() > kSamplesMax) samples_.pop_front();
}

std::string History::Json() const {
  std::string text;
  JsonWriter json(&text);
  json.Open('{');
  json.Key("columns").Raw(R"(["now_ns","steps","bytes_in","bytes_out"])");
  json.Key("history").Open('[');
  for (const Sample& sample : samples_) {
    json.Open('[');
    json.Signed(sample.now_ns);
    for (const uint64_t total : {sample.steps, sample.bytes_in, sample.bytes_out}) json.Number(total);
    json.Close(']');
  }
  json.Close(']');
  json.Close('}');
  return text + '\n';
}

}  // namespace fusewire::observe
