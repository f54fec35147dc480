// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Shared by the hosts of a LoopbackWorld: time, randomness, names and faults. It does not know the bytes between them.
// Home: the world's thread. Owns: the clock, the events, the hosts with their reactors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/reactor/reactor.h"
#include "loopback/loopback_faults.h"

namespace fusewire::transport {

// Future events, in virtual time. Events of the same time run in the order in which they were added.
class EventQueue {
 public:
  using Event = UniqueFunction<void()>;

  void At(int64_t due_ns, Event event) { events_.emplace(Key(due_ns, order_++), std::move(event)); }
  int64_t NextNs() const { return events_.empty() ? kForeverNs : events_.begin()->first.first; }
  // Runs all due events, including those that they add for the same time.
  void RunDue(int64_t now_ns) {
    while (NextNs() <= now_ns) {
      Event event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
  }
  void Clear() { events_.clear(); }

 private:
  using Key = std::pair<int64_t, uint64_t>;
  std::map<Key, Event> events_;
  uint64_t order_ = 0;
};

class LoopbackListener;

// One incarnation of a host.
struct Host {
  enum class Fate { kUp, kAnswersForTheDead, kSilent };

  std::string name;
  std::unique_ptr<reactor::Reactor> reactor;
  Fate fate = Fate::kUp;
  bool paused = false;
  std::map<uint16_t, LoopbackListener*> listeners;
  uint16_t next_port = 40000;

  bool runs() const { return fate == Fate::kUp && !paused; }
};

class Network {
 public:
  Network(uint64_t seed, const LoopbackFaults& faults) : random_(seed), faults_(faults) {}
  ~Network();

  ManualClock* clock() { return &clock_; }
  int64_t now_ns() { return clock_.NowNs(); }
  Random& random() { return random_; }
  // With the fault `split`: a random length up to `size`, usually much less; 0 only if size is 0.
  size_t RandomLength(size_t size, const LoopbackFaults& faults);

  // Events run outside of every home: work of a host is posted to it.
  void At(int64_t due_ns, EventQueue::Event event) { events_.At(due_ns, std::move(event)); }
  bool TurnHosts();
  int64_t NextNs() const;
  void RunDue() { events_.RunDue(now_ns()); }

  Host* AddHost(const std::string& name);
  // The current incarnation, or the last one; null for an unknown name.
  Host* Find(const std::string& name_or_alias) const;
  void PointName(const std::string& name, const std::string& host) { aliases_[name] = host; }

  // The caller pumps the streams after a change: delayed bytes may be free to go.
  const LoopbackFaults& FaultsBetween(const std::string& from, const std::string& to) const;
  void SetFaults(const LoopbackFaults& faults);
  void SetFaultsBetween(const std::string& from, const std::string& to, const LoopbackFaults* faults);

  void AddToFingerprint(uint64_t fact);
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  ManualClock clock_;
  Random random_;
  LoopbackFaults faults_;
  std::map<std::pair<std::string, std::string>, LoopbackFaults> faults_between_;
  std::map<std::string, std::string> aliases_;
  EventQueue events_;
  std::vector<std::unique_ptr<Host>> hosts_;  // all incarnations, in the order of their start
  uint64_t fingerprint_ = 0;
};

}  // namespace fusewire::transport
