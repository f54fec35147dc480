// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/op_record.h"

#include <algorithm>
#include <cstddef>

#include "fusewire/base/check.h"

namespace fusewire::collective {
namespace {

// Who looks needs one to follow, and a few to tell a slow rank from a slow network.
constexpr size_t kLateMax = 8;

}  // namespace

uint32_t OpRecord::TagOf(int rank) const {
  return place_ == kAgreement ? shown_->TagOfAgreement(rank) : shown_->TagOf(*wanted_, rank);
}

void OpRecord::Begin(GroupMonitor* shown, const CollectiveSpec& spec, int64_t place, uint64_t flow, int64_t now_ns) {
  FUSEWIRE_DCHECK(!begun());
  if (!shown->on() || observe::TheRecorder() == nullptr) return;
  shown_ = shown;
  wanted_ = &spec;
  place_ = place;
  flow_ = flow;
  begun_ns_ = now_ns;
  whole_ = observe::BeginOp(TagOf(-1), place, flow, now_ns);
}

void OpRecord::WaitFor(const std::vector<int>& missing, int64_t since_ns) {
  if (!begun() || missing == missing_) return;
  missing_ = missing;
  const auto end = missing.begin() + static_cast<std::ptrdiff_t>(std::min(missing.size(), kLateMax));
  for (Late& late : late_) {
    if (std::find(missing.begin(), end, late.rank) == end) observe::EndOp(&late.op, true);
  }
  late_.erase(std::remove_if(late_.begin(), late_.end(), [](const Late& late) { return !late.op; }), late_.end());
  for (auto rank = missing.begin(); rank != end; ++rank) {
    const auto is_it = [rank](const Late& late) { return late.rank == *rank; };
    if (std::any_of(late_.begin(), late_.end(), is_it)) continue;
    late_.push_back(Late{*rank, observe::BeginOp(TagOf(*rank), place_, flow_, since_ns)});
  }
}

void OpRecord::End(bool is_ok, uint64_t bytes) {
  if (!begun()) return;
  for (Late& late : late_) observe::EndOp(&late.op, is_ok);
  late_.clear();
  missing_.clear();
  observe::EndOp(&whole_, is_ok, bytes);
  shown_ = nullptr;
}

}  // namespace fusewire::collective
