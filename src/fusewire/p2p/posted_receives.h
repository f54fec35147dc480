// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Receives that a peer has posted and notified us of: a message to one of them need not be offered first. Pure.
// Home: the endpoint's. Owns: its tables. Fails: never; a notice that does not fit, or is not certain, is dropped, and
// the message is offered.
// A notice may cross a message that names no receive and that the peer will match with this one. The notice says how
// many such messages the peer had seen; so the first with the same tag that was sent since is that message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"

namespace fusewire::p2p {

class PostedReceives {
 public:
  struct Posted {
    uint64_t tag;
    uint64_t receive;
    uint64_t bytes;
  };

  // We are sending a message that names no receive. `offer`: the name of the send, if its body stays here; or 0.
  void OnUnaddressed(uint64_t tag, uint64_t offer) { sent_[unaddressed_++ % kRemembered] = Sent{tag, offer, false}; }
  // False: the peer says that it has seen more such messages than were sent. `crossed`: the offer that this receive
  // will be matched with, or 0.
  bool Add(const Posted& posted, uint64_t seen, uint64_t* crossed) {
    FUSEWIRE_DCHECK(posted.receive != 0);
    FUSEWIRE_DCHECK(count_ <= kPostedMax);
    *crossed = 0;
    if (seen > unaddressed_) return false;
    if (count_ >= kPostedMax || unaddressed_ - seen > kRemembered) return true;
    bool waits = true;
    for (uint64_t i = seen; i < unaddressed_; ++i) {
      Sent& sent = sent_[i % kRemembered];
      if (sent.tag != posted.tag) continue;
      waits = false;
      if (std::exchange(sent.is_met, true)) continue;
      *crossed = sent.offer;
      break;
    }
    if (!waits) return true;
    BucketOf(posted.tag).push_back(posted);
    ++count_;
    return true;
  }
  // Takes the oldest with this tag; `receive` 0: there is none.
  Posted Take(uint64_t tag) {
    if (count_ == 0) return Posted{tag, 0, 0};
    std::vector<Posted>& bucket = BucketOf(tag);
    for (size_t i = 0; i < bucket.size(); ++i) {
      if (bucket[i].tag != tag) continue;
      Posted found = bucket[i];
      bucket.erase(bucket.begin() + static_cast<std::ptrdiff_t>(i));
      FUSEWIRE_DCHECK(count_ > 0);
      FUSEWIRE_DCHECK(found.receive != 0);
      --count_;
      return found;
    }
    return Posted{tag, 0, 0};
  }
  void Clear() {
    for (std::vector<Posted>& bucket : buckets_) bucket.clear();
    count_ = 0;
    unaddressed_ = 0;
  }
  size_t size() const { return count_; }
  uint64_t unaddressed() const { return unaddressed_; }

 private:
  struct Sent {
    uint64_t tag;
    uint64_t offer;
    bool is_met;  // by a receive whose notice it crossed
  };
  static constexpr size_t kRemembered = 256;
  static constexpr size_t kPostedMax = 4096;
  static constexpr int kBucketBits = 6;
  static constexpr size_t kBuckets = size_t{1} << kBucketBits;
  std::vector<Posted>& BucketOf(uint64_t tag) { return buckets_[(tag * 0x9e3779b97f4a7c15ULL) >> (64 - kBucketBits)]; }

  std::array<std::vector<Posted>, kBuckets> buckets_;
  size_t count_ = 0;
  std::array<Sent, kRemembered> sent_{};
  uint64_t unaddressed_ = 0;
};

}  // namespace fusewire::p2p
