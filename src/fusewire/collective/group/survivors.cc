// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/survivors.h"

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::collective {
namespace {

// Each round but the last finds another member dead; these are spare.
constexpr uint64_t kSpareRounds = 8;

}  // namespace

Survivors::Survivors(reactor::Reactor& home, const Seats* seats, Members* members,
                     std::function<void(const std::vector<bool>& dead)> decided)
    : home_(home), seats_(seats), members_(members), decided_by_all_(std::move(decided)) {}

void Survivors::Begin(int64_t limit_ns, Done done) {
  FUSEWIRE_CHECK(!busy());
  shrinking_ = std::make_unique<Shrinking>();
  shrinking_->done = std::move(done);
  shrinking_->dead.assign(static_cast<size_t>(seats_->count()), false);
  shrinking_->deadline = std::make_unique<reactor::Timer>([this] { OnDeadline(); });
  if (limit_ns != kForeverNs) home_.Arm(shrinking_->deadline.get(), limit_ns);
  Vote();
  TryDecide();
}

void Survivors::OnDeadline() {
  std::string missing;
  for (int i = 0; i < seats_->count(); ++i) {
    const bool waits = seats_->at(i).rank >= 0 && !shrinking_->dead[static_cast<size_t>(i)] &&
                       votes_.count({i, shrinking_->round}) == 0;
    if (waits) missing += (missing.empty() ? "" : ", ") + seats_->Text(i);
  }
  End(Status::Timeout("no vote has arrived from " + missing)
          .Phase("shrinking the group")
          .Next("call Shrink at all ranks"));
}

// Sends this round's vote, with all deaths that are known by now.
void Survivors::Vote() {
  FUSEWIRE_CHECK(busy());
  FUSEWIRE_DCHECK(!seats_->at(seats_->own()).left);
  for (int i = 0; i < seats_->count(); ++i) {
    const Seat& seat = seats_->at(i);
    if (seat.rank < 0 || !seat.lost.ok() || seat.left) shrinking_->dead[static_cast<size_t>(i)] = true;
  }
  const ControlMessage message{
      .verb = ControlVerb::kVote, .epoch = seats_->epoch(), .round = shrinking_->round, .seats = shrinking_->dead};
  votes_[{seats_->own(), shrinking_->round}] = message;
  members_->SendToAll(message);
}

bool Survivors::CountVotes(const std::vector<bool>& known, bool* same, std::string* accusers) {
  const auto own = static_cast<size_t>(seats_->own());
  for (int i = 0; i < seats_->count(); ++i) {
    if (known[static_cast<size_t>(i)]) continue;
    const auto vote = votes_.find({i, shrinking_->round});
    if (vote == votes_.end()) return false;  // it will come, or its sender dies
    const std::vector<bool>& dead = vote->second.seats;
    FUSEWIRE_CHECK(dead.size() == known.size());
    *same = *same && dead == known;
    for (size_t j = 0; j < dead.size(); ++j) shrinking_->dead[j] = shrinking_->dead[j] || dead[j];
    if (dead[own]) *accusers += (accusers->empty() ? "" : ", ") + seats_->Text(i);
  }
  return true;
}

void Survivors::TryDecide() {
  while (busy()) {
    std::vector<bool> known = shrinking_->dead;
    for (int i = 0; i < seats_->count(); ++i) {
      if (!seats_->at(i).lost.ok() || seats_->at(i).left) known[static_cast<size_t>(i)] = true;
    }
    bool same = true;
    std::string accusers;
    if (!CountVotes(known, &same, &accusers)) return;
    if (shrinking_->dead[static_cast<size_t>(seats_->own())]) {
      const std::string takers = accusers.empty() ? "the others take " : accusers + " takes ";
      return End(Status::Unavailable(takers + seats_->RankText(seats_->rank()) + " for dead")
                     .Next("restart that rank, or the group"));
    }
    if (same) {
      const ControlMessage decision{.verb = ControlVerb::kDecided, .epoch = seats_->epoch(), .seats = known};
      members_->SendToAll(decision);
      return Decide(decision);
    }
    ++shrinking_->round;
    Vote();
  }
}

void Survivors::OnVote(int seat, const ControlMessage& message) {
  const auto decided = decided_.find(message.epoch);
  if (decided != decided_.end()) return members_->Answer(seat, decided->second);
  const auto seats = static_cast<size_t>(seats_->count());
  const bool sane = message.epoch == seats_->epoch() && message.seats.size() == seats &&
                    message.round < seats + kSpareRounds && seats_->at(seat).rank >= 0;
  if (!sane) return;
  votes_[{seat, message.round}] = message;
  TryDecide();
}

void Survivors::OnDecided(int seat, const ControlMessage& message) {
  // A member that has not voted yet gets the decision again, as the answer to its vote.
  const bool sane = message.epoch == seats_->epoch() && message.seats.size() == static_cast<size_t>(seats_->count());
  if (!sane || !busy()) return;
  if (message.seats[static_cast<size_t>(seats_->own())]) {
    return End(Status::Unavailable("the others took " + seats_->RankText(seats_->rank()) + " for dead, says " +
                                   seats_->Text(seat))
                   .Next("restart that rank, or the group"));
  }
  Decide(message);
}

void Survivors::OnLost() { TryDecide(); }

void Survivors::Decide(const ControlMessage& decision) {
  const uint32_t epoch = seats_->epoch();
  decided_[epoch] = decision;
  votes_.clear();
  decided_by_all_(decision.seats);
  FUSEWIRE_CHECK(seats_->epoch() == epoch + 1);
  End(Status::Ok());
}

void Survivors::End(const Status& status) {
  if (!busy()) return;
  const std::unique_ptr<Shrinking> over = std::move(shrinking_);
  over->done(status);
}

}  // namespace fusewire::collective
