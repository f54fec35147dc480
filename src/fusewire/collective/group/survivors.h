// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The agreement of survivors on the remaining members. In each round, every member sends all others the seats that it
// considers dead; a round in which all remaining members have sent the same seats decides. A death meanwhile leads to
// another round. A member that has decided sends the decision to the others, which adopt it: all decide the same.
// Home: the endpoint's. Owns: the votes of this epoch, and the decisions of earlier ones, for members that ask later.
// Fails: at its deadline, and if others consider this member dead.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/members.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

class Survivors {
 public:
  // `decided` is called once for each new epoch, which begins without these seats.
  Survivors(reactor::Reactor& home, const Seats* seats, Members* members,
            std::function<void(const std::vector<bool>& dead)> decided);

  bool busy() const { return shrinking_ != nullptr; }
  void Begin(int64_t limit_ns, Done done);
  void OnVote(int seat, const ControlMessage& message);
  void OnDecided(int seat, const ControlMessage& message);
  void OnLost();
  // Ends the agreement under way, if any, with `status`.
  void End(const Status& status);

 private:
  struct Shrinking {
    uint64_t round = 0;
    std::vector<bool> dead;  // by seat; only grows
    Done done;
    std::unique_ptr<reactor::Timer> deadline;
  };
  void OnDeadline();
  void Vote();
  void TryDecide();
  // False: a vote is missing.
  bool CountVotes(const std::vector<bool>& known, bool* same, std::string* accusers);
  void Decide(const ControlMessage& decision);

  reactor::Reactor& home_;
  const Seats* const seats_;
  Members* const members_;
  const std::function<void(const std::vector<bool>& dead)> decided_by_all_;
  std::unique_ptr<Shrinking> shrinking_;
  std::map<uint32_t, ControlMessage> decided_;                // by epoch
  std::map<std::pair<int, uint64_t>, ControlMessage> votes_;  // of this epoch, by seat and round
};

}  // namespace fusewire::collective
