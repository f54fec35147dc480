// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Who is there, and what members say to each other. Each listens to each other one: a receive that is always posted
// ends when its peer goes, whether or not an operation has to do with that one just now.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/collective/group/group_core.h"
#include "fusewire/reactor/cpus.h"

namespace fusewire {
namespace collective {
namespace {

// Of a note: whoever does not take it by then has other troubles.
constexpr int64_t kNoteTimeoutNs = 5 * kSecondNs;
// After an attempt to reach a member has failed.
constexpr int64_t kAgainNs = 200 * kMillisecondNs;

}  // namespace

Status GroupCore::Open() {
  FUSEWIRE_AT_HOME(home_);
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    const GroupMember& member = options_.members[i];
    seat.name = member.name;
    seat.rank = static_cast<int>(i);
    if (static_cast<int>(i) == seat_) continue;
    const bool dials = !member.address.host.empty();
    Result<p2p::Peer*> peer = dials ? endpoint_.Connect(member.name, member.address) : endpoint_.Expect(member.name);
    if (!peer.ok()) return peer.status();
    seat.peer = peer.value();
  }
  Renumber();
  if (lane_ != nullptr) lane_->Reopen(epoch_);
  RegisterEpoch();
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].peer != nullptr) Listen(static_cast<int>(i));
  }
  return Status::Ok();
}

void GroupCore::Close() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  Note note;
  note.verb = NoteVerb::kLeft;
  note.epoch = epoch_;
  TellAll(note);
  if (shrinking_ != nullptr) EndShrink(Status::Cancelled("the group was closed"));
  Break(Status::Cancelled("the group was closed"), false);
  if (lane_ != nullptr) lane_->Shut(Status::Cancelled("the group was closed"));
  closed_ = true;
  for (Seat& seat : seats_) {
    if (seat.ear != nullptr) seat.ear->Cancel();
    if (seat.awaiting) seat.awaits->Cancel();
    seat.again.reset();
  }
}

bool GroupCore::idle() const {
  return running_.empty() && ended_.empty() && endpoint_ops_ == 0 &&
         std::all_of(drains_.begin(), drains_.end(), [](const auto& drain) { return drain->Test(); });
}

int GroupCore::SeatOf(const p2p::Peer& peer) const {
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].peer == &peer) return static_cast<int>(i);
  }
  return -1;
}

std::string GroupCore::SeatWords(int seat) const {
  const Seat& of = seats_[static_cast<size_t>(seat)];
  return of.rank >= 0 ? RankWords(of.rank) : of.name;
}

// Ranks are numbers among those who are left.
void GroupCore::Renumber() {
  seats_of_ranks_.clear();
  places_ = options_.places;
  places_.hosts.clear();
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    if (seat.rank < 0) continue;
    seat.rank = static_cast<int>(seats_of_ranks_.size());
    seats_of_ranks_.push_back(static_cast<int>(i));
    if (!options_.places.hosts.empty()) places_.hosts.push_back(options_.places.hosts[i]);
  }
  const std::vector<int>& hosts = places_.hosts;
  // All of them, whatever this rank may use: every rank must come to the same choice.
  if (places_.one_host() && places_.near.cpus == 0) places_.near.cpus = reactor::MachineCpuCount();
  rank_ = seats_[static_cast<size_t>(seat_)].rank;
  if (!hosts.empty()) {
    const auto here = std::count(hosts.begin(), hosts.end(), hosts[static_cast<size_t>(rank_)]);
    const bool crowded = here > reactor::UsableCpuCount();
    idling_.store(crowded ? reactor::Idling::kYields : reactor::Idling::kSpins, std::memory_order_relaxed);
  }
  rank_shown_.store(rank_, std::memory_order_release);
  ranks_shown_.store(static_cast<int>(seats_of_ranks_.size()), std::memory_order_release);
  epoch_shown_.store(epoch_, std::memory_order_release);
}

