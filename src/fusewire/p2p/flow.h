// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How much two endpoints may send each other unasked: credit for small messages, and a number of offers. Pure.
// Home: the endpoint's. Owns: nothing. Fails: never; who is over it is found out by unexpected.h.
#ifndef FUSEWIRE_P2P_FLOW_H_
#define FUSEWIRE_P2P_FLOW_H_

#include <algorithm>
#include <cstdint>

#include "fusewire/base/check.h"
#include "fusewire/p2p/posted_receives.h"
#include "fusewire/p2p/pushes.h"

namespace fusewire {
namespace p2p {

// What a small message costs of its receiver's memory.
constexpr uint64_t kUnexpectedCostBytes = 64;
inline uint64_t CostOf(uint64_t head_bytes, uint64_t bytes) { return kUnexpectedCostBytes + head_bytes + bytes; }

// The most that a peer may grant in sum: what a number in a frame can say.
constexpr uint64_t kCreditMax = INT64_MAX;

class Flow {
 public:
  // What a peer said when its pipe opened.
  struct Terms {
    uint64_t eager_bytes_max, credit, offers_max;
  };

  // ---- what we send it; all but the pushes is of the pipe in use ----
  uint64_t eager_bytes_max = 0;  // what it takes at once
  uint64_t credit = 0;           // of its memory for small messages
  uint64_t offers_max = 0;
  uint64_t offers_out = 0;  // that it has not answered yet
  PostedReceives posted_receives;
  Pushes pushes;
  // ---- what it sends us ----
  uint64_t promised = 0;  // what it may still send of ours
  uint64_t owed = 0;      // what it gets back with the next credit
  uint64_t offers_held = 0;
  uint64_t unexpected_bytes = 0;  // of it, across pipes
  uint64_t unaddressed_in = 0;    // messages that named no receive

  // Another pipe is in use: `promised_in` is what we said then that it may send, out of unexpected_bytes_max.
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

  // What it gives back. False: more than there can be.
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
  // False: more than it had left.
  bool SpendPromised(uint64_t cost) {
    if (cost > promised) return false;
    promised -= cost;
    return true;
  }
  // An unexpected message of it is held, or an offer of it waits; and no more.
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

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_FLOW_H_
