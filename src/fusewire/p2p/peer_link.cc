// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/peer_link.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"

namespace fusewire {
namespace p2p {

PeerLink::PeerLink(Core& core, std::string name) : Peer(std::move(name)), core_(core), words_(name_) {}

PeerLink::~PeerLink() {
  // First: operations end while they go, and say whom they were with.
  dialed_.reset();
  retired_.clear();
}

void PeerLink::SetAddress(const transport::Address& address) {
  if (dialed_ != nullptr && dialed_->address().ToString() == address.ToString()) return;
  if (dialed_ != nullptr) {
    // It may be the pipe in use, or be asking for one: it goes when the endpoint does.
    if (dialed_.get() != active_) dialed_->Close(Status::Cancelled("the peer has another address now"));
    retired_.push_back(std::move(dialed_));
  }
  dialed_ = std::make_unique<DialedLane>(core_, *this, address);
}

void PeerLink::Want() {
  if (active_ == nullptr && dialed_ != nullptr) dialed_->Want();
}

std::vector<Lane*> PeerLink::Lanes() { return open_; }

std::string PeerLink::Words() const { return words_; }

bool PeerLink::Decides() const { return core_.name() < name_; }

bool PeerLink::Leave(bool at_once, const Status& why) {
  const auto holds_back = [at_once](Lane* lane) {
    return !at_once && lane->pipe() != nullptr && lane->pipe()->holds_express_back();
  };
  std::vector<Lane*> open = open_;
  for (Lane* lane : open) {
    if (!holds_back(lane)) lane->Close(why);
  }
  if (dialed_ != nullptr && !holds_back(dialed_.get())) dialed_->Close(why);
  return open_.empty();
}

// ---- which pipe ----

void PeerLink::OnLaneOpen(Lane* lane) {
  open_.push_back(lane);
  if (met_ != lane->info.incarnation) {
    met_ = lane->info.incarnation;
    used_ = lost_ = 0;
  }
  SayOpen(lane);
}

void PeerLink::SayOpen(Lane* lane) {
  lane->said_open = true;
  const Limits& limits = core_.limits();
  // What is still kept of it counts against what it may send now.
  uint64_t room = limits.kept_bytes_max - std::min(limits.kept_bytes_max, kept_bytes);
  lane->promised = room;
  core_.Say(lane, wire::P2pVerb::kOpen, 0, wire::kP2pVersion,
            {core_.incarnation(), lost_, core_.eager_bytes_max(), room, limits.offers_max});
}

Status PeerLink::OnOpenSaid(Lane* lane, const wire::P2pMessage& message) {
  if (std::exchange(lane->heard_open, true)) return Status::Corrupt("open: said twice");
  if (message.aux != wire::kP2pVersion) {
    return Status::Refused("the peer's endpoints speak version " + std::to_string(message.aux) + ", ours " +
                           std::to_string(wire::kP2pVersion))
        .Next("run the same version of Fusewire in both tasks");
  }
  lane->open = message;
  if (!Decides()) return Status::Ok();
  // The peer knows of no pipe that we still use, or is another than it was: ours is dead, and we have not heard of it.
  bool other = active_ != nullptr && active_->info.incarnation != lane->info.incarnation;
  bool lost = active_ != nullptr && used_ != 0 && message.numbers[1] == used_;
  if (active_ != nullptr && active_->pipe() != nullptr && !other && !lost) {
    lane->Close(Status::Cancelled("the two are connected already").Phase("greeting"));
    return Status::Ok();
  }
  core_.Say(lane, wire::P2pVerb::kUse, ++used_, 0, {});
  Use(lane, used_);
  return Status::Ok();
}

Status PeerLink::OnUseSaid(Lane* lane, uint64_t count) {
  if (Decides()) return Status::Corrupt("use: from the endpoint whose name comes second");
  if (!lane->heard_open) return Status::Corrupt("use: before open");
  if (count <= used_ && met_ == lane->info.incarnation)
    return Status::Corrupt("use: " + std::to_string(count) + " again");
  Use(lane, count);
  return Status::Ok();
}

void PeerLink::Use(Lane* lane, uint64_t count) {
  used_ = count;
  if (active_ != nullptr) {
    Lane* old = active_;
    Status why = Status::Unavailable("the peer came with a new connection").Phase("greeting").Next("post it again");
    Down(why);
    old->Close(why);
  }
  active_ = lane;
  words_ = lane->info.ToString();
  last_failure_ = Status::Ok();
  eager_bytes_max = std::min<uint64_t>(lane->open.numbers[2], core_.eager_bytes_max());
  credit = lane->open.numbers[3];
  offers_max = std::clamp<uint64_t>(lane->open.numbers[4], 1, core_.limits().offers_max);
  promised = lane->promised;
  owed = core_.limits().kept_bytes_max - promised - std::min(kept_bytes, core_.limits().kept_bytes_max - promised);
  offers_out = unaddressed_in = 0;
  aheads.Clear();
  uint64_t before = incarnation_.exchange(lane->info.incarnation);
  wire_.store(lane->info.wire, std::memory_order_release);
  up_.store(true, std::memory_order_release);
  core_.OnPeerUp(this, before != 0 && before != lane->info.incarnation);
}

void PeerLink::OnLaneClosed(Lane* lane, const Status& why) {
  open_.erase(std::remove(open_.begin(), open_.end(), lane), open_.end());
  for (Arriving& one : lane->arriving) {
    if (one.used && one.kept != nullptr) core_.OnKeptLost(one.kept);
    one.used = false;
  }
  if (active_ == lane) {
    lost_ = used_;
    Down(why);
  }
  if (core_.HasOpsOf(this)) Want();
}

void PeerLink::Down(const Status& why) {
  active_ = nullptr;
  last_failure_ = why;
  up_.store(false, std::memory_order_release);
  core_.OnPeerDown(this, why);
}

void PeerLink::OnDialFailed(const Status& why) {
  if (active_ != nullptr) return;
  last_failure_ = why;
  core_.OnDialFailed(this, why);
  if (core_.HasOpsOf(this)) Want();
}

}  // namespace p2p
}  // namespace fusewire
