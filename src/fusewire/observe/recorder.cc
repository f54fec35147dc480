// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/recorder.h"

#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"

namespace fusewire::observe {
namespace {

// Records that a ring is searched for a free one; more only delay the thread.
constexpr int kTriesMax = 32;
constexpr int kEndShift = 32;

size_t RingOfThread() { return ThreadNumber() % Recorder::kRings; }

}  // namespace

std::atomic<Recorder*> the_recorder{nullptr};
std::atomic<int64_t> short_ops_wanted{0};

Recorder::Recorder() : rings_(std::make_unique<std::array<Ring, kRings>>()) {}

// A free record of the ring, now ours; null if none is found.
Record* Recorder::Claim(Ring* ring) {
  uint64_t next = ring->next.load(std::memory_order_relaxed);
  for (int i = 0; i < kTriesMax; ++i, ++next) {
    Record* record = &ring->records[next % kRecords];
    uint64_t state = record->state.load(std::memory_order_relaxed);
    if ((state & Record::kPhases) != Record::kEnded) continue;
    const uint64_t claimed = ((state >> 2) + 1) << 2 | Record::kWriting;
    if (!record->state.compare_exchange_strong(state, claimed, std::memory_order_acquire)) continue;
    ring->next.store(next + 1, std::memory_order_relaxed);
    return record;
  }
  ring->next.store(next, std::memory_order_relaxed);  // the next search goes on from there
  return nullptr;
}

Op Recorder::Begin(uint32_t tag, int64_t step, uint64_t flow, int64_t now_ns) {
  const size_t own = RingOfThread();
  Record* record = nullptr;
  for (size_t i = 0; i < kRings && record == nullptr; ++i) record = Claim(&(*rings_)[(own + i) % kRings]);
  if (record == nullptr) {
    unrecorded_.Add();
    return Op();
  }
  // Another process's, if this is a child of fork().
  if (tag >= tags_.size()) tag = 0;
  // Each word is released after the claim: a reader that sees one of them sees the claim, too.
  record->what.store(tag, std::memory_order_release);
  record->step.store(static_cast<uint64_t>(step), std::memory_order_release);
  record->bytes.store(0, std::memory_order_release);
  record->begun_ns.store(now_ns, std::memory_order_release);
  record->landed_ns.store(0, std::memory_order_release);
  record->ended_ns.store(0, std::memory_order_release);
  record->flow.store(flow, std::memory_order_release);
  const uint64_t state = record->state.load(std::memory_order_relaxed);
  record->state.store((state & ~Record::kPhases) | Record::kOpen, std::memory_order_release);
  return Op(record);
}

void Recorder::EndOp(Op* op, End end, uint64_t bytes, int64_t now_ns, uint64_t given) {
  Record* record = std::exchange(op->record_, nullptr);
  if (record == nullptr) return;
  const uint64_t state = record->state.load(std::memory_order_relaxed);
  FUSEWIRE_DCHECK((state & Record::kPhases) == Record::kOpen);
  const auto number = static_cast<uint32_t>(record->what.load(std::memory_order_relaxed));
  const int64_t begun_ns = record->begun_ns.load(std::memory_order_relaxed);
  record->state.store((state & ~Record::kPhases) | Record::kWriting, std::memory_order_relaxed);
  record->what.store(number | static_cast<uint64_t>(end) << kEndShift, std::memory_order_release);
  record->bytes.store(bytes, std::memory_order_release);
  record->ended_ns.store(now_ns, std::memory_order_release);
  record->state.store((state & ~Record::kPhases) | Record::kEnded, std::memory_order_release);

  const uint64_t took_ns = now_ns > begun_ns ? static_cast<uint64_t>(now_ns - begun_ns) : 0;
  Tag& tag = tags_.at(number < tags_.size() ? number : 0);
  tag.count.Add();
  tag.bytes.Add(bytes);
  tag.time_ns.Add(took_ns);
  tag.line->bytes.Add(bytes);
  if (given != 0) tag.line->bytes_given.Add(given);
  if (end != End::kOk) tag.line->failed.Add();
  tag.line->duration_ns.Add(took_ns);
}

std::vector<Seen> Recorder::Read() const {
  std::vector<Seen> all;
  for (size_t ring = 0; ring < kRings; ++ring) {
    for (size_t i = 0; i < kRecords; ++i) {
      const Record& record = (*rings_)[ring].records[i];
      const uint64_t state = record.state.load(std::memory_order_acquire);
      if (state == 0 || (state & Record::kPhases) == Record::kWriting) continue;
      const uint64_t what = record.what.load(std::memory_order_acquire);
      Seen seen;
      seen.id = (state >> 2) * (kRings * kRecords) + ring * kRecords + i;
      seen.tag = static_cast<uint32_t>(what);
      seen.is_open = (state & Record::kPhases) == Record::kOpen;
      seen.end = static_cast<End>(what >> kEndShift);
      seen.step = static_cast<int64_t>(record.step.load(std::memory_order_acquire));
      seen.bytes = record.bytes.load(std::memory_order_acquire);
      seen.begun_ns = record.begun_ns.load(std::memory_order_acquire);
      seen.landed_ns = record.landed_ns.load(std::memory_order_acquire);
      seen.ended_ns = record.ended_ns.load(std::memory_order_acquire);
      seen.flow = record.flow.load(std::memory_order_acquire);
      if (record.state.load(std::memory_order_relaxed) == state) all.push_back(seen);
    }
  }
  return all;
}

uint32_t FindTag(Kind kind, std::string_view task, std::string_view peer, std::string_view name) {
  Recorder* recorder = TheRecorder();
  return recorder == nullptr ? 0 : recorder->tags().Find(kind, task, peer, name);
}

Op BeginOp(uint32_t tag, int64_t step, uint64_t flow, int64_t now_ns) {
  Recorder* recorder = TheRecorder();
  return recorder == nullptr ? Op() : recorder->Begin(tag, step, flow, now_ns);
}

void EndOp(Op* op, bool is_ok, uint64_t bytes, int64_t now_ns, uint64_t given) {
  Recorder* recorder = TheRecorder();
  if (!*op || recorder == nullptr) return;
  if (now_ns == 0) now_ns = Clock::Real()->NowNs();
  recorder->EndOp(op, is_ok ? End::kOk : End::kFailed, bytes, now_ns, given);
}

}  // namespace fusewire::observe
