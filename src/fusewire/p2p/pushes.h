// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Whether the body of an offer goes with it, before anybody has asked for it: as long as the peer's receives wait when
// our messages come. Pure.
// Home: the endpoint's. Owns: nothing. Fails: never; a wrong guess costs the bytes on the wire, and an offer later on.
#ifndef FUSEWIRE_P2P_PUSHES_H_
#define FUSEWIRE_P2P_PUSHES_H_

#include <algorithm>
#include <cstdint>

#include "fusewire/base/check.h"

namespace fusewire {
namespace p2p {

class Pushes {
 public:
  // No more of guesses that the peer has not answered.
  static constexpr uint64_t kUnansweredBytesMax = 512 * 1024;

  bool Worth(uint64_t bytes) const { return distrust_ == 0 && unanswered_ + bytes <= kUnansweredBytesMax; }
  void Pushed(uint64_t bytes) {
    FUSEWIRE_DCHECK(bytes > 0);
    unanswered_ += bytes;
  }
  // It has ended, however.
  void Ended(uint64_t bytes) {
    FUSEWIRE_CHECK(bytes <= unanswered_);
    unanswered_ -= bytes;
  }
  // The receive of one that was pushed, or only offered, waited for it.
  void Waited(bool pushed) {
    FUSEWIRE_DCHECK(distrust_ <= kPenaltyMax);
    if (pushed) {
      penalty_ = std::max(penalty_ / 2, kPenaltyMin);
    } else if (distrust_ > 0) {
      --distrust_;
    }
  }
  // It did not.
  void Late(bool pushed) {
    if (pushed) penalty_ = std::min(penalty_ * 2, kPenaltyMax);
    FUSEWIRE_DCHECK(penalty_ >= kPenaltyMin);
    distrust_ = penalty_;
  }

 private:
  static constexpr uint32_t kPenaltyMin = 1, kPenaltyMax = 256;
  uint32_t distrust_ = kPenaltyMin;  // so many offers have to be awaited first
  uint32_t penalty_ = kPenaltyMin;   // after a wrong guess
  uint64_t unanswered_ = 0;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_PUSHES_H_
