// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What two servers say while a task moves from one to the other, as plain values. The new one asks, and the old one
// answers: it begins; it gets rounds of frames (heads/snapshots.h), first all that the task holds, then what was
// written since; the old one closes, and gives the last round, with what belongs to steps under way. The snapshot
// folder then says which server has the task (snapshot/ownership.h). Home: none, pure functions. Owns: plain values.
// Fails: with what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

// ---- a task is handed over (kHandOver) ----
//   request := taker:u64 want:u8
//   answer  := status [said:u8 bytes:varint]     and in the body:
//     kBegun    a manifest without files, and the parts, in a segment each
//     kFrames   frames; the round goes on
//     kEnd      the last frames of the round, and in `bytes` how many it had
//     kClosed   a manifest without files, with the answers that workers may not have; the values of steps; and the last
//               frames of the last round
// kDone: the taker has the task, and serves it. kStop: it gives up.
enum class MoveWant : uint8_t { kBegin = 1, kNext = 2, kRound = 3, kClose = 4, kDone = 5, kStop = 6 };
enum class MoveSaid : uint8_t { kBegun = 1, kFrames = 2, kEnd = 3, kClosed = 4 };

struct HandOver {
  uint64_t taker = 0;  // the incarnation of its data port
  MoveWant want = MoveWant::kBegin;
};
std::string EncodeHandOver(const HandOver& asked);
Status DecodeHandOver(ConstBytes in, HandOver* asked);

struct HandedOver {
  MoveSaid said = MoveSaid::kBegun;
  uint64_t bytes = 0;
};
void AppendHandedOver(const HandedOver& answer, std::string* out);
// Behind the status.
Status DecodeHandedOver(VarReader* reader, HandedOver* answer);

// part := fingerprint:text RegisterGraphRequest
std::string EncodePart(const std::string& fingerprint, const std::string& request);
Status DecodePart(ConstBytes in, ConstBytes* fingerprint, ConstBytes* request);

// values := count:varint (session:text step:u64 number:varint takers:varint tensor:text)*     each a TensorProto
struct KeptTensor {
  ConstBytes session;
  int64_t step = 0;
  uint32_t number = 0, takers = 0;
  ConstBytes tensor;
};
constexpr uint64_t kMovedValuesMax = 1 << 20;
std::string EncodeKeptTensors(const std::vector<KeptTensor>& values);
Status DecodeKeptTensors(ConstBytes in, std::vector<KeptTensor>* values);

// ---- a process is to take a task (kTakeTask) ----
//   request := task:text pause_ms:varint     without a task: it is only asked how many it has
//   answer  := status process:u64 tasks:varint said:text
struct TakeTask {
  std::string task;  // "ps:3"
  uint64_t pause_ms_max = 0;
};
std::string EncodeTakeTask(const TakeTask& asked);
Status DecodeTakeTask(ConstBytes in, TakeTask* asked);

struct TakenTask {
  uint64_t process = 0;  // the same for all servers of a process
  uint64_t tasks = 0;    // that it serves
  std::string said;
};
void AppendTakenTask(const TakenTask& answer, std::string* out);
Status DecodeTakenTask(VarReader* reader, TakenTask* answer);

}  // namespace fusewire::tf
