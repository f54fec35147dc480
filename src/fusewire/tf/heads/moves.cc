// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/moves.h"

#include <algorithm>

#include "fusewire/tf/heads/calls.h"

namespace fusewire::tf {
namespace {

constexpr size_t kMovedTextBytesMax = 1024;  // a name
constexpr size_t kMovedValueBytesMin = 12;   // in an encoding
constexpr uint64_t kPauseMsMax = 3600 * 1000;

}  // namespace

std::string EncodeHandOver(const HandOver& asked) {
  std::string out;
  AppendFixed64(&out, asked.taker);
  out.push_back(static_cast<char>(asked.want));
  return out;
}

Status DecodeHandOver(ConstBytes in, HandOver* asked) {
  VarReader reader(in);
  asked->taker = reader.Fixed64();
  const uint8_t want = reader.Byte();
  if (!reader.ok() || !reader.done()) return Status::Invalid("a request to hand a task over is cut off");
  if (want < static_cast<uint8_t>(MoveWant::kBegin) || want > static_cast<uint8_t>(MoveWant::kStop))
    return Status::Invalid("a request to hand a task over wants " + std::to_string(want) + ", which has no meaning");
  asked->want = static_cast<MoveWant>(want);
  return Status::Ok();
}

void AppendHandedOver(const HandedOver& answer, std::string* out) {
  out->push_back(static_cast<char>(answer.said));
  AppendVarint(out, answer.bytes);
}

Status DecodeHandedOver(VarReader* reader, HandedOver* answer) {
  const uint8_t said = reader->Byte();
  answer->bytes = reader->Varint();
  if (!reader->ok() || !reader->done())
    return Status::Corrupt("the answer of the server that hands a task over is cut off");
  if (said < static_cast<uint8_t>(MoveSaid::kBegun) || said > static_cast<uint8_t>(MoveSaid::kClosed))
    return Status::Corrupt("the server that hands a task over says " + std::to_string(said) + ", which has no meaning");
  answer->said = static_cast<MoveSaid>(said);
  return Status::Ok();
}

std::string EncodePart(const std::string& fingerprint, const std::string& request) {
  std::string out;
  AppendText(&out, fingerprint);
  return out + request;
}

Status DecodePart(ConstBytes in, ConstBytes* fingerprint, ConstBytes* request) {
  VarReader reader(in);
  *fingerprint = reader.Text();
  *request = reader.left();
  return reader.ok() ? Status::Ok() : Status::Corrupt("a part of a graph is cut off");
}

std::string EncodeKeptTensors(const std::vector<KeptTensor>& values) {
  std::string out;
  AppendVarint(&out, values.size());
  for (const KeptTensor& value : values) {
    AppendText(&out, value.session.ToString());
    AppendFixed64(&out, static_cast<uint64_t>(value.step));
    AppendVarint(&out, value.number);
    AppendVarint(&out, value.takers);
    AppendText(&out, reinterpret_cast<const char*>(value.tensor.data), value.tensor.size);
  }
  return out;
}

Status DecodeKeptTensors(ConstBytes in, std::vector<KeptTensor>* values) {
  VarReader reader(in);
  const uint64_t count = reader.Varint();
  values->clear();
  if (count > kMovedValuesMax || count > in.size / kMovedValueBytesMin)
    return Status::Corrupt("a task moves with " + std::to_string(count) + " values, more than its message has");
  for (uint64_t i = 0; i < count; ++i) {
    KeptTensor value;
    value.session = reader.Text();
    value.step = static_cast<int64_t>(reader.Fixed64());
    const uint64_t number = reader.Varint(), takers = reader.Varint();
    value.tensor = reader.Text();
    if (!reader.ok()) break;
    if (number >= kKeptNumbersMax || takers == 0 || takers > kKeptNumbersMax)
      return Status::Corrupt("a task moves with a value that no step has");
    value.number = static_cast<uint32_t>(number);
    value.takers = static_cast<uint32_t>(takers);
    values->push_back(value);
  }
  return reader.ok() && reader.done() ? Status::Ok() : Status::Corrupt("the values of a task that moves are cut off");
}

std::string EncodeTakeTask(const TakeTask& asked) {
  std::string out;
  AppendText(&out, asked.task);
  AppendVarint(&out, asked.pause_ms_max);
  return out;
}

Status DecodeTakeTask(ConstBytes in, TakeTask* asked) {
  VarReader reader(in);
  const ConstBytes task = reader.Text();
  asked->pause_ms_max = std::min(reader.Varint(), kPauseMsMax);
  if (!reader.ok() || !reader.done()) return Status::Invalid("a request to take a task is cut off");
  if (task.size > kMovedTextBytesMax) return Status::Invalid("a request to take a task has a name of more than 1 KiB");
  asked->task = task.ToString();
  return Status::Ok();
}

void AppendTakenTask(const TakenTask& answer, std::string* out) {
  AppendFixed64(out, answer.process);
  AppendVarint(out, answer.tasks);
  AppendText(out, answer.said);
}

Status DecodeTakenTask(VarReader* reader, TakenTask* answer) {
  answer->process = reader->Fixed64();
  answer->tasks = reader->Varint();
  answer->said = reader->Text().ToString();
  return reader->ok() && reader->done() ? Status::Ok()
                                        : Status::Corrupt("the answer of the process that takes a task is cut off");
}

}  // namespace fusewire::tf
