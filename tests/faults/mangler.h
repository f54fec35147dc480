// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One fault in one direction of one connection, at a place that a seed has drawn. Bytes in, other bytes out; pure.
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/base/bytes.h"

namespace fusewire::faults {

enum class Fault {
  kNone,
  // At a byte of the stream.
  kFlip,     // one bit
  kDrop,     // some bytes
  kDouble,   // some bytes come twice
  kSwap,     // some bytes come after as many that follow them
  kReplay,   // the last bytes come again
  kGarbage,  // other bytes come in between
  kCut,      // the stream ends
  kReset,    // the connection is reset
  // At a greeting or a frame of the stream.
  kFrameLost,
  kFrameDoubled,
  kFrameSwapped,
  kFrameReplayed,  // the one before comes again
};
constexpr int kFaultMax = static_cast<int>(Fault::kFrameReplayed);
inline bool IsOfFrames(Fault fault) { return fault >= Fault::kFrameLost; }
const char* FaultName(Fault fault);

struct Plan {
  Fault fault = Fault::kNone;
  uint64_t at = 0;     // which byte, or which frame
  uint64_t bytes = 1;  // how many
  int bit = 0;
};

class Mangler {
 public:
  enum class End { kNone, kCut, kReset };
  explicit Mangler(const Plan& plan) : plan_(plan) {}
  std::string Feed(ConstBytes in);
  End end() const { return end_; }
  bool struck() const { return struck_; }

 private:
  void FeedByte(uint8_t byte, std::string* out);
  void Strike(uint8_t byte, std::string* out);
  void FeedFrame(const std::string& frame, std::string* out);
  // How long the frame is that begins there; 0: not known yet.
  static uint64_t FrameBytes(const std::string& begun);

  const Plan plan_;
  bool struck_ = false;
  End end_ = End::kNone;
  uint64_t position_ = 0;  // of the next byte, or the next frame
  uint64_t skip_ = 0;
  std::string last_;      // bytes before here
  std::string taken_;     // bytes or a frame that are held back, or come again
  uint64_t collect_ = 0;  // so many more go to taken_
  uint64_t pass_ = 0;     // and after so many more bytes taken_ comes
  std::string frame_;     // as far as it has come
};

}  // namespace fusewire::faults
