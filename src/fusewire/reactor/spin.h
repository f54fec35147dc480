// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Learns whether a short spin before parking pays. It does when the next event mostly comes within the spin, and comes
// sooner than it does after parking: where processors are scarce, a spin keeps the peer from its own.
// Home: the thread that runs the loop. Owns: some numbers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fusewire::reactor {

class SpinLearner {
 public:
  // No spin is longer than max_ns; 0 turns spinning off.
  explicit SpinLearner(int64_t max_ns) : max_ns_(max_ns) {}
  int64_t max_ns() const { return max_ns_; }

  // How long to spin now; 0: park at once. Does what pays, and the other thing now and then to compare.
  int64_t NextSpinNs() {
    if (max_ns_ == 0) return 0;
    bool compare = ++waits_since_other_ >= (near() ? kCompareEvery : probe_every_);
    if (compare) waits_since_other_ = 0;
    spins_now_ = pays() != compare;
    if (!spins_now_) return 0;
    return near() ? std::min(max_ns_, 4 * spun_wait_ns_ + kMinNs) : max_ns_;
  }
  // Something came after waited_ns of spinning.
  void Hit(int64_t waited_ns) {
    score_ += (kFull - score_) / 4;
    spun_wait_ns_ += (waited_ns - spun_wait_ns_) / 8;
    probe_every_ = kProbeMin;
  }
  // The spin caught nothing.
  void Miss() {
    score_ -= score_ / 4;
    probe_every_ = std::min(kProbeMax, probe_every_ * 2);
  }
  // Something came waited_ns after the loop ran out of work; it was parked meanwhile.
  void Parked(int64_t waited_ns) {
    if (spins_now_ || waited_ns > 4 * max_ns_) return;  // the spin caught nothing, or none could have caught this
    parked_wait_ns_ = parked_wait_ns_ == 0 ? waited_ns : parked_wait_ns_ + (waited_ns - parked_wait_ns_) / 4;
  }
  bool pays() const { return near() && (parked_wait_ns_ == 0 || spun_wait_ns_ <= parked_wait_ns_); }

 private:
  static constexpr int kFull = 1024, kNear = 512;
  static constexpr int kProbeMin = 4, kProbeMax = 256;
  static constexpr int kCompareEvery = 61;  // odd: the waits of a step alternate, and each kind is compared
  static constexpr int64_t kMinNs = 2000;
  bool near() const { return score_ >= kNear; }

  const int64_t max_ns_;
  int score_ = kFull / 2;  // begins with the benefit of the doubt: one miss ends it
  int64_t spun_wait_ns_ = 10000;
  int64_t parked_wait_ns_ = 0;  // 0: not known yet
  int waits_since_other_ = 0;
  int probe_every_ = kProbeMin;
  bool spins_now_ = false;
};

}  // namespace fusewire::reactor
