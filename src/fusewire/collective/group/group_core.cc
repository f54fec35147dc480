// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/group_core.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/reactor/cancel.h"

namespace fusewire::collective {
namespace {

// All inputs are the same at all ranks. With a virtual clock, no thread can wait in an arena.
bool MayShareArena(const GroupOptions& options, const reactor::Reactor& home) {
  const size_t ranks = options.members.size();
  const bool fits = options.places.one_host() && ranks > 1 && ranks <= kArenaRanksMax;
  return options.arena && fits && home.clock() == Clock::Real();
}

Status LostStatus(const Seats& seats, int seat) {
  const Status& why = seats.at(seat).lost;
  return Status(why.code(), seats.Text(seat) + " is lost: " + why.cause())
      .Peer(seats.Text(seat))
      .Next("call Shrink at all ranks that are left, or restart the group");
}

// Adds the member that reported the failure, if it is not the one that failed.
Status AsReported(const Status& said, const std::string& reporter) {
  if (said.peer().empty() || said.peer() == reporter) return said.Peer(reporter);
  return Status(said.code(), said.cause() + " (" + reporter + " says so)").Peer(said.peer()).Next(said.next());
}

}  // namespace

void GroupOperation::Deliver() {
  std::unique_ptr<GroupOperation> self(this);
  // The Group may have gone since Start.
  const std::shared_ptr<GroupCore> home = std::move(core);
  home->Begin(std::move(self));
}

std::unique_ptr<GroupOperation> OperationMaker::Make(const CollectiveSpec& spec) {
  std::unique_ptr<GroupOperation> operation(kept_.exchange(nullptr, std::memory_order_acquire));
  if (operation == nullptr) operation = std::make_unique<GroupOperation>();
  operation->spec = spec;
  operation->given_turn.reset();
  operation->checked_epoch.reset();
  operation->left_ns = 0;
  return operation;
}

void OperationMaker::Keep(std::unique_ptr<GroupOperation> operation) {
  FUSEWIRE_DCHECK(operation->state == GroupOperation::State::kIdle);
  const std::unique_ptr<GroupOperation> before(kept_.exchange(operation.release(), std::memory_order_acq_rel));
}

GroupCore::GroupCore(p2p::Endpoint& endpoint, GroupOptions options)
    : endpoint_(endpoint),
      home_(endpoint.home()),
      options_(std::move(options)),
      monitor_(endpoint, options_),
      lane_(MayShareArena(options_, home_) ? std::make_unique<ArenaLane>(this, endpoint, options_, state_, &monitor_)
                                           : nullptr),
      under_way_("operations and messages of group " + options_.name),
      seats_(options_),
      members_(endpoint, GroupTags(options_.name).Control(), &seats_, this, &under_way_),
      operations_(
          endpoint, options_, &seats_, &members_, &under_way_,
          [this](uint64_t turn) { return lane_ != nullptr && lane_->OverMessages(turn); }, &monitor_),
      survivors_(home_, &seats_, &members_, [this](const std::vector<bool>& dead) { EnterEpoch(dead); }) {}

GroupCore::~GroupCore() = default;

std::string GroupCore::NameOf(int rank) const {
  return rank < 0 || rank >= seats_.ranks() ? "" : seats_.OfRank(rank).name;
}

// ---- from Open to Close ----

Status GroupCore::Open() {
  FUSEWIRE_AT_HOME(home_);
  operations_.SetOwner(weak_from_this());
  FUSEWIRE_TRY(members_.Connect(options_.members));
  Publish();
  members_.Listen();
  return Status::Ok();
}

void GroupCore::Publish() {
  monitor_.Renew(seats_);
  state_.idling.store(seats_.idling(), std::memory_order_relaxed);
  state_.rank.store(seats_.rank(), std::memory_order_release);
  state_.ranks.store(seats_.ranks(), std::memory_order_release);
  state_.epoch.store(seats_.epoch(), std::memory_order_release);
  if (lane_ != nullptr) lane_->Reopen(seats_.epoch(), seats_.NamesOfRanks());
  const GroupTags& tags = operations_.tags();
  endpoint_.HandleOffers(tags.First(seats_.epoch()), tags.Last(seats_.epoch()),
                         [core = shared_from_this(), epoch = seats_.epoch()](const p2p::Offer& offer) {
                           return core->OnOffer(offer, epoch);
                         });
}

void GroupCore::Break(const Status& why, bool tell) {
  if (!operations_.broken().ok() || closed_) return;
  if (lane_ != nullptr) lane_->Shut(why);
  if (tell) members_.SendToAll({.verb = ControlVerb::kBroken, .epoch = seats_.epoch(), .status = why});
  operations_.Break(why);
  state_.is_broken.store(true, std::memory_order_release);
}

void GroupCore::Close() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  members_.SendToAll({.verb = ControlVerb::kLeft, .epoch = seats_.epoch()});
  const Status why = Status::Cancelled("the group was closed");
  survivors_.End(why);
  Break(why, false);
  if (lane_ != nullptr) lane_->Shut(why);
  closed_ = true;
  monitor_.Close();
  operations_.Close();
  members_.Close();
}

void GroupCore::Begin(std::unique_ptr<GroupOperation> operation) {
  if (operation->state == GroupOperation::State::kServed) return operations_.TakeServed(std::move(operation));
  if (operation->left_ns == 0) operation->left_ns = TimeoutOf(operation->spec, options_);
  operations_.Begin(std::move(operation));
}

void GroupCore::Cancel(uint64_t number, const Status& why) {
  const Status said = why.ok() ? Status::Cancelled("the caller cancelled it") : why;
  if (lane_ != nullptr && lane_->Cancel(number, said.Peer(seats_.RankText(seats_.rank())))) return;
  operations_.Cancel(number, said);
}

