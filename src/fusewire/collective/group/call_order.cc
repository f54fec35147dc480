// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/call_order.h"

#include <algorithm>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"

namespace fusewire::collective {
namespace {

constexpr size_t kFailedKeysMax = 64 * 1024;
constexpr size_t kFailedTagsMax = 4096;

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

void CallOrder::Place(GroupOperation* operation) {
  Fingerprint& print = operation->print;
  print.kind = static_cast<uint8_t>(operation->spec.kind);
  print.epoch = static_cast<uint16_t>(epoch_);
  print.key = operation->spec.key;
  print.keyed = print.key != 0 ? 1 : 0;
  if (print.keyed != 0) {
    const auto failed = key_turns_.find(print.key);
    print.turn = failed == key_turns_.end() ? 0 : failed->second;
  } else {
    print.turn = operation->given_turn.value_or(turn_);
    PlaceGiven(print.turn);
  }
  operation->tag = TagOf(print);
  FUSEWIRE_DCHECK(print.keyed == 0 || print.key != 0);
  FUSEWIRE_DCHECK(print.keyed == 0 || !operation->given_turn.has_value());  // the lane's have no key
}

// The lane gives out turns on many threads, and they come home nearly in order. Turns in between went through the
// arena, or are still to come.
void CallOrder::PlaceGiven(uint64_t turn) {
  skipped_.erase(turn);
  for (uint64_t between = turn; between > turn_ && over_messages_(between - 1); --between) skipped_.insert(between - 1);
  turn_ = std::max(turn_, turn + 1);
  FUSEWIRE_DCHECK(turn < turn_);
  FUSEWIRE_DCHECK(skipped_.count(turn) == 0);
}

bool CallOrder::HasEnded(const Fingerprint& place) const {
  if (place.keyed == 0) return place.turn < turn_ && skipped_.count(place.turn) == 0;
  const auto failed = key_turns_.find(place.key);
  return failed != key_turns_.end() && place.turn < failed->second;
}

void CallOrder::OnFailed(const Fingerprint& place) {
  if (place.keyed == 0) return;
  if (key_turns_.size() >= kFailedKeysMax) key_turns_.erase(key_turns_.begin());
  FUSEWIRE_DCHECK(key_turns_.size() < kFailedKeysMax);
  key_turns_[place.key] = place.turn + 1;
}

void CallOrder::EnterEpoch(uint32_t epoch) {
  FUSEWIRE_CHECK(epoch == epoch_ + 1);
  epoch_ = epoch;
  turn_ = 0;
  skipped_.clear();
  key_turns_.clear();
}

void FailedTags::Add(uint64_t tag, const Status& why) {
  FUSEWIRE_DCHECK(!why.ok());
  if (reasons_.emplace(tag, why).second) order_.push_back(tag);
  if (order_.size() > kFailedTagsMax) {
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

}  // namespace fusewire::collective
