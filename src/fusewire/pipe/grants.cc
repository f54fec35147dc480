// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/grants.h"

#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire::pipe {
namespace {

// How often a peer that waits for our budget is looked at again.
constexpr int64_t kRegrantNs = 2 * kMillisecondNs;
// How often a pipe that holds a share of the budget looks whether others wait for it.
constexpr int64_t kLookNs = 20 * kMillisecondNs;

}  // namespace

Grants::Grants(PipeContext& context, reactor::Reactor& home, Sender& sender, PipeStats& stats, Arriving arriving,
               OnStuck on_stuck)
    : context_(context),
      home_(home),
      sender_(sender),
      stats_(stats),
      arriving_(std::move(arriving)),
      on_stuck_(std::move(on_stuck)),
      window_(0, &context.receive_budget()),
      pieces_(&context.receive_budget()),
      recall_(context.options().silent_ns_max),
      again_([this] { sender_.FlushSoon(); }),
      look_([this] { LookAtPeer(); }) {}

Grants::~Grants() { context_.ReturnWindow(window_bytes_.value_or(0)); }

std::optional<uint64_t> Grants::TakeWindow() {
  FUSEWIRE_CHECK(!window_bytes_.has_value());
  window_bytes_ = context_.TakeWindow();
  window_.Open(window_bytes_.value_or(0));
  return window_bytes_;
}

void Grants::SendGrant() {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(window_bytes_.has_value());
  uint64_t grant = window_.TakeGrant();
  if (grant > 0) sender_.AppendControl(wire::FrameKind::kCredit, 0, grant);
  if (window_.reserved_bytes() > 0 && !look_.armed()) home_.Arm(&look_, kLookNs);
  if (!window_.waiting() || again_.armed()) return;
  stats_.budget_stalls.Add();
  home_.Arm(&again_, kRegrantNs);
}

void Grants::LookAtPeer() {
  const bool wanted = window_.IsWanted();
  const uint64_t arriving = arriving_();
  const uint64_t held = window_.HeldByPeer(arriving);
  if (recall_.Look(held, window_.MovedBytes(arriving), wanted, home_.now_ns())) {
    on_stuck_(Status::Overloaded("the peer neither uses nor gives back " + std::to_string(held) +
                                 " bytes of credit that others wait for")
                  .Phase("recalling credit")
                  .AgeMs(recall_.waited_ns() / kMillisecondNs)
                  .Next("look at the peer: it may be overloaded, or not ours; raise receive_budget_bytes if its "
                        "network is this slow"));
    return;
  }
  // Again and again: what it cannot give now it may give soon.
  if (wanted && window_.HasSpareCredit()) sender_.AppendControl(wire::FrameKind::kRecall, 0, 0);
  if (window_.reserved_bytes() > 0) home_.Arm(&look_, kLookNs);
}

void Grants::End() {
  window_.Close();
  reactor::Reactor::Disarm(&again_);
  reactor::Reactor::Disarm(&look_);
}

}  // namespace fusewire::pipe
