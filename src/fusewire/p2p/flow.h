// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How much two endpoints may send each other without being asked: credit for small messages, a number of offers. Pure.
// Home: the endpoint's. Fails: never; a function that returns false found a peer over its limit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fusewire/base/check.h"
#include "fusewire/p2p/posted_receives.h"

namespace fusewire::p2p {

// Decides whether the body of an offer is sent with it, before the peer has requested it: it is while the peer's
// receives are posted before our messages arrive. A wrong guess costs the bytes on the wire, and a few offers later.
class Pushes {
 public:
  // The most bytes that may be pushed and not answered.
  static constexpr uint64_t kUnansweredBytesMax = 512 * 1024;

  bool Worth(uint64_t bytes) const { return distrust_ == 0 && unanswered_ + bytes <= kUnansweredBytesMax; }
  void Pushed(uint64_t bytes) {
    FUSEWIRE_DCHECK(bytes > 0);
    unanswered_ += bytes;
  }
  // The send has ended, well or not.
  void Ended(uint64_t bytes) {
    FUSEWIRE_CHECK(bytes <= unanswered_);
    unanswered_ -= bytes;
  }
  // The receive was posted before the message came, which was pushed, or only offered.
  void Waited(bool pushed) {
    FUSEWIRE_DCHECK(distrust_ <= kPenaltyMax);
    if (pushed) {
      penalty_ = std::max(penalty_ / 2, kPenaltyMin);
    } else if (distrust_ > 0) {
      --distrust_;
    }
  }
  // The receive was posted after the message came.
  void Late(bool pushed) {
    if (pushed) penalty_ = std::min(penalty_ * 2, kPenaltyMax);
    FUSEWIRE_DCHECK(penalty_ >= kPenaltyMin);
    distrust_ = penalty_;
  }

 private:
  static constexpr uint32_t kPenaltyMin = 1, kPenaltyMax = 256;
  uint32_t distrust_ = kPenaltyMin;  // how many offers have to find their receives posted before the next push
  uint32_t penalty_ = kPenaltyMin;   // the value of distrust_ after a wrong guess
  uint64_t unanswered_ = 0;
};

// The credit that a small message costs: what it takes of its receiver's memory.
constexpr uint64_t kUnexpectedCostBytes = 64;
inline uint64_t CostOf(uint64_t head_bytes, uint64_t bytes) { return kUnexpectedCostBytes + head_bytes + bytes; }

// The most credit that a peer may grant in sum: the largest count that a frame holds.
constexpr uint64_t kCreditMax = INT64_MAX;

class Flow {
 public:
  // The limits in a peer's open.
  struct Terms {
    uint64_t eager_bytes_max, credit, offers_max;
  };

  // ---- what we send; all but the pushes counts for the pipe in use ----
  uint64_t eager_bytes_max = 0;  // the largest message that it takes at once
  uint64_t credit = 0;           // that is left of its memory for small messages
  uint64_t offers_max = 0;
  uint64_t offers_out = 0;  // that the peer has not answered yet
  PostedReceives posted_receives;
  Pushes pushes;
  // ---- what the peer sends ----
  uint64_t promised = 0;  // credit that it has left
  uint64_t owed = 0;      // credit that it gets back with the next credit frame
  uint64_t offers_held = 0;
  uint64_t unexpected_bytes = 0;  // cost of its unexpected messages, across pipes
  uint64_t unaddressed_in = 0;    // its messages that named no receive

  // A new pipe is in use. `promised_in`: the credit in our open on this pipe, out of unexpected_bytes_max.
  void Begin(const Terms& terms, uint64_t promised_in, uint64_t unexpected_bytes_max) {
    FUSEWIRE_DCHECK(promised_in <= unexpected_bytes_max);
    FUSEWIRE_DCHECK(offers_held == 0);
    FUSEWIRE_DCHECK(terms.offers_max > 0);
    eager_bytes_max = terms.eager_bytes_max;
    credit = terms.credit;
    offers_max = terms.offers_max;
    promised = promised_in;
    owed = unexpected_bytes_max - promised - std::min(unexpected_bytes, unexpected_bytes_max - promised);
    offers_out = unaddressed_in = 0;
    posted_receives.Clear();
    FUSEWIRE_DCHECK(promised + owed <= unexpected_bytes_max);
  }

  // The peer gives credit back. False: the sum is over kCreditMax.
  bool AddCredit(uint64_t bytes) {
    if (bytes > kCreditMax - std::min(credit, kCreditMax)) return false;
    credit += bytes;
    return true;
  }
  bool TakesEager(uint64_t bytes, uint64_t cost) const { return bytes <= eager_bytes_max && cost <= credit; }
  void SpendCredit(uint64_t cost) {
    FUSEWIRE_DCHECK(cost <= credit);
    credit -= cost;
  }
  bool TakesOffer() const { return offers_out < offers_max; }
  void OfferSent() {
    FUSEWIRE_DCHECK(TakesOffer());
    ++offers_out;
  }
  void OfferEnded() {
    FUSEWIRE_CHECK(offers_out > 0);
    --offers_out;
  }
  // False: the peer spends more than it had left.
  bool SpendPromised(uint64_t cost) {
    if (cost > promised) return false;
    promised -= cost;
    return true;
  }
  // An unexpected message of the peer is held, or an offer of it waits; Freed: it no longer does.
  void Held(bool offer, uint64_t cost) {
    FUSEWIRE_DCHECK(offer == (cost == 0));  // small messages are paid for, offers are counted
    if (offer) ++offers_held;
    unexpected_bytes += cost;
  }
  void Freed(bool offer, uint64_t cost) {
    FUSEWIRE_CHECK(!offer || offers_held > 0);
    FUSEWIRE_CHECK(cost <= unexpected_bytes);
    if (offer) --offers_held;
    unexpected_bytes -= cost;
  }
};

}  // namespace fusewire::p2p
