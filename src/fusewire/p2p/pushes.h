// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Decides whether the body of an offer goes with it, before the peer has requested it: as long as the peer's receives
// were posted when our messages came. Pure.
// Home: the endpoint's. Fails: never; a wrong guess costs the bytes on the wire, and a few offers later.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fusewire/base/check.h"

namespace fusewire::p2p {

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

}  // namespace fusewire::p2p
