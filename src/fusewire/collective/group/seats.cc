// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/seats.h"

#include <algorithm>

#include "fusewire/reactor/process_limits.h"

namespace fusewire::collective {

Seats::Seats(const GroupOptions& options)
    : all_places_(options.places), own_(options.rank), seats_(options.members.size()) {
  for (int i = 0; i < count(); ++i) {
    At(i).name = options.members[static_cast<size_t>(i)].name;
    At(i).rank = i;
  }
  Renumber();
  FUSEWIRE_CHECK(own_ >= 0);
  FUSEWIRE_CHECK(own_ < count());
  FUSEWIRE_CHECK(ranks() == count());
}

void Seats::MarkLost(int seat, const Status& why) {
  FUSEWIRE_DCHECK(seat != own_);
  At(seat).lost = why.ok() ? Status::Unavailable("it is gone") : why;
}

void Seats::EnterEpoch(const std::vector<bool>& dead) {
  FUSEWIRE_CHECK(dead.size() == seats_.size());
  FUSEWIRE_CHECK(!dead[static_cast<size_t>(own_)]);
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (dead[i]) seats_[i].rank = -1;
  }
  ++epoch_;
  Renumber();
  FUSEWIRE_CHECK(rank() >= 0);
  FUSEWIRE_CHECK(ranks() <= count());
  FUSEWIRE_CHECK(SeatOfRank(rank()) == own_);
}

void Seats::Renumber() {
  seats_of_ranks_.clear();
  places_ = all_places_;
  places_.hosts.clear();
  for (int i = 0; i < count(); ++i) {
    if (at(i).rank < 0) continue;
    At(i).rank = ranks();
    seats_of_ranks_.push_back(i);
    if (!all_places_.hosts.empty()) places_.hosts.push_back(all_places_.hosts[static_cast<size_t>(i)]);
  }
  // All processors of the machine, not only those that this rank may use: all ranks must make the same choice.
  if (places_.one_host() && places_.near.cpus == 0) places_.near.cpus = reactor::MachineCpuCount();
  FUSEWIRE_DCHECK(places_.hosts.empty() || places_.hosts.size() == seats_of_ranks_.size());
}

int Seats::SeatOfRank(int rank) const {
  FUSEWIRE_DCHECK(rank >= 0);
  FUSEWIRE_DCHECK(rank < ranks());
  return seats_of_ranks_[static_cast<size_t>(rank)];
}

int Seats::SeatOf(const p2p::Peer& peer) const {
  for (int i = 0; i < count(); ++i) {
    if (at(i).peer == &peer) return i;
  }
  return -1;
}

std::vector<p2p::Peer*> Seats::PeersOfRanks() const {
  std::vector<p2p::Peer*> peers;
  peers.reserve(seats_of_ranks_.size());
  for (const int seat : seats_of_ranks_) peers.push_back(at(seat).peer);
  return peers;
}

std::vector<std::string> Seats::NamesOfRanks() const {
  std::vector<std::string> names;
  names.reserve(seats_of_ranks_.size());
  for (const int seat : seats_of_ranks_) names.push_back(at(seat).name);
  return names;
}

reactor::Idling Seats::idling() const {
  const std::vector<int>& hosts = places_.hosts;
  if (hosts.empty()) return reactor::Idling::kLearned;
  const auto here = std::count(hosts.begin(), hosts.end(), hosts[static_cast<size_t>(rank())]);
  if (here > reactor::UsableCpuCount()) return reactor::Idling::kYields;
  // An answer from another host may take longer than a spin.
  return places_.one_host() ? reactor::Idling::kSpins : reactor::Idling::kLearned;
}

std::string Seats::RankText(int rank) const { return "rank " + std::to_string(rank) + " (" + OfRank(rank).name + ")"; }

std::string Seats::Text(int seat) const { return at(seat).rank >= 0 ? RankText(at(seat).rank) : at(seat).name; }

}  // namespace fusewire::collective
