// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which incarnation of each task is the present one. Pure: no thread, no pipe.
// Home: the acceptor's first reactor. Owns: names and numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fusewire::task {

// A pipe of the acceptor: which reactor, and which of its pipes.
struct Seat {
  size_t pending = 0;
  uint64_t id = 0;
  bool operator<(const Seat& other) const { return pending != other.pending ? pending < other.pending : id < other.id; }
  bool operator==(const Seat& other) const { return pending == other.pending && id == other.id; }
};

class Roster {
 public:
  // Tasks that are remembered although none of their pipes is open. `away_ns`: a task that has been away for so long
  // may have gone for good.
  Roster(size_t tasks_max, int64_t away_ns) : tasks_max_(tasks_max), away_ns_(away_ns) {}

  // A task has said hello. The incarnation that came last is the present one: returned are the pipes to close, which is
  // the new one itself if its incarnation has been superseded before. Incarnations have no order, though: if the older
  // one came here last, the younger one was superseded by mistake, and may come back once the present one is away.
  std::vector<Seat> OnGreeted(const std::string& name, uint64_t incarnation, Seat seat, int64_t now_ns);
  void OnGone(const std::string& name, Seat seat, int64_t now_ns);
  size_t size() const { return tasks_.size(); }

 private:
  static constexpr size_t kPastMax = 8;
  struct Task {
    uint64_t incarnation = 0;
    std::set<Seat> seats;
    int64_t left_ns = 0;         // when the last of them went
    std::vector<uint64_t> past;  // must not come back
  };
  void Forget();

  const size_t tasks_max_;
  const int64_t away_ns_;
  std::map<std::string, Task> tasks_;
};

}  // namespace fusewire::task
