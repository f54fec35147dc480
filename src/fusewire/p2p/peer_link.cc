// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/peer_link.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::p2p {
namespace {

Status WasClosed() {
  return Status::Unavailable("the endpoint was closed").Next("nothing, if its task was meant to end");
}

}  // namespace

PeerLink::PeerLink(const Self& self, Verbs& verbs, PeerHandler& handler, reactor::Drain& drain, std::string name)
    : Peer(std::move(name)), self_(self), verbs_(verbs), handler_(handler), drain_(drain), description_(name_) {}

PeerLink::~PeerLink() {
  // First: operations end while the lanes go, and their errors name this peer.
  dialed_.reset();
  retired_.clear();
  FUSEWIRE_DCHECK(waiting.empty());
}

void PeerLink::SetAddress(const transport::Address& address) {
  if (dialed_ != nullptr && dialed_->IsTo(address)) return;
  if (dialed_ != nullptr) {
    // It may be in use, or be connecting: it is destroyed with the endpoint.
    if (dialed_.get() != active_) dialed_->Close(Status::Cancelled("the peer has another address now"));
    retired_.push_back(std::move(dialed_));
  }
  dialed_ = handler_.Dial(*this, address);
}

void PeerLink::Want() {
  if (active_ == nullptr && dialed_ != nullptr) dialed_->Want();
}

void PeerLink::Leave(bool at_once, const Status& why) {
  std::vector<Lane*> lanes = open_;
  if (dialed_ != nullptr) lanes.push_back(dialed_.get());  // it may be connecting
  for (Lane* lane : lanes) {
    if (at_once) {
      lane->Close(why);
    } else {
      lane->Leave(why);
    }
  }
}

void PeerLink::AbandonRegion(uint64_t region, const Status& why) {
  std::vector<Lane*> open = open_;
  for (Lane* lane : open) lane->AbandonRegion(region, why);
}

// ---- which pipe ----

void PeerLink::OnLaneOpen(Lane* lane) {
  FUSEWIRE_DCHECK(std::find(open_.begin(), open_.end(), lane) == open_.end());
  open_.push_back(lane);
  drain_.Open();
  if (met_ != lane->info.incarnation) {
    met_ = lane->info.incarnation;
    used_ = lost_ = 0;
  }
  FUSEWIRE_DCHECK(!lane->open_sent);
  FUSEWIRE_DCHECK(!lane->open_received);
  SendOpen(lane);
}

void PeerLink::SendOpen(Lane* lane) {
  lane->open_sent = true;
  const Limits& limits = self_.limits;
  // The peer's unexpected messages that are still held count against its new credit.
  uint64_t room = limits.unexpected_bytes_max - std::min(limits.unexpected_bytes_max, flow.unexpected_bytes);
  lane->promised = room;
  verbs_.Send(lane, wire::P2pVerb::kOpen, 0, wire::kP2pVersion,
              {self_.incarnation, lost_, self_.eager_bytes_max, room, limits.offers_max});
}

Status PeerLink::OnOpen(Lane* lane, const wire::P2pMessage& message) {
  if (std::exchange(lane->open_received, true)) return Status::Corrupt("open: for the second time");
  if (message.aux != wire::kP2pVersion) {
    return Status::Refused("the peer's endpoints speak version " + std::to_string(message.aux) + ", ours " +
                           std::to_string(wire::kP2pVersion))
        .Next("run the same version of Fusewire in both tasks");
  }
  if (message.numbers[3] > kCreditMax) {
    return Status::Corrupt("open: credit " + std::to_string(message.numbers[3]) + ", limit " +
                           std::to_string(kCreditMax));
  }
  lane->open = message;
  if (!Decides()) return Status::Ok();
  // The peer has lost the pipe that we use, or is another incarnation: our pipe is dead, and we do not know it yet.
  bool other = active_ != nullptr && active_->info.incarnation != lane->info.incarnation;
  bool lost = active_ != nullptr && used_ != 0 && message.numbers[1] == used_;
  if (active_ != nullptr && active_->pipe() != nullptr && !other && !lost) {
    lane->Close(Status::Cancelled("the two endpoints are connected already").Phase("greeting"));
    return Status::Ok();
  }
  verbs_.Send(lane, wire::P2pVerb::kUse, ++used_, 0, {});
  Use(lane, used_);
  return Status::Ok();
}

