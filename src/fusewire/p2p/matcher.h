// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Posted receives and unexpected messages: each finds the other by peer and tag, in the order of posting and of
// arrival. Pure: no thread, no pipe.
// Home: the endpoint's. Owns: the unexpected messages; not the receives.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/list.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/p2p/op.h"

namespace fusewire::p2p {

class PeerLink;
class ReceiveOp;

// A message that came before its receive, with its bytes; or an offer that waits at its sender. The word is MPI's.
struct UnexpectedMessage final : ListNode {
  PeerLink* peer = nullptr;
  uint64_t tag = 0;
  uint64_t send = 0;  // its id at the sender
  uint64_t bytes = 0;
  uint64_t cost = 0;        // of the sender's credit; an offer costs none
  bool offer = false;       // its body waits at the sender
  bool confirm = false;     // the sender wants a result
  bool arriving = false;    // `data` is being filled
  bool matched = false;     // a receive was bound to it while it arrived: it is in no list any more
  ReceiveOp* op = nullptr;  // that receive; null: it has ended
  Buffer data;
  std::string head;
};

class Matcher {
 public:
  Matcher() = default;
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // Behind the others; a receive that was posted before goes back to its place.
  void Post(ReceiveOp* op);
  // The first posted receive for such a message, or null; it stays posted.
  ReceiveOp* FindReceive(const PeerLink* peer, uint64_t tag);
  // Whether a receive from any peer waits for this tag, posted before that one.
  bool AnyWaits(uint64_t tag, uint64_t before);
  // The first message for such a receive (peer null: from any peer), or null; it stays there.
  UnexpectedMessage* FindUnexpected(const PeerLink* peer, uint64_t tag);
  // By its sender's id.
  UnexpectedMessage* FindOffer(const PeerLink* peer, uint64_t tag, uint64_t send);
  // An empty one; Add puts it behind the others, Free ends it.
  UnexpectedMessage* New();
  void Add(UnexpectedMessage* unexpected);
  void Free(UnexpectedMessage* unexpected);
  // All of one peer, also those that a receive has been bound to.
  std::vector<UnexpectedMessage*> AllOf(const PeerLink* peer);

 private:
  static constexpr int kBucketBits = 8;
  static constexpr size_t kBuckets = size_t{1} << kBucketBits;
  struct Bucket {
    List<Op> posted;
    List<UnexpectedMessage> unexpected;
  };
  static uint64_t TagOf(const Op* op);
  Bucket& BucketOf(uint64_t tag) { return buckets_[(tag * 0x9e3779b97f4a7c15ULL) >> (64 - kBucketBits)]; }

  uint64_t last_order_ = 0;
  std::vector<std::unique_ptr<UnexpectedMessage>> all_;
  std::vector<UnexpectedMessage*> free_;
  std::array<Bucket, kBuckets> buckets_;
};

}  // namespace fusewire::p2p
