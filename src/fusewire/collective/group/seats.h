// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The members of a group: each has a permanent seat, and a rank, which may change each time that the group shrinks and
// begins a new epoch.
// Home: the endpoint's. Owns: the state of each member; not the peers.
// Ranks are numbered from 0 in the order of seats, without gaps; this member always has one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/options.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

struct Seat {
  std::string name;
  p2p::Peer* peer = nullptr;  // null: this member itself
  int rank = -1;              // -1: dead, the group has shrunk without it
  bool left = false;          // it has left without a failure
  Status lost;                // not ok: the member is lost, for this reason
};

class Seats {
 public:
  explicit Seats(const GroupOptions& options);

  void SetPeer(int seat, p2p::Peer* peer) { At(seat).peer = peer; }
  void MarkLeft(int seat) {
    FUSEWIRE_DCHECK(seat != own_);
    At(seat).left = true;
  }
  void MarkLost(int seat, const Status& why);
  // Begins a new epoch with the members that are not dead.
  void EnterEpoch(const std::vector<bool>& dead);

  int count() const { return static_cast<int>(seats_.size()); }
  const Seat& at(int seat) const {
    FUSEWIRE_DCHECK(seat >= 0);
    FUSEWIRE_DCHECK(seat < count());
    return seats_[static_cast<size_t>(seat)];
  }
  const Seat& OfRank(int rank) const { return at(SeatOfRank(rank)); }
  int SeatOfRank(int rank) const;
  int SeatOf(const p2p::Peer& peer) const;  // -1: it is not a member
  int own() const { return own_; }
  int rank() const { return at(own_).rank; }
  int ranks() const { return static_cast<int>(seats_of_ranks_.size()); }
  uint32_t epoch() const { return epoch_; }
  const Places& places() const { return places_; }
  std::vector<p2p::Peer*> PeersOfRanks() const;
  std::vector<std::string> NamesOfRanks() const;
  // How a thread that waits for an operation waits.
  reactor::Idling idling() const;
  // "rank 1 (b)"
  std::string RankText(int rank) const;
  std::string Text(int seat) const;

 private:
  Seat& At(int seat) {
    FUSEWIRE_DCHECK(seat >= 0);
    FUSEWIRE_DCHECK(seat < count());
    return seats_[static_cast<size_t>(seat)];
  }
  void Renumber();

  const Places all_places_;
  const int own_;
  std::vector<Seat> seats_;
  uint32_t epoch_ = 0;
  std::vector<int> seats_of_ranks_;
  Places places_;  // of the current ranks
};

// What other threads may know of a group's state.
struct GroupState {
  std::atomic<int> rank{0};
  std::atomic<int> ranks{0};
  std::atomic<uint32_t> epoch{0};
  std::atomic<bool> is_broken{false};
  std::atomic<reactor::Idling> idling{reactor::Idling::kLearned};

  // How a thread that waits for an operation waits.
  reactor::Idling waiting() const { return idling.load(std::memory_order_relaxed); }
};

}  // namespace fusewire::collective
