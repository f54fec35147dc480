// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "mangler.h"

#include <algorithm>
#include <cstring>

#include "fusewire/wire/hello.h"
#include "fusewire/wire/wire.h"

namespace fusewire::faults {
namespace {

constexpr size_t kLastBytes = 512;
constexpr uint64_t kChunkBytes = 256 * 1024;  // as peers agree on by default

template <class Number>
uint64_t NumberAt(const std::string& bytes, size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

}  // namespace

const char* FaultName(Fault fault) {
  static const char* const names[] = {"none",          "flip",           "drop",          "double", "swap",
                                      "replay",        "garbage",        "cut",           "reset",  "frame lost",
                                      "frame doubled", "frames swapped", "frame replayed"};
  return names[static_cast<int>(fault)];
}

std::string Mangler::Feed(ConstBytes in) {
  std::string out;
  if (!IsOfFrames(plan_.fault)) {
    for (size_t i = 0; i < in.size && end_ == End::kNone; ++i) FeedByte(in.data[i], &out);
    return out;
  }
  frame_.append(reinterpret_cast<const char*>(in.data), in.size);
  for (;;) {
    uint64_t bytes = FrameBytes(frame_);
    if (bytes == 0 || frame_.size() < bytes) return out;
    FeedFrame(frame_.substr(0, bytes), &out);
    frame_.erase(0, bytes);
  }
}

void Mangler::FeedByte(uint8_t byte, std::string* out) {
  if (plan_.fault != Fault::kNone && position_ == plan_.at) {
    struck_ = true;
    Strike(byte, out);
  } else if (skip_ > 0) {
    --skip_;
  } else if (collect_ > 0 && plan_.fault == Fault::kSwap) {
    --collect_;
    taken_.push_back(static_cast<char>(byte));
  } else {
    out->push_back(static_cast<char>(byte));
    if (collect_ > 0) {
      --collect_;
      taken_.push_back(static_cast<char>(byte));
    }
    if (pass_ > 0 && --pass_ == 0) *out += taken_;
  }
  ++position_;
  if (plan_.fault == Fault::kReplay && !struck_) {
    last_.push_back(static_cast<char>(byte));
    if (last_.size() > kLastBytes) last_.erase(0, last_.size() - kLastBytes);
  }
}

void Mangler::Strike(uint8_t byte, std::string* out) {
  auto character = static_cast<char>(byte);
  switch (plan_.fault) {
    case Fault::kFlip: out->push_back(static_cast<char>(byte ^ (1 << plan_.bit))); return;
    case Fault::kDrop: skip_ = plan_.bytes - 1; return;
    case Fault::kDouble:
      out->push_back(character);
      taken_ = character;
      collect_ = plan_.bytes - 1;
      pass_ = plan_.bytes - 1;
      if (pass_ == 0) *out += taken_;
      return;
    case Fault::kSwap:
      taken_ = character;
      collect_ = plan_.bytes - 1;
      pass_ = plan_.bytes;
      return;
    case Fault::kReplay:
      *out += last_.substr(last_.size() - std::min<size_t>(last_.size(), plan_.bytes));
      out->push_back(character);
      return;
    case Fault::kGarbage:
      for (uint64_t i = 0; i < plan_.bytes; ++i) out->push_back(static_cast<char>(i * 37 + plan_.at));
      out->push_back(character);
      return;
    case Fault::kCut: end_ = End::kCut; return;
    case Fault::kReset: end_ = End::kReset; return;
    default: out->push_back(character); return;
  }
}

uint64_t Mangler::FrameBytes(const std::string& begun) {
  if (begun.size() < 2) return 0;
  if (begun[1] == 'U') {  // FUSEWIRE: a greeting
    return begun.size() < wire::kGreetingPrefixBytes ? 0 : wire::kGreetingPrefixBytes + NumberAt<uint16_t>(begun, 14);
  }
  if (begun.size() < wire::kHeaderBytes) return 0;
  return wire::kHeaderBytes + NumberAt<uint32_t>(begun, 12) + std::min(NumberAt<uint64_t>(begun, 32), kChunkBytes);
}

void Mangler::FeedFrame(const std::string& frame, std::string* out) {
  bool here = position_++ == plan_.at;
  if (here) struck_ = true;
  if (here && plan_.fault == Fault::kFrameLost) return;
  if (here && plan_.fault == Fault::kFrameSwapped) {
    taken_ = frame;
    return;
  }
  *out += frame;
  if (here && plan_.fault == Fault::kFrameDoubled) *out += frame;
  if (here && plan_.fault == Fault::kFrameReplayed) *out += last_;
  if (plan_.fault == Fault::kFrameSwapped) *out += taken_;
  taken_.clear();
  last_ = frame;
}

}  // namespace fusewire::faults
