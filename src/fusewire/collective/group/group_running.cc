// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What machines ask of their group while they run, and where messages go that nobody has asked for yet.
#include <algorithm>
#include <utility>

#include "fusewire/collective/group/group_core.h"

namespace fusewire {
namespace collective {
namespace {

// What one turn of the loop reduces: some hundred microseconds. Small things are done on the spot.
constexpr size_t kWorkBytesMax = 1024 * 1024;
constexpr size_t kSmallWorkBytesMax = 64 * 1024;
// Bounds of what is remembered of messages that came early, and of operations that have failed.
constexpr size_t kEarlyMax = 64 * 1024;
constexpr size_t kDeadTagsMax = 4096;
// How long we wait for the reason of a failure that a peer has had.
constexpr int64_t kDoubtNs = 1 * kSecondNs;

}  // namespace

// ---- what machines ask ----

void GroupCore::OnSendReady(Machine* machine, int rank, size_t node) {
  const int index = SeatOfRank(rank);
  Seat& seat = seats_[static_cast<size_t>(index)];
  if (seat.gated.empty() && seat.peer->up()) {
    machine->PostSend(node);
    return;
  }
  seat.gated.push_back(Gated{machine, node});
  if (seat.left) {
    FailOperation(machine->operation, Status::Unavailable(RankWords(rank) + " has left the group"), true);
    return;
  }
  OnAwaited(index);
}

bool GroupCore::HasLeft(int rank) const { return seats_[static_cast<size_t>(SeatOfRank(rank))].left; }

void GroupCore::OnWorkReady(Machine* machine) {
  if (machine->work_queued) return;
  if (!machine->Work(kSmallWorkBytesMax)) return;
  machine->work_queued = true;
  working_.push_back(machine);
  work_mail_.Post();
}

void GroupCore::RunWork() {
  if (working_.empty()) return;
  Machine* machine = working_.front();
  for (Machine* other : working_) {
    if (other->operation->wanted.priority > machine->operation->wanted.priority) machine = other;
  }
  // It may have ended when Work returns, and left the list by itself.
  if (!machine->Work(kWorkBytesMax)) {
    const auto found = std::find(working_.begin(), working_.end(), machine);
    if (found != working_.end()) {
      machine->work_queued = false;
      working_.erase(found);
    }
  }
  if (!working_.empty()) work_mail_.Post();
}

// The less urgent hold back while something more urgent is under way.
void GroupCore::Hurry() {
  if (running_.size() < 2 && working_.size() < 2) {
    for (auto& [tag, operation] : running_) {
      if (operation->machine != nullptr) operation->machine->SetHurried(false);
    }
    return;
  }
  int highest = INT_MIN;
  for (auto& [tag, operation] : running_) {
    highest = std::max(highest, operation->wanted.priority);
  }
  for (auto& [tag, operation] : running_) {
    if (operation->machine != nullptr) operation->machine->SetHurried(operation->wanted.priority < highest);
  }
}

Status GroupCore::MismatchOf(const Fingerprint& mine, int rank, const Fingerprint& other) const {
  const std::string where =
      mine.keyed != 0 ? "under key " + std::to_string(mine.key) : "in call " + std::to_string(mine.turn);
  return Status::Invalid("ranks want different things " + where + ": " + RankWords(rank_) + " " + mine.Describe() +
                         ", " + RankWords(rank) + " " + other.Describe())
      .Next("make the same calls with the same counts at all ranks");
}

Status GroupCore::CheckHead(Machine* machine, int rank, const std::string& head) {
  Result<Fingerprint> print = DecodeFingerprint(ConstBytes(head));
  if (!print.ok()) return print.status().Peer(RankWords(rank));
  if (print.value() == machine->print()) return Status::Ok();
  return MismatchOf(machine->print(), rank, print.value());
}

void GroupCore::OnMessageFailed(Machine* machine, int rank, bool sent, const Status& why) {
  const int index = SeatOfRank(rank);
  Seat& seat = seats_[static_cast<size_t>(index)];
  const bool not_coming = seat.left && why.code() == Code::kCancelled;
  const bool gone = not_coming || why.code() == Code::kUnavailable || why.code() == Code::kCorrupt;
  if (gone && !seat.left) {
    OnLost(index, why);  // which fails all operations
    FailOperation(machine->operation, broken_.ok() ? why : broken_, false);
    return;
  }
  // Its receiver has failed, and whoever failed first tells everybody why: that says more than this does. If we closed
  // our own endpoint nobody will.
  const bool ours = why.cause().rfind("the endpoint", 0) == 0;
  if (sent && !gone && !ours && why.code() != Code::kRefused) {
    GroupOperation* const operation = machine->operation;
    if (!operation->doubt.ok()) return;
    operation->doubt = why.Peer(RankWords(rank));
    ArmDeadline(operation, std::clamp<int64_t>(operation->deadline_ns - home_.now_ns(), 0, kDoubtNs));
    return;
  }
  const Status said = gone ? Status::Unavailable(RankWords(rank) + " has left the group") : why;
  FailOperation(machine->operation, said.Peer(RankWords(rank)), gone || why.code() != Code::kCancelled);
}

// ---- messages that nobody has asked for yet ----

p2p::OfferAnswer GroupCore::OnOffer(const p2p::Offer& offer, uint32_t epoch) {
  using p2p::OfferAnswer;
  if (closed_) return OfferAnswer::Refuse(Status::Cancelled("group \"" + options_.name + "\" was closed here"));
  if (offer.tag == ControlTag()) return OfferAnswer::Defer();
  const int index = SeatOf(offer.peer);
  if (index < 0) return OfferAnswer::Refuse(Status::Refused("\"" + offer.peer.name() + "\" is no member of the group"));
  if (epoch != epoch_) return OfferAnswer::Refuse(Status::Cancelled("this operation has failed here"));
  // With the reason: whoever failed first may have told us alone.
  if (const auto dead = dead_tags_.find(offer.tag); dead != dead_tags_.end())
    return OfferAnswer::Refuse(Status::Cancelled("this operation has failed here: " + dead->second.ToString()));
  if (offer.head.empty()) return OfferAnswer::Defer();
  Result<Fingerprint> decoded = DecodeFingerprint(offer.head);
  if (!decoded.ok()) return OfferAnswer::Refuse(decoded.status());
  const Fingerprint& print = decoded.value();
  const int rank = seats_[static_cast<size_t>(index)].rank;
  auto running = running_.find(offer.tag);
  if (running == running_.end() || running->second->machine == nullptr) {
    if (print.keyed == 0 && HasEnded(print.turn))
      return OfferAnswer::Refuse(Status::Invalid(RankWords(rank_) + " has ended that call already"));
    if (early_count_ < kEarlyMax) {
      ++early_count_;
      early_[offer.tag].push_back(Early{index, print});
    }
    return OfferAnswer::Defer();
  }
  GroupOperation* operation = running->second.get();
  const bool meant = rank >= 0 && !operation->machine->met(rank) &&
                     (operation->print.keyed == 0 || operation->machine->HearsFrom(rank));
  if (!meant) {
    if (print.keyed != 0 && early_count_ < kEarlyMax) {
      ++early_count_;
      early_[offer.tag].push_back(Early{index, print});
    }
    return OfferAnswer::Defer();
  }
  operation->machine->SetMet(rank);
  if (print == operation->print) return OfferAnswer::Defer();
  // Not from within the pipe that it came through.
  home_.Post([core = shared_from_this(), number = operation->number, why = MismatchOf(operation->print, rank, print)] {
    core->FailByNumber(number, why);
  });
  return OfferAnswer::Defer();
}

void GroupCore::FailByNumber(uint64_t number, const Status& why) {
  for (auto& [tag, operation] : running_) {
    if (operation->number != number) continue;
    FailOperation(operation.get(), why, true);
    return;
  }
}

// What comes under this tag from now on is refused, and what has come is thrown away.
void GroupCore::RememberDead(uint64_t tag, const Status& why) {
  if (dead_tags_.emplace(tag, why).second) dead_tags_order_.push_back(tag);
  if (dead_tags_order_.size() > kDeadTagsMax) {
    dead_tags_.erase(dead_tags_order_.front());
    dead_tags_order_.pop_front();
  }
  if (auto early = early_.find(tag); early != early_.end()) {
    early_count_ -= early->second.size();
    early_.erase(early);
  }
  drains_.remove_if([](const std::unique_ptr<p2p::ReceiveOp>& drain) { return drain->Test(); });
  while (true) {
    auto drain = std::make_unique<p2p::ReceiveOp>(endpoint_, nullptr, tag);
    drain->timeout_ns = kForeverNs;
    drain->Post();
    if (!drain->Test()) {
      drain->Cancel();
      drains_.push_back(std::move(drain));
      return;
    }
    // It took one, which was too large for it; or the endpoint takes no more.
    if (!drain->status().ok() && drain->status().code() != Code::kInvalid) return;
  }
}

}  // namespace collective
}  // namespace fusewire