void GroupCore::RegisterEpoch() {
  const uint64_t base = TagBase(epoch_);
  endpoint_.HandleOffers(
      base, base | (TagBase(0) ^ ControlTag()),
      [core = shared_from_this(), epoch = epoch_](const p2p::Offer& offer) { return core->OnOffer(offer, epoch); });
}

// ---- what others say ----

void GroupCore::Listen(int index) {
  Seat& seat = seats_[static_cast<size_t>(index)];
  if (seat.ear == nullptr) {
    seat.heard.resize(kNoteBytesMax);
    seat.ear = std::make_unique<p2p::ReceiveOp>(endpoint_, seat.peer, ControlTag(),
                                                Bytes(seat.heard.data(), seat.heard.size()));
    seat.ear->timeout_ns = kForeverNs;
    seat.ear->then = [this, index] { OnHeard(index); };
  }
  ++endpoint_ops_;
  seat.ear->Post();
}

void GroupCore::OnHeard(int index) {
  Seat& seat = seats_[static_cast<size_t>(index)];
  --endpoint_ops_;
  const Status status = seat.ear->status();
  if (closed_ || status.code() == Code::kCancelled) return;
  if (!status.ok()) {
    OnLost(index, status);
    return;
  }
  Result<Note> note = DecodeNote(ConstBytes(seat.heard.data(), static_cast<size_t>(seat.ear->bytes)));
  Listen(index);
  if (!note.ok()) {
    OnLost(index, note.status());
    return;
  }
  OnNote(index, note.value());
  // Who has gone meanwhile was missed by the receives that were posted, and we had none.
  if (!seat.peer->up()) OnLost(index, Status::Unavailable("the peer has gone"));
}

// Who says so, besides whom it says it of.
Status GroupCore::AsSaid(int index, const Status& said) const {
  const std::string who = SeatWords(index);
  if (said.peer().empty() || said.peer() == who) return said.Peer(who);
  return Status(said.code(), said.cause() + " (" + who + " says so)").Peer(said.peer()).Next(said.next());
}

void GroupCore::OnNote(int index, const Note& note) {
  Seat& seat = seats_[static_cast<size_t>(index)];
  // Who was shrunk away may ask what was decided, and has no other say.
  if (seat.rank < 0 && note.verb != NoteVerb::kVote) return;
  switch (note.verb) {
    case NoteVerb::kFailed: return OnFailureNote(index, note);
    case NoteVerb::kBroken:
      if (note.epoch == epoch_ && !note.status.ok()) Break(AsSaid(index, note.status), true);
      return;
    case NoteVerb::kLeft:
      seat.left = true;
      for (const auto& [tag, operation] : running_) {
        if (operation->machine != nullptr && seat.rank >= 0) operation->machine->ExpectNoMoreOf(seat.rank);
      }
      // In an arena all wait for all.
      if (lane_ != nullptr) lane_->Shut(Status::Unavailable(SeatWords(index) + " has left the group"));
      return;
    case NoteVerb::kVote: return OnVote(index, note);
    case NoteVerb::kDecided: return OnDecided(index, note);
  }
}

// An operation has failed there: so it fails here, now or when it begins.
void GroupCore::OnFailureNote(int index, const Note& note) {
  if (note.epoch != epoch_ || note.status.ok() || !broken_.ok()) return;
  const uint64_t tag = TagOf(note.print);
  Status why = AsSaid(index, note.status);
  if (lane_ != nullptr && note.print.keyed == 0 && lane_->OnFailed(note.print.turn, why)) return;
  const auto running = running_.find(tag);
  if (running != running_.end() && running->second->print.SamePlace(note.print)) {
    // Who was waited for there may have waited here, for somebody else.
    const std::string late = why.code() == Code::kTimeout ? LateWords(*running->second) : "";
    if (!late.empty()) why = Status::Timeout(why.cause() + "; " + late).Peer(why.peer()).Next(why.next());
    FailOperation(running->second.get(), why, false);
    return;
  }
  if (note.print.keyed == 0 && HasEnded(note.print.turn)) return;  // it has ended here
  if (note.print.keyed != 0) {
    const auto failures = failures_.find(note.print.key);
    if (failures != failures_.end() && note.print.turn < failures->second) return;
  }
  if (failed_.size() < kFailedMax) failed_[tag] = why;
}

