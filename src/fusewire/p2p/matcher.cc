// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/matcher.h"

#include "fusewire/base/check.h"

namespace fusewire::p2p {

// Operations end before the endpoint goes, and none of them is in a list any more.
Matcher::~Matcher() {
  for (Bucket& bucket : buckets_) FUSEWIRE_DCHECK(bucket.posted.empty());
}

uint64_t Matcher::TagOf(const Op* op) {
  FUSEWIRE_DCHECK(op->kind() == OpKind::kReceive);
  FUSEWIRE_DCHECK(op->run.state == OpRun::State::kPosted);
  return static_cast<const ReceiveOp*>(op)->tag;
}

void Matcher::Post(ReceiveOp* op) {
  FUSEWIRE_DCHECK(op->run.state == OpRun::State::kPosted);
  FUSEWIRE_DCHECK(op->run.order <= last_order_);
  List<Op>& posted = BucketOf(op->tag).posted;
  if (op->run.order == 0) {
    op->run.order = ++last_order_;
    posted.PushBack(op);
    return;
  }
  uint64_t order = op->run.order;
  posted.InsertBefore(posted.Find([order](const Op* other) { return other->run.order > order; }), op);
}

ReceiveOp* Matcher::FindReceive(const PeerLink* peer, uint64_t tag) {
  return static_cast<ReceiveOp*>(BucketOf(tag).posted.Find(
      [peer, tag](const Op* op) { return TagOf(op) == tag && (op->peer() == nullptr || op->peer() == peer); }));
}

bool Matcher::AnyWaits(uint64_t tag, uint64_t before) {
  return BucketOf(tag).posted.Find([tag, before](const Op* op) {
    return TagOf(op) == tag && op->peer() == nullptr && op->run.order < before;
  }) != nullptr;
}

UnexpectedMessage* Matcher::FindUnexpected(const PeerLink* peer, uint64_t tag) {
  return BucketOf(tag).unexpected.Find([peer, tag](const UnexpectedMessage* unexpected) {
    return unexpected->tag == tag && (peer == nullptr || unexpected->peer == peer);
  });
}

UnexpectedMessage* Matcher::FindOffer(const PeerLink* peer, uint64_t tag, uint64_t send) {
  return BucketOf(tag).unexpected.Find([peer, send](const UnexpectedMessage* unexpected) {
    return unexpected->offer && unexpected->peer == peer && unexpected->send == send;
  });
}

UnexpectedMessage* Matcher::New() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<UnexpectedMessage>());
    return all_.back().get();
  }
  UnexpectedMessage* unexpected = free_.back();
  free_.pop_back();
  FUSEWIRE_DCHECK(unexpected->peer == nullptr);
  return unexpected;
}

void Matcher::Add(UnexpectedMessage* unexpected) {
  FUSEWIRE_DCHECK(unexpected->peer != nullptr);
  FUSEWIRE_DCHECK(!unexpected->matched);
  BucketOf(unexpected->tag).unexpected.PushBack(unexpected);
}

void Matcher::Free(UnexpectedMessage* unexpected) {
  FUSEWIRE_CHECK(unexpected->peer != nullptr);  // it is free already
  FUSEWIRE_DCHECK(free_.size() < all_.size());
  unexpected->Unlink();
  unexpected->peer = nullptr;
  unexpected->op = nullptr;
  unexpected->offer = unexpected->confirm = unexpected->arriving = unexpected->matched = false;
  unexpected->cost = 0;
  unexpected->data.Drop();
  unexpected->head.clear();
  free_.push_back(unexpected);
}

std::vector<UnexpectedMessage*> Matcher::AllOf(const PeerLink* peer) {
  std::vector<UnexpectedMessage*> found;
  for (const std::unique_ptr<UnexpectedMessage>& unexpected : all_) {
    if (unexpected->peer == peer) found.push_back(unexpected.get());
  }
  return found;
}

}  // namespace fusewire::p2p
