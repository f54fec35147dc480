// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How survivors agree on who is left. In rounds, each tells all others whom it takes for dead; a round in which all who
// are left have said the same decides. Who dies meanwhile makes another round. Whoever has decided tells the others,
// and so all who decide decide the same: who has not, adopts it.
#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/collective/group/group_core.h"

namespace fusewire {
namespace collective {
namespace {

// Each round but the last finds somebody dead.
constexpr uint64_t kSpareRounds = 8;
// To one member, under way: it may vote faster than it takes them.
constexpr std::ptrdiff_t kAnswersMax = 4;

}  // namespace

Note GroupCore::NoteOfDead(NoteVerb verb, const std::vector<bool>& dead) const {
  Note note;
  note.verb = verb;
  note.epoch = epoch_;
  note.seats = dead;
  return note;
}

void GroupCore::BeginShrink(int64_t timeout_ns, Done done) {
  FUSEWIRE_AT_HOME(home_);
  if (closed_ || shrinking_ != nullptr) {
    done(closed_ ? Status::Cancelled("the group is closed") : Status::Invalid("the group is shrinking already"));
    return;
  }
  Break(Status::Unavailable(RankWords(rank_) + " has asked to shrink the group")
            .Next("call Shrink at all ranks that are left"),
        true);
  shrinking_ = std::make_unique<Shrinking>();
  shrinking_->done = std::move(done);
  shrinking_->dead.assign(seats_.size(), false);
  shrinking_->deadline = std::make_unique<reactor::Timer>([this] {
    std::string missing;
    for (size_t i = 0; i < seats_.size(); ++i) {
      const bool waits =
          seats_[i].rank >= 0 && !shrinking_->dead[i] && votes_.count({static_cast<int>(i), shrinking_->round}) == 0;
      if (waits) missing += (missing.empty() ? "" : ", ") + SeatWords(static_cast<int>(i));
    }
    EndShrink(Status::Timeout("not heard of " + missing).Phase("shrinking the group").Next("call Shrink at all ranks"));
  });
  const int64_t limit_ns = timeout_ns != 0 ? timeout_ns : options_.timeout_ns;
  if (limit_ns != kForeverNs) home_.Arm(shrinking_->deadline.get(), limit_ns);
  Vote();
  TryDecide();
}

// This round's word, with all that we know by now.
void GroupCore::Vote() {
  for (size_t i = 0; i < seats_.size(); ++i) {
    const Seat& seat = seats_[i];
    if (seat.rank < 0 || !seat.dead.ok() || seat.left) shrinking_->dead[i] = true;
  }
  Note note = NoteOfDead(NoteVerb::kVote, shrinking_->dead);
  note.round = shrinking_->round;
  votes_[{seat_, shrinking_->round}] = note;
  TellAll(note);
}

void GroupCore::TryDecide() {
  while (shrinking_ != nullptr) {
    const uint64_t round = shrinking_->round;
    std::vector<bool> known = shrinking_->dead;
    for (size_t i = 0; i < seats_.size(); ++i) {
      if (!seats_[i].dead.ok() || seats_[i].left) known[i] = true;
    }
    bool same = true;
    std::string accusers;
    for (size_t i = 0; i < seats_.size(); ++i) {
      if (known[i]) continue;
      const auto vote = votes_.find({static_cast<int>(i), round});
      if (vote == votes_.end()) return;  // it will come, or its sender dies
      same = same && vote->second.seats == known;
      for (size_t j = 0; j < seats_.size(); ++j) shrinking_->dead[j] = shrinking_->dead[j] || vote->second.seats[j];
      if (vote->second.seats[static_cast<size_t>(seat_)])
        accusers += (accusers.empty() ? "" : ", ") + SeatWords(static_cast<int>(i));
    }
    if (shrinking_->dead[static_cast<size_t>(seat_)]) {
      const std::string who = accusers.empty() ? "the others take " : accusers + " takes ";
      EndShrink(Status::Unavailable(who + RankWords(rank_) + " for dead").Next("start it anew"));
      return;
    }
    if (same) {
      const Note decision = NoteOfDead(NoteVerb::kDecided, known);
      TellAll(decision);
      EnterEpoch(epoch_ + 1, decision);
      return;
    }
    ++shrinking_->round;
    Vote();
  }
}

void GroupCore::OnVote(int index, const Note& note) {
  const auto decided = decided_.find(note.epoch);
  if (decided != decided_.end()) {
    AnswerVote(index, decided->second);
    return;
  }
  const bool sane = note.epoch == epoch_ && note.seats.size() == seats_.size() &&
                    note.round < seats_.size() + kSpareRounds && seats_[static_cast<size_t>(index)].rank >= 0;
  if (!sane) return;
  votes_[{index, note.round}] = note;
  if (shrinking_ != nullptr) TryDecide();
}

void GroupCore::AnswerVote(int index, const Note& decision) {
  const auto to_it = std::count_if(notes_.begin(), notes_.end(),
                                   [index](const SentNote& sent) { return !sent.ended && sent.answers == index; });
  if (to_it >= kAnswersMax) return;
  if (SentNote* const answer = Tell(index, decision)) answer->answers = index;
}

void GroupCore::OnDecided(int index, const Note& note) {
  // Who has not voted yet hears it again, as the answer to its vote.
  if (note.epoch != epoch_ || note.seats.size() != seats_.size() || shrinking_ == nullptr) return;
  if (note.seats[static_cast<size_t>(seat_)]) {
    EndShrink(Status::Unavailable("the others took " + RankWords(rank_) + " for dead, says " + SeatWords(index))
                  .Next("start it anew"));
    return;
  }
  EnterEpoch(epoch_ + 1, note);
}

void GroupCore::EnterEpoch(uint32_t epoch, const Note& decision) {
  decided_[epoch_] = decision;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (decision.seats[i]) seats_[i].rank = -1;
  }
  epoch_ = epoch;
  broken_ = Status::Ok();
  turn_ = 0;
  skipped_.clear();
  votes_.clear();
  early_.clear();
  early_count_ = 0;
  failed_.clear();
  failures_.clear();
  dead_tags_.clear();
  dead_tags_order_.clear();
  idle_machines_.clear();
  idle_nodes_ = 0;
  Renumber();
  if (lane_ != nullptr) lane_->Reopen(epoch_);
  RegisterEpoch();
  // One of them may have died since it said its word.
  for (size_t i = 0; i < seats_.size(); ++i) {
    const Seat& seat = seats_[i];
    if (seat.rank < 0 || seat.dead.ok()) continue;
    Break(Status::Unavailable(SeatWords(static_cast<int>(i)) + " is lost: " + seat.dead.cause())
              .Peer(SeatWords(static_cast<int>(i)))
              .Next("call Shrink at all ranks that are left, or restart the group"),
          true);
  }
  EndShrink(Status::Ok());
}

void GroupCore::EndShrink(const Status& status) {
  if (shrinking_ == nullptr) return;
  const std::unique_ptr<Shrinking> over = std::move(shrinking_);
  over->done(status);
}

}  // namespace collective
}  // namespace fusewire