void GroupCore::SendFailed(uint32_t epoch, uint64_t turn, const Status& why) {
  if (epoch != seats_.epoch() || !operations_.broken().ok() || closed_) return;
  Fingerprint place;
  place.epoch = static_cast<uint16_t>(epoch);
  place.turn = turn;
  members_.SendToAll({.verb = ControlVerb::kFailed, .epoch = epoch, .print = place, .status = why});
}

// ---- shrink ----

void GroupCore::BeginShrink(int64_t timeout_ns, Done done) {
  FUSEWIRE_AT_HOME(home_);
  if (closed_ || survivors_.busy())
    return done(closed_ ? Status::Cancelled("the group is closed") : Status::Invalid("the group is shrinking already"));
  Break(Status::Unavailable(seats_.RankText(seats_.rank()) + " has asked to shrink the group")
            .Next("call Shrink at all ranks that are left"),
        true);
  survivors_.Begin(timeout_ns != 0 ? timeout_ns : options_.timeout_ns, std::move(done));
}

void GroupCore::EnterEpoch(const std::vector<bool>& dead) {
  seats_.EnterEpoch(dead);
  operations_.EnterEpoch();
  state_.is_broken.store(false, std::memory_order_release);
  Publish();
  // One of them may have died since it voted.
  for (int seat = 0; seat < seats_.count(); ++seat) {
    if (seats_.at(seat).rank >= 0 && !seats_.at(seat).lost.ok()) Break(LostStatus(seats_, seat), true);
  }
}

// ---- from members ----

void GroupCore::OnLost(int seat) {
  if (seats_.at(seat).left) {
    operations_.OnGoneAfterLeaving(seat);
  } else {
    FUSEWIRE_LOG(kWarn, "group %s: %s is lost: %s", options_.name.c_str(), seats_.Text(seat).c_str(),
                 seats_.at(seat).lost.cause().c_str());
    Break(LostStatus(seats_, seat), true);
  }
  survivors_.OnLost();
}

void GroupCore::OnControl(int seat, const ControlMessage& message) {
  // From a member that was shrunk away, only a vote counts: it is answered with the decision.
  if (seats_.at(seat).rank < 0 && message.verb != ControlVerb::kVote) return;
  switch (message.verb) {
    case ControlVerb::kFailed: return OnFailureMessage(seat, message);
    case ControlVerb::kBroken:
      if (message.epoch == seats_.epoch()) Break(AsReported(message.status, seats_.Text(seat)), true);
      return;
    case ControlVerb::kLeft:
      seats_.MarkLeft(seat);
      operations_.OnLeft(seat);
      // An arena needs all ranks.
      if (lane_ != nullptr) lane_->Shut(Status::Unavailable(seats_.Text(seat) + " has left the group"));
      return;
    case ControlVerb::kVote: return survivors_.OnVote(seat, message);
    case ControlVerb::kDecided: return survivors_.OnDecided(seat, message);
  }
}

// An operation has failed at another rank, so it fails here, now or when it begins.
void GroupCore::OnFailureMessage(int seat, const ControlMessage& message) {
  if (message.epoch != seats_.epoch() || !operations_.broken().ok()) return;
  const Status why = AsReported(message.status, seats_.Text(seat));
  const bool of_lane = lane_ != nullptr && message.print.keyed == 0;
  if (of_lane && lane_->OnFailed(message.print.turn, why)) return;
  operations_.OnFailedElsewhere(message.print, why);
}

p2p::OfferAnswer GroupCore::OnOffer(const p2p::Offer& offer, uint32_t epoch) {
  using p2p::OfferAnswer;
  if (closed_) return OfferAnswer::Refuse(Status::Cancelled("group \"" + options_.name + "\" was closed here"));
  if (offer.tag == operations_.tags().Control()) return OfferAnswer::Defer();
  if (epoch != seats_.epoch() && seats_.SeatOf(offer.peer) >= 0)
    return OfferAnswer::Refuse(Status::Cancelled("this operation has failed here"));
  return operations_.OnOffer(offer);
}

// ---- from threads that wait, and from the lane ----

void GroupCore::SendHome(std::unique_ptr<GroupOperation> operation) {
  operation->core = shared_from_this();
  home_.Post(static_cast<Mail*>(operation.release()));  // it owns itself until it is delivered
}

void GroupCore::OnTurnFailed(uint32_t epoch, uint64_t turn, const Status& why) {
  home_.Post([core = shared_from_this(), epoch, turn, why] { core->SendFailed(epoch, turn, why); });
}

Status GroupCore::RunOverMessages(std::unique_ptr<GroupOperation> operation) {
  reactor::Completion ended;
  operation->number = maker_.NextNumber();
  operation->core = shared_from_this();
  operation->done = [&ended](Status status) { ended.Done(std::move(status)); };
  reactor::CancelToken* const cancel = operation->cancel;
  const auto interrupts = cancel == nullptr ? reactor::Interrupts::kGoOn : cancel->interrupts();
  const auto until = [&] { return cancel == nullptr ? kForeverNs : cancel->NextAskNs(home_.clock()->NowNs()); };
  // If the cancel comes home before the operation, the operation finds its token cancelled when it begins.
  const reactor::CancelHook hook(cancel, [this, number = operation->number] {
    home_.Post([core = shared_from_this(), number] { core->Cancel(number, GivenUp()); });
  });
  bool is_over = ended.PostAndWait(home_, operation.release(), until(), state_.waiting(), interrupts);
  while (!is_over) {
    if (cancel != nullptr) cancel->Ask();
    is_over = ended.Wait(home_, until(), state_.waiting(), interrupts);
  }
  return ended.TakeStatus();
}

}  // namespace fusewire::collective