// ---- who goes ----

void GroupCore::OnLost(int index, const Status& why) {
  Seat& seat = seats_[static_cast<size_t>(index)];
  if (closed_ || !seat.dead.ok() || seat.rank < 0) return;
  seat.dead = why.ok() ? Status::Unavailable("it is gone") : why;
  if (seat.left) {
    // It said goodbye: only what still needs it fails.
    std::vector<Gated> gated = std::move(seat.gated);
    seat.gated.clear();
    for (const Gated& one : gated) {
      FailOperation(one.machine->operation, Status::Unavailable(SeatWords(index) + " has left the group"), true);
      one.machine->PostSend(one.node);
    }
  } else {
    FUSEWIRE_LOG(kWarn, "group %s: %s is lost: %s", options_.name.c_str(), SeatWords(index).c_str(),
                 why.cause().c_str());
    Break(
        Status(why.code() == Code::kOk ? Code::kUnavailable : why.code(), SeatWords(index) + " is lost: " + why.cause())
            .Peer(SeatWords(index))
            .Next("call Shrink at all ranks that are left, or restart the group"),
        true);
  }
  if (shrinking_ != nullptr) TryDecide();
}

// ---- sends that wait for their peer ----

// A send waits for a peer as long as its operation does: members may come hours later.
void GroupCore::OnAwaited(int index) {
  Seat& seat = seats_[static_cast<size_t>(index)];
  if (seat.awaiting || seat.gated.empty() || closed_) return;
  if (seat.awaits == nullptr) {
    seat.awaits = std::make_unique<p2p::AwaitPeerOp>(endpoint_, *seat.peer);
    seat.again = std::make_unique<reactor::Timer>([this, index] { OnAwaited(index); });
    seat.awaits->then = [this, index] {
      Seat& of = seats_[static_cast<size_t>(index)];
      of.awaiting = false;
      --endpoint_ops_;
      const Status status = of.awaits->status();
      if (closed_ || status.code() == Code::kCancelled) return;
      if (status.ok()) return OpenGate(index);
      if (status.code() == Code::kRefused) return OnLost(index, status);
      home_.Arm(of.again.get(), kAgainNs);
    };
  }
  seat.awaiting = true;
  ++endpoint_ops_;
  seat.awaits->Post();
}

void GroupCore::OpenGate(int index) {
  std::vector<Gated> gated = std::move(seats_[static_cast<size_t>(index)].gated);
  seats_[static_cast<size_t>(index)].gated.clear();
  for (const Gated& one : gated) one.machine->PostSend(one.node);
}

// ---- what we say ----

void GroupCore::TellAll(const Note& note) {
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].peer != nullptr && seats_[i].rank >= 0) Tell(static_cast<int>(i), note);
  }
}

// Null: it is not told.
GroupCore::SentNote* GroupCore::Tell(int index, const Note& note) {
  Seat& seat = seats_[static_cast<size_t>(index)];
  if (!seat.dead.ok() || closed_) return nullptr;
  // Nobody is dialled only to be told that we go.
  if (note.verb == NoteVerb::kLeft && !seat.peer->up()) return nullptr;
  notes_.remove_if([](const SentNote& sent) { return sent.ended; });
  SentNote& sent = notes_.emplace_back();
  sent.text = EncodeNote(note);
  sent.op = std::make_unique<p2p::SendOp>(endpoint_, *seat.peer, ControlTag(), ConstBytes(sent.text));
  sent.op->timeout_ns = kNoteTimeoutNs;
  // Nobody waits for it: its text is ours, and we live as long as the endpoint.
  sent.op->then = [&sent] { sent.ended = true; };
  sent.op->Post();
  return &sent;
}

}  // namespace collective
}  // namespace fusewire
