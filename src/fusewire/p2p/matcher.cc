// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/matcher.h"

namespace fusewire {
namespace p2p {

uint64_t Matcher::TagOf(const Op* op) { return static_cast<const ReceiveOp*>(op)->tag; }

void Matcher::Post(ReceiveOp* op) {
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

Kept* Matcher::FindKept(const PeerLink* peer, uint64_t tag) {
  return BucketOf(tag).kept.Find(
      [peer, tag](const Kept* kept) { return kept->tag == tag && (peer == nullptr || kept->peer == peer); });
}

Kept* Matcher::FindOffer(const PeerLink* peer, uint64_t tag, uint64_t send) {
  return BucketOf(tag).kept.Find(
      [peer, send](const Kept* kept) { return kept->offer && kept->peer == peer && kept->send == send; });
}

Kept* Matcher::New() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Kept>());
    return all_.back().get();
  }
  Kept* kept = free_.back();
  free_.pop_back();
  return kept;
}

void Matcher::Free(Kept* kept) {
  kept->Unlink();
  kept->peer = nullptr;
  kept->op = nullptr;
  kept->offer = kept->confirm = kept->arriving = kept->matched = false;
  kept->cost = 0;
  kept->data.Drop();
  kept->head.clear();
  free_.push_back(kept);
}

std::vector<Kept*> Matcher::AllOf(const PeerLink* peer) {
  std::vector<Kept*> found;
  for (const std::unique_ptr<Kept>& kept : all_) {
    if (kept->peer == peer) found.push_back(kept.get());
  }
  return found;
}

}  // namespace p2p
}  // namespace fusewire
