// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One operation of this process and its moments: it begins, its content arrives, it ends. Code reports each moment
// once, here. Its readers are the ring with its totals (recorder.h), the count of each kind, and while a profile is
// taken, a listener. Without any of them, a moment costs two loads.
// Home: that of the operation; a listener's is any thread. Owns: its record in the ring. Fails: never.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/observe/recorder.h"

namespace fusewire::observe {

// An operation that has ended, as it is reported to a listener.
struct EventFacts {
  Kind kind = Kind::kReceive;
  std::string peer;  // "ps:0"; of a collective: its group
  std::string name;  // of the tensor, the part, or the operation
  int64_t step = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  // By Clock::Real(). 0: the time of its beginning, or of its content, was not recorded.
  int64_t begun_ns = 0, arrived_ns = 0, ended_ns = 0;
  std::string error;  // empty: it has succeeded
};

class EventListener {
 public:
  // Any thread, several at once.
  virtual void OnEnd(EventFacts facts) = 0;

 protected:
  ~EventListener() = default;
};
// It lives until the process ends: an operation that ends may still use the previous one.
inline std::atomic<EventListener*> event_listener{nullptr};
inline bool HasEventListener() { return event_listener.load(std::memory_order_relaxed) != nullptr; }

// Of the kinds that are counted, the events that have begun in this process.
inline std::array<std::atomic<uint64_t>, kKinds> events_begun{};
constexpr bool IsCounted(Kind kind) {
  return kind == Kind::kRunOut || kind == Kind::kRunIn || kind == Kind::kCollective;
}

// The time of a moment; 0 if nobody reads it, at no cost.
inline int64_t EventNowNs() { return TheRecorder() == nullptr && !HasEventListener() ? 0 : Clock::Real()->NowNs(); }

class Event {
 public:
  // flow: the same at the peer's end of it; 0: not known.
  void Begin(Kind kind, uint32_t tag, int64_t step, uint64_t flow, int64_t now_ns = EventNowNs()) {
    FUSEWIRE_DCHECK(!has_begun_);
    if (IsCounted(kind)) events_begun[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
    has_begun_ = true;
    kind_ = kind;
    step_ = step;
    begun_ns_ = now_ns;
    arrived_ns_ = 0;
    given_ = 0;
    op_ = BeginOp(tag, step, flow, now_ns);
  }
  bool has_begun() const { return has_begun_; }

  // Its content begins to arrive, or is ready to be sent. Not while another thread ends it.
  void Arrive(int64_t now_ns = EventNowNs()) {
    arrived_ns_ = now_ns;
    Recorder::Landed(op_, now_ns);
  }

  // Of the bytes with which it ends, those that a part of a graph was given.
  void Given(uint64_t bytes) { given_ = bytes; }

  // Nothing happens if it has not begun, or has ended. `describe(&facts)` adds the peer, the name, the bytes and the
  // error; it is called only if there is a listener.
  template <class Describe>
  void End(bool is_ok, uint64_t bytes, int64_t now_ns, const Describe& describe) {
    if (!has_begun_) return;
    has_begun_ = false;
    EndOp(&op_, is_ok, bytes, now_ns, given_);
    EventListener* const listener = event_listener.load(std::memory_order_acquire);
    if (listener == nullptr) return;
    EventFacts facts;
    facts.kind = kind_;
    facts.step = step_;
    facts.begun_ns = begun_ns_;
    facts.arrived_ns = arrived_ns_;
    facts.ended_ns = now_ns != 0 ? now_ns : Clock::Real()->NowNs();
    describe(&facts);
    listener->OnEnd(std::move(facts));
  }
  template <class Describe>
  void End(bool is_ok, uint64_t bytes, const Describe& describe) {
    if (has_begun_) End(is_ok, bytes, EventNowNs(), describe);
  }
  // For the ring alone.
  void End(bool is_ok, uint64_t bytes = 0) {
    has_begun_ = false;
    EndOp(&op_, is_ok, bytes);
  }

 private:
  bool has_begun_ = false;
  Kind kind_ = Kind::kReceive;
  int64_t step_ = 0, begun_ns_ = 0, arrived_ns_ = 0;
  uint64_t given_ = 0;
  Op op_;
};

}  // namespace fusewire::observe