Status PeerLink::OnUse(Lane* lane, uint64_t count) {
  if (Decides()) return Status::Corrupt("use: from the endpoint whose name sorts second");
  if (!lane->open_received) return Status::Corrupt("use: before open");
  if (count <= used_ && met_ == lane->info.incarnation)
    return Status::Corrupt("use: " + std::to_string(count) + " again");
  if (lane == active_) return Status::Corrupt("use: " + std::to_string(count) + " of the pipe that is in use");
  Use(lane, count);
  return Status::Ok();
}

void PeerLink::Use(Lane* lane, uint64_t count) {
  FUSEWIRE_DCHECK(lane->open_sent);
  FUSEWIRE_DCHECK(lane->open_received);
  FUSEWIRE_DCHECK(std::find(open_.begin(), open_.end(), lane) != open_.end());
  used_ = count;
  if (active_ != nullptr) {
    Lane* old = active_;
    Status why = Status::Unavailable("the peer opened a new connection").Phase("greeting").Next("post it again");
    Down(why);
    old->Close(why);
  }
  active_ = lane;
  description_ = lane->info.ToString();
  last_failure_ = Status::Ok();
  flow.Begin(Flow::Terms{std::min<uint64_t>(lane->open.numbers[2], self_.eager_bytes_max), lane->open.numbers[3],
                         std::max<uint64_t>(1, std::min<uint64_t>(lane->open.numbers[4], self_.limits.offers_max))},
             lane->promised, self_.limits.unexpected_bytes_max);
  uint64_t before = incarnation_.exchange(lane->info.incarnation);
  wire_.store(lane->info.wire, std::memory_order_release);
  up_.store(true, std::memory_order_release);
  handler_.OnPeerUp(this, before != 0 && before != lane->info.incarnation);
}

void PeerLink::OnLaneClosed(Lane* lane, const Status& why) {
  const auto place = std::find(open_.begin(), open_.end(), lane);
  if (place != open_.end()) {
    open_.erase(place);
    drain_.Close();
  }
  for (Arriving& one : lane->arriving) {
    if (one.used && one.unexpected != nullptr) handler_.OnUnexpectedLost(one.unexpected);
    one.used = false;
  }
  if (active_ == lane) {
    lost_ = used_;
    Down(why);
  }
  if (handler_.Needs(*this)) Want();
}

void PeerLink::Down(const Status& why) {
  FUSEWIRE_CHECK(active_ != nullptr);
  FUSEWIRE_DCHECK(!why.ok());
  active_ = nullptr;
  last_failure_ = why;
  up_.store(false, std::memory_order_release);
  handler_.OnPeerDown(this, why);
}

void PeerLink::OnDialFailed(const Status& why) {
  if (active_ != nullptr) return;
  last_failure_ = why;
  handler_.OnDialFailed(this, why);
  if (handler_.Needs(*this)) Want();
}

// ---- the peers of an endpoint ----

Result<PeerLink*> Peers::Named(const std::string& name) {
  // A peer may still have been greeting when we closed: its pipe must not begin again.
  if (closed_) return WasClosed();
  auto found = peers_.find(name);
  if (found != peers_.end()) return found->second.get();
  if (name.empty() || name == self_.name) {
    return Status::Refused(name.empty() ? "name: the peer has none" : "name: the peer has our own, \"" + name + "\"")
        .Phase("greeting")
        .Next("give every endpoint a name of its own");
  }
  if (peers_.size() >= self_.limits.peers_max) {
    return Status::Overloaded("peers_max (" + std::to_string(self_.limits.peers_max) + ") is reached")
        .Phase("greeting")
        .Next("raise Limits::peers_max, or use fewer names");
  }
  return (peers_[name] = std::make_unique<PeerLink>(self_, verbs_, handler_, drain_, name)).get();
}

void Peers::Clear() {
  FUSEWIRE_DCHECK(closed_);
  peers_.clear();
}

void Peers::Leave(bool at_once) {
  FUSEWIRE_DCHECK(closed_);
  for (auto& [name, peer] : peers_) peer->Leave(at_once, WasClosed());
}

void Peers::AbandonRegion(uint64_t region, const Status& why) {
  for (auto& [name, peer] : peers_) peer->AbandonRegion(region, why);
}

}  // namespace fusewire::p2p
