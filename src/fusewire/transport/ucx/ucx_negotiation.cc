// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/ucx_negotiation.h"

#if FUSEWIRE_HAS_UCX

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

const char* NameOf(UcxStage stage) {
  switch (stage) {
    case UcxStage::kAsking: return "asking";
    case UcxStage::kListening: return "listening";
    case UcxStage::kStayed: return "stayed";
    case UcxStage::kMoved: return "moved";
  }
  return "unknown";
}

}  // namespace

UcxNegotiation::UcxNegotiation(UcxWorker* worker, uint64_t id, const UcxOptions& options, UcxLowerConnection* lower,
                               std::string dialled)
    : worker_(worker),
      id_(id),
      options_(options),
      lower_(*lower),
      dialled_(std::move(dialled)),
      stage_(listens() ? UcxStage::kListening : UcxStage::kAsking) {
  FUSEWIRE_CHECK(listens() || worker_ != nullptr);
  FUSEWIRE_CHECK((worker_ != nullptr) == (id_ != 0));
}

void UcxNegotiation::Ask() {
  FUSEWIRE_CHECK(stage_ == UcxStage::kAsking);
  Send(UcxControlKind::kHello, 0, worker_->address());
}

Result<UcxNegotiation::Event> UcxNegotiation::OnControl(const UcxControlMessage& message, ConstBytes address) {
  const bool asking = stage_ == UcxStage::kAsking, listening = stage_ == UcxStage::kListening;
  switch (message.kind) {
    case UcxControlKind::kHello:
      if (listening) return OnHello(message, address);
      break;
    case UcxControlKind::kWelcome:
      if (asking) return OnWelcome(message, address);
      break;
    case UcxControlKind::kNo:
      if (asking) return OnNo();
      break;
    case UcxControlKind::kStay:
      if (listens() && !listening) return OnStay();
      break;
    case UcxControlKind::kMove:
      if (moved() && awaits_move()) return OnMove(message);
      break;
    case UcxControlKind::kEnd:
      if (moved() && !std::exchange(ended_, true)) return Event::kEnd;
      break;
  }
  return Status::Corrupt("the peer sent a control message of kind " +
                         std::to_string(static_cast<unsigned>(message.kind)) + ", which does not fit the stage '" +
                         NameOf(stage_) + "' of this end");
}

Status UcxNegotiation::OnStranger() {
  if (stage_ != UcxStage::kListening) {
    return Status::Corrupt("the peer sent no control message, at the stage '" + std::string(NameOf(stage_)) +
                           "' of this end")
        .Next("check what listens at this address");
  }
  stage_ = UcxStage::kStayed;
  lower_.BeginStream();
  return Status::Ok();
}

UcxNegotiation::Event UcxNegotiation::OnHello(const UcxControlMessage& message, ConstBytes address) {
  const auto stay = [this] {
    stage_ = UcxStage::kStayed;
    Send(UcxControlKind::kNo);  // its kStay is the last control message
    return Event::kNone;
  };
  if (worker_ == nullptr || message.id == 0) return stay();
  if (!options_.always && (message.has_rdma == 0 || RdmaDevices().empty())) return stay();
  Result<UcxPeer*> peer = worker_->endpoints().Reach(address);
  if (!peer.ok()) {
    worker_->strangers().LogUnreached(lower_.connection().peer_address(), peer.status());
    return stay();
  }
  // Which endpoint it will be is known when the dialler has named its own.
  AppendBytes(&dialler_address_, address);
  peer_id_ = message.id;
  stage_ = UcxStage::kMoved;
  Send(UcxControlKind::kWelcome, peer.value()->name, worker_->address());
  return Event::kNone;
}

Result<UcxNegotiation::Event> UcxNegotiation::OnMove(const UcxControlMessage& message) {
  const std::vector<uint8_t> dialler = std::exchange(dialler_address_, {});
  peer_ = FUSEWIRE_TRY(worker_->endpoints().Meet(ViewOf(dialler), message.value));
  return Event::kReached;
}

Result<UcxNegotiation::Event> UcxNegotiation::OnWelcome(const UcxControlMessage& message, ConstBytes address) {
  if (message.id == 0) return Status::Corrupt("the id in the peer's welcome is 0");
  peer_ = FUSEWIRE_TRY(worker_->endpoints().Meet(address, message.value));
  peer_id_ = message.id;
  stage_ = UcxStage::kMoved;
  return Event::kReached;
}

void UcxNegotiation::Move(const UcxPeer& peer) {
  FUSEWIRE_CHECK(moved());
  FUSEWIRE_CHECK(!listens());
  Send(UcxControlKind::kMove, peer.name);
}

// The listener has no UCX for it: the dialler confirms that, and its stream begins.
UcxNegotiation::Event UcxNegotiation::OnNo() {
  stage_ = UcxStage::kStayed;
  lower_.BeginStream();
  Send(UcxControlKind::kStay, 0, ViewOf(kept_));
  kept_.clear();
  return Event::kStayed;
}

// At a listener. After kWelcome: the dialler closed before our answer arrived, and what it had written comes this way.
UcxNegotiation::Event UcxNegotiation::OnStay() {
  stage_ = UcxStage::kStayed;
  lower_.BeginStream();
  return Event::kNone;
}

void UcxNegotiation::OnLowerClosed() {
  if (stage_ == UcxStage::kAsking) worker_->strangers().Add(dialled_);
}

void UcxNegotiation::Leave(uint64_t end) {
  if (!lower_.can_send()) return;
  if (stage_ == UcxStage::kMoved) Send(UcxControlKind::kEnd, end);
  if (stage_ == UcxStage::kAsking) Send(UcxControlKind::kStay, 0, ViewOf(kept_));
}

size_t UcxNegotiation::Keep(const ConstBytes* parts, size_t count) {
  FUSEWIRE_CHECK(stage_ == UcxStage::kAsking);
  size_t taken = 0;
  for (size_t i = 0; i < count && kept_.size() < kUcxEarlyBytesMax; ++i) {
    const size_t piece = std::min(parts[i].size, kUcxEarlyBytesMax - kept_.size());
    AppendBytes(&kept_, parts[i].Sub(0, piece));
    taken += piece;
    if (piece < parts[i].size) break;
  }
  FUSEWIRE_CHECK(kept_.size() <= kUcxEarlyBytesMax);
  return taken;
}

std::vector<uint8_t> UcxNegotiation::TakeKept() { return std::exchange(kept_, {}); }

void UcxNegotiation::Send(UcxControlKind kind, uint64_t value, ConstBytes behind) {
  UcxControlMessage message;
  message.kind = kind;
  message.id = id_;
  message.has_rdma = kind == UcxControlKind::kHello && !RdmaDevices().empty() ? 1 : 0;
  message.value = value;
  lower_.Send(message, behind);
}

}  // namespace fusewire::transport

#endif
