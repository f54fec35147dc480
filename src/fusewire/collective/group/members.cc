// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/members.h"

#include <algorithm>

namespace fusewire::collective {
namespace {

// The timeout of a control message: a member that has not received it by then has failed in another way.
constexpr int64_t kControlTimeoutNs = 5 * kSecondNs;
// The delay after a failed attempt to reach a member.
constexpr int64_t kAgainNs = 200 * kMillisecondNs;
// The most answers to one member that are under way.
constexpr std::ptrdiff_t kAnswersMax = 4;

}  // namespace

Members::Members(p2p::Endpoint& endpoint, uint64_t control_tag, Seats* seats, MemberHandler* handler,
                 reactor::Drain* under_way)
    : endpoint_(endpoint),
      home_(endpoint.home()),
      control_tag_(control_tag),
      seats_(seats),
      handler_(handler),
      under_way_(under_way),
      listeners_(static_cast<size_t>(seats->count())) {}

Status Members::Connect(const std::vector<GroupMember>& members) {
  FUSEWIRE_CHECK(members.size() == listeners_.size());
  for (int seat = 0; seat < seats_->count(); ++seat) {
    if (seat == seats_->own()) continue;
    const GroupMember& member = members[static_cast<size_t>(seat)];
    const bool dials = !member.address.host.empty();
    p2p::Peer* peer =
        FUSEWIRE_TRY(dials ? endpoint_.Connect(member.name, member.address) : endpoint_.Expect(member.name));
    seats_->SetPeer(seat, peer);
  }
  return Status::Ok();
}

void Members::Close() {
  closed_ = true;
  for (Listener& listener : listeners_) {
    if (listener.receive != nullptr) listener.receive->Cancel();
    if (listener.awaiting) listener.awaits->Cancel();
    listener.again.reset();
  }
}

// ---- control messages from other members ----

void Members::Listen() {
  for (int seat = 0; seat < seats_->count(); ++seat) {
    if (seat != seats_->own()) ListenTo(seat);
  }
}

void Members::ListenTo(int seat) {
  Listener& listener = ListenerOf(seat);
  if (listener.receive == nullptr) {
    listener.heard.resize(kControlBytesMax);
    listener.receive = std::make_unique<p2p::ReceiveOp>(endpoint_, seats_->at(seat).peer, control_tag_,
                                                        Bytes(listener.heard.data(), listener.heard.size()));
    listener.receive->timeout_ns = kForeverNs;
    listener.receive->then = [this, seat] { OnHeard(seat); };
  }
  under_way_->Open();
  listener.receive->Post();
}

void Members::OnHeard(int seat) {
  Listener& listener = ListenerOf(seat);
  under_way_->Close();
  const Status status = listener.receive->status();
  if (closed_ || status.code() == Code::kCancelled) return;
  if (!status.ok()) return Lose(seat, status);
  FUSEWIRE_CHECK(listener.receive->bytes <= listener.heard.size());
  Result<ControlMessage> message =
      DecodeControl(ConstBytes(listener.heard.data(), static_cast<size_t>(listener.receive->bytes)));
  ListenTo(seat);
  if (!message.ok()) return Lose(seat, message.status());
  handler_->OnControl(seat, message.value());
  // If the peer went down between the two receives, no receive of this seat has reported it.
  if (!seats_->at(seat).peer->up()) Lose(seat, Status::Unavailable("the peer has gone"));
}

void Members::Lose(int seat, const Status& why) {
  const Seat& of = seats_->at(seat);
  if (closed_ || !of.lost.ok() || of.rank < 0) return;
  seats_->MarkLost(seat, why);
  handler_->OnLost(seat);
}

// ---- sends that wait for their peer ----

void Members::AwaitPeer(int seat) {
  Listener& listener = ListenerOf(seat);
  if (listener.awaiting || closed_) return;
  if (listener.awaits == nullptr) {
    listener.awaits = std::make_unique<p2p::AwaitPeerOp>(endpoint_, *seats_->at(seat).peer);
    listener.again = std::make_unique<reactor::Timer>([this, seat] {
      if (handler_->WaitsToReach(seat)) AwaitPeer(seat);
    });
    listener.awaits->then = [this, seat] { OnAwaited(seat); };
  }
  listener.awaiting = true;
  under_way_->Open();
  listener.awaits->Post();
}

void Members::OnAwaited(int seat) {
  Listener& listener = ListenerOf(seat);
  FUSEWIRE_DCHECK(listener.awaiting);
  listener.awaiting = false;
  under_way_->Close();
  const Status status = listener.awaits->status();
  if (closed_ || status.code() == Code::kCancelled) return;
  if (status.ok()) return handler_->OnReached(seat);
  if (status.code() == Code::kRefused) return Lose(seat, status);
  home_.Arm(listener.again.get(), kAgainNs);
}

// ---- control messages to other members ----

void Members::SendToAll(const ControlMessage& message) {
  for (int seat = 0; seat < seats_->count(); ++seat) {
    if (seat != seats_->own() && seats_->at(seat).rank >= 0) Send(seat, message);
  }
}

void Members::Answer(int seat, const ControlMessage& message) {
  const auto to_it = std::count_if(sent_.begin(), sent_.end(), [seat](const SentControl& sent) {
    return !sent.ended && sent.answers && sent.seat == seat;
  });
  if (to_it < kAnswersMax) SendCounted(seat, message, true);
}

void Members::SendCounted(int seat, const ControlMessage& message, bool answers) {
  FUSEWIRE_CHECK(SaysWhy(message.verb) != message.status.ok());
  FUSEWIRE_CHECK(message.seats.size() <= kControlSeatsMax);
  const Seat& to = seats_->at(seat);
  if (!to.lost.ok() || closed_) return;
  // No member is dialled only for a kLeft.
  if (message.verb == ControlVerb::kLeft && !to.peer->up()) return;
  sent_.remove_if([](const SentControl& sent) { return sent.ended; });
  SentControl& sent = sent_.emplace_back();
  sent.text = EncodeControl(message);
  sent.seat = seat;
  sent.answers = answers;
  sent.op = std::make_unique<p2p::SendOp>(endpoint_, *to.peer, control_tag_, ConstBytes(sent.text));
  sent.op->timeout_ns = kControlTimeoutNs;
  // No thread waits for it: this object owns its text, and lives as long as the endpoint.
  sent.op->then = [&sent] { sent.ended = true; };
  sent.op->Post();
}

}  // namespace fusewire::collective
