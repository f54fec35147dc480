// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/replay/record.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

constexpr size_t kMagicBytes = 8;

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  // A running worker may have written only a part of its last record.
  bool ok() const { return ok_; }

  uint8_t Byte() { return Has(1) ? static_cast<uint8_t>(text_[at_++]) : 0; }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  uint64_t Fixed64() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 8) value |= static_cast<uint64_t>(Byte()) << shift;
    return value;
  }
  std::string Text() { return Take(Varint()); }
  std::string Take(uint64_t size) {
    if (!Has(size)) return std::string();
    std::string taken = text_.substr(at_, size);
    at_ += size;
    return taken;
  }

 private:
  bool Has(uint64_t size) {
    ok_ = ok_ && size <= text_.size() - at_;
    return ok_;
  }

  const std::string& text_;
  size_t at_ = 0;
  bool ok_ = true;
};

void AppendText(const std::string& text, std::string* out) {
  size_t size = text.size();
  for (; size >= 0x80; size >>= 7) out->push_back(static_cast<char>(size | 0x80));
  out->push_back(static_cast<char>(size));
  out->append(text);
}

struct Run {
  uint64_t number = 0;
  RecordedRun run;
};

// All messages to one server.
struct Talk {
  std::map<uint64_t, std::string> places;     // by a part's number
  std::map<uint64_t, std::vector<Run>> runs;  // by a step's number
  size_t calls = 0;
};
using Talks = std::map<std::string, Talk>;

bool ReadOne(Reader* reader, Talks* talks) {
  const uint8_t kind = reader->Byte();
  const std::string address = reader->Text();
  const uint64_t number = reader->Fixed64();
  if (kind == kPlacePart) {
    std::string head;
    AppendText(reader->Text(), &head);  // session
    AppendText(reader->Text(), &head);  // fingerprint
    if (reader->ok()) (*talks)[address].places[number] = head;
    return reader->ok();
  }
  if (kind != kRunPart) return false;
  const std::string head = reader->Text();
  Reader numbers(head);
  numbers.Fixed64();
  const uint64_t step = numbers.Fixed64();
  Run run;
  run.number = number;
  run.run.rest = numbers.Take(head.size() - std::min<size_t>(head.size(), 16));
  for (uint64_t left = reader->Varint(); left > 0 && reader->ok(); --left) run.run.segments.push_back(reader->Text());
  if (!reader->ok() || !numbers.ok()) return false;
  Talk& talk = (*talks)[address];
  talk.runs[step].push_back(std::move(run));
  ++talk.calls;
  return true;
}

using Kind = std::vector<uint64_t>;

Kind KindOf(const std::vector<Run>& runs) {
  Kind kind;
  for (const Run& run : runs) kind.push_back(run.number);
  return kind;
}

Kind UsualKind(const Talk& talk) {
  std::map<Kind, size_t> counts;
  for (const auto& [_, runs] : talk.runs) ++counts[KindOf(runs)];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& left, const auto& right) { return left.second < right.second; })
      ->first;
}

}  // namespace

Record ReadRecord(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  Reader reader(text);
  if (!file || reader.Take(kMagicBytes) != "FWRECORD") Die(path + " is not a record of FUSEWIRE_STAR_RECORD");
  Talks talks;
  while (!reader.done() && ReadOne(&reader, &talks)) continue;
  const auto busiest = std::max_element(talks.begin(), talks.end(), [](const auto& left, const auto& right) {
    return left.second.calls < right.second.calls;
  });
  if (busiest == talks.end() || busiest->second.runs.empty()) Die(path + " has no complete step");

  Record record;
  record.address = busiest->first;
  Talk& talk = busiest->second;
  const Kind usual = UsualKind(talk);
  std::map<uint64_t, size_t> index;
  for (const uint64_t number : std::set<uint64_t>(usual.begin(), usual.end())) {
    if (talk.places.count(number) == 0) Die(path + " lacks the placing of part " + std::to_string(number));
    index[number] = record.parts.size();
    record.parts.push_back({number, talk.places[number]});
  }
  for (auto& [_, runs] : talk.runs) {
    if (KindOf(runs) != usual) continue;
    RecordedStep& step = record.steps.emplace_back();
    for (Run& run : runs) {
      run.run.part = index[run.number];
      step.push_back(std::move(run.run));
    }
  }
  return record;
}

}  // namespace fusewire::bench
