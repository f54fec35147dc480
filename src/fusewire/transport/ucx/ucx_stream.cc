// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/ucx_stream.h"

#if FUSEWIRE_HAS_UCX

#include <thread>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

// Cutting does not need the peer, and is quick.
constexpr int64_t kCutNs = 10 * kSecondNs;

}  // namespace

UcxStream::UcxStream(UcxWorker* its_worker, UcxStreamHandler* handler)
    : UcxEnd(its_worker), handler_(*handler), sender_(this, &broken_), receiver_(this, &broken_) {
  if (worker != nullptr) id_ = worker->Add(this);
}

UcxStream::~UcxStream() {
  FUSEWIRE_CHECK(settled());
  if (worker == nullptr) return;
  worker->endpoints().Release(this);
  worker->Remove(id_);
}

void UcxStream::Begin(UcxPeer* peer, uint64_t peer_id) {
  FUSEWIRE_CHECK(worker != nullptr);
  sender_.Begin(peer, peer_id);
  worker->endpoints().Use(peer, this);
}

bool UcxStream::OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous) {
  if (!receiver_.takes()) return false;
  if (record.kind != UcxRecordKind::kTaken) return receiver_.OnRecord(record, data, bytes, rendezvous);
  if (!sender_.OnTaken(record.value)) receiver_.Refuse("took more than we sent");
  return false;
}

void UcxStream::OnPeerFailed(const Status& why) {
  sender_.Lose();
  if (broken_.ok()) broken_ = why;
  DeliverLater();
}

void UcxStream::Cut() {
  if (sender_.peer() != nullptr) worker->endpoints().Break(sender_.peer(), UCS_ERR_ENDPOINT_TIMEOUT);
}

void UcxStream::Settle() {
  DriveUntil([this] { return settled(); });
}

void UcxStream::TakeBackLanding() {
  if (receiver_.lands_aside()) return;
  DriveUntil([this] { return !receiver_.receiving(); });
}

template <class Done>
void UcxStream::DriveUntil(Done done) {
  if (done()) return;
  Clock* clock = worker->progress().home().clock();
  const int64_t began_ns = clock->NowNs();
  bool cut = false;
  while (!done()) {
    if (!Look()) std::this_thread::yield();
    const int64_t waited_ns = clock->NowNs() - began_ns;
    if (!cut && waited_ns > kUcxSettleNs) {
      cut = true;
      Cut();
    }
    // If cutting does not help, UCX would write into memory that is no longer ours.
    FUSEWIRE_CHECK(waited_ns < kCutNs);
  }
}

}  // namespace fusewire::transport

#endif
