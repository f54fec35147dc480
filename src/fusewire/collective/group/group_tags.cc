// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/group_tags.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"

namespace fusewire::collective {

namespace {

constexpr size_t kTagsMax = 4096;

}  // namespace

void FailedTags::Add(uint64_t tag, const Status& why) {
  FUSEWIRE_DCHECK(!why.ok());
  if (reasons_.emplace(tag, why).second) order_.push_back(tag);
  if (order_.size() > kTagsMax) {
    reasons_.erase(order_.front());
    order_.pop_front();
  }
  FUSEWIRE_DCHECK(order_.size() == reasons_.size());
  ThrowAway(tag);
}

const Status* FailedTags::Find(uint64_t tag) const {
  const auto found = reasons_.find(tag);
  return found == reasons_.end() ? nullptr : &found->second;
}

void FailedTags::Clear() {
  reasons_.clear();
  order_.clear();
}

// Takes the messages that have arrived, one after the other; later ones are refused from now on.
void FailedTags::ThrowAway(uint64_t tag) {
  receives_.remove_if([](const std::unique_ptr<p2p::ReceiveOp>& receive) { return receive->Test(); });
  p2p::ReceiveOp* const receive =
      receives_.emplace_back(std::make_unique<p2p::ReceiveOp>(endpoint_, nullptr, tag)).get();
  receive->timeout_ns = kForeverNs;
  receive->then = [this, receive] {
    // It took a message, which may have been too large for it. Otherwise there was none, or the endpoint is closing.
    const bool took = receive->status().ok() || receive->status().code() == Code::kInvalid;
    if (took) return PostToThrowAway(receive);
    under_way_->Close();
  };
  under_way_->Open();
  PostToThrowAway(receive);
}

// Cancelled at once: it takes only a message that has arrived.
void FailedTags::PostToThrowAway(p2p::ReceiveOp* receive) {
  receive->Post();
  receive->Cancel();
}
namespace {

constexpr int kOpBits = 40;
constexpr uint64_t kOpMask = (uint64_t{1} << kOpBits) - 1;
constexpr uint64_t kKeyedBit = uint64_t{1} << (kOpBits - 1);

uint64_t Mix(uint64_t a, uint64_t b) { return Random(Random(a).Next() ^ b).Next(); }

}  // namespace

uint64_t GroupTags::First(uint32_t epoch) const {
  uint64_t hash = epoch;
  for (const char letter : name_) hash = Mix(hash, static_cast<uint8_t>(letter));
  return uint64_t{1} << 63 | (hash >> 41) << kOpBits;
}

uint64_t GroupTags::Last(uint32_t epoch) const { return First(epoch) | kOpMask; }

uint64_t GroupTags::Of(uint32_t epoch, const Fingerprint& place) const {
  if (place.keyed == 0) return First(epoch) | (place.turn & (kKeyedBit - 1));
  return First(epoch) | kKeyedBit | ((Mix(place.key, place.turn) & kOpMask) >> 1);
}

}  // namespace fusewire::collective
