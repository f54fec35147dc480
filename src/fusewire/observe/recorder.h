// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The last operations of this process, and all that have not ended: always on, without a lock.
// Home: any thread may record, any other may read at the same time. Owns: a fixed number of records in rings, one for a
// few threads each. A record of an operation that has not ended is passed over until it ends: the rings hold the last
// operations and the stuck ones. Fails: never; an operation for which no ring has room is counted, and not recorded.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/observe/tags.h"

namespace fusewire::observe {

enum class End : uint8_t { kOk = 0, kFailed = 1 };

// One cache line, written by its operation alone and read by anyone: a sequence lock whose words are atomic.
struct alignas(64) Record {
  // sequence << 2 | phase: one writer may change the phase from kEnded to kWriting, by compare-and-swap; from then on
  // the record is its own until it is kEnded again.
  static constexpr uint64_t kEnded = 0, kWriting = 1, kOpen = 2, kPhases = 3;
  std::atomic<uint64_t> state{0};
  std::atomic<uint64_t> what{0};  // tag | End << 32
  std::atomic<uint64_t> step{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<int64_t> begun_ns{0};
  std::atomic<int64_t> landed_ns{0};
  std::atomic<int64_t> ended_ns{0};
  std::atomic<uint64_t> flow{0};
};
static_assert(sizeof(Record) == 64);

// An operation under way. Its owner ends it once.
class Op {
 public:
  Op() = default;
  Op(Op&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Op& operator=(Op&& other) noexcept {
    FUSEWIRE_DCHECK(record_ == nullptr);
    record_ = std::exchange(other.record_, nullptr);
    return *this;
  }
  Op(const Op&) = delete;
  explicit operator bool() const { return record_ != nullptr; }

 private:
  friend class Recorder;
  explicit Op(Record* record) : record_(record) {}
  Record* record_ = nullptr;
};

// An operation as a reader sees it.
struct Seen {
  uint64_t id = 0;  // of all operations of the process
  uint32_t tag = 0;
  bool is_open = false;
  End end = End::kOk;
  int64_t step = 0;
  uint64_t bytes = 0;
  int64_t begun_ns = 0, landed_ns = 0, ended_ns = 0;  // 0: not yet
  uint64_t flow = 0;                                  // the same at the peer's end of it; 0: not known
};

class Recorder {
 public:
  static constexpr size_t kRings = 16, kRecords = 1024;

  Recorder();
  Recorder(const Recorder&) = delete;

  Tags& tags() { return tags_; }

  // Any thread, as all below.
  Op Begin(uint32_t tag, int64_t step, uint64_t flow, int64_t now_ns);
  // Its content begins to arrive, or is ready to be sent. Not while another thread ends it.
  static void Landed(const Op& op, int64_t now_ns) {
    if (op.record_ != nullptr) op.record_->landed_ns.store(now_ns, std::memory_order_relaxed);
  }
  // Of the bytes, `given` went the other way than the results: a part of a graph is given some, and returns some.
  void EndOp(Op* op, End end, uint64_t bytes, int64_t now_ns, uint64_t given = 0);

  // All that can be read now, in no order; an operation that is being written is left out.
  std::vector<Seen> Read() const;
  uint64_t unrecorded() const { return unrecorded_.Read(); }

 private:
  struct alignas(64) Ring {
    std::atomic<uint64_t> next{0};  // a hint: threads of one ring may draw the same
    std::array<Record, kRecords> records;
  };
  Record* Claim(Ring* ring);

  Tags tags_;
  const std::unique_ptr<std::array<Ring, kRings>> rings_;
  SharedCounter unrecorded_;
};

// The recorder of this process; null: nothing is recorded.
extern std::atomic<Recorder*> the_recorder;
inline Recorder* TheRecorder() { return the_recorder.load(std::memory_order_acquire); }

// Operations that are too short to pay for a record are counted only, unless somebody reads the ring now: a reading
// asks for the next few of them. How many are still wanted.
extern std::atomic<int64_t> short_ops_wanted;
constexpr int64_t kShortOpsWanted = 8192;  // for each reading: as many as it shows
inline bool TakeShortOp() {
  return short_ops_wanted.load(std::memory_order_relaxed) > 0 &&
         short_ops_wanted.fetch_sub(1, std::memory_order_relaxed) > 0;
}

// ---- for those who record, with or without a recorder ----
uint32_t FindTag(Kind kind, std::string_view task, std::string_view peer, std::string_view name);
Op BeginOp(uint32_t tag, int64_t step, uint64_t flow, int64_t now_ns);
// Also for an operation that has not begun, or has ended. now_ns 0: it reads the clock itself.
void EndOp(Op* op, bool is_ok, uint64_t bytes = 0, int64_t now_ns = 0, uint64_t given = 0);

}  // namespace fusewire::observe
