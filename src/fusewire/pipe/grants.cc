// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/grants.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"

namespace fusewire {
namespace pipe {
namespace {

// How often a peer that waits for our budget is looked at again.
constexpr int64_t kRegrantNs = 2 * kMillisecondNs;
// How often a pipe that holds a share of the budget looks whether others wait for it.
constexpr int64_t kRecallNs = 20 * kMillisecondNs;
// For how many times silent_ns_max a peer may ignore it. More than one: it may be a while before it hears of it.
constexpr int64_t kRecallSilences = 3;
// A peer that sends as much after a recall is using its credit. Heartbeats are less.
constexpr uint64_t kRecallProgressBytes = 4096;

}  // namespace

Grants::Grants(Shared& shared, reactor::Reactor& home, Sender& sender, PipeStats& stats, OnStuck on_stuck)
    : shared_(shared),
      home_(home),
      sender_(sender),
      stats_(stats),
      on_stuck_(std::move(on_stuck)),
      window_(0, &shared.receive_budget()),
      again_([this] { sender_.FlushSoon(); }),
      recall_([this] { RecallIfWanted(); }) {}

Grants::~Grants() { shared_.ReturnWindow(window_bytes_.value_or(0)); }

std::optional<uint64_t> Grants::TakeWindow() {
  window_bytes_ = shared_.TakeWindow();
  window_.Open(window_bytes_.value_or(0));
  return window_bytes_;
}

void Grants::SendGrant() {
  uint64_t grant = window_.TakeGrant();
  if (grant > 0) sender_.AppendControl(wire::FrameKind::kCredit, 0, grant);
  if (window_.reserved_bytes() > 0 && !recall_.armed()) home_.Arm(&recall_, kRecallNs);
  if (!window_.waiting() || again_.armed()) return;
  stats_.budget_stalls.Add();
  home_.Arm(&again_, kRegrantNs);
}

void Grants::RecallIfWanted() {
  int64_t now_ns = home_.now_ns();
  if (!window_.ShouldRecall()) {
    recalled_ns_ = 0;
  } else {
    bool in_use = stats_.bytes_in.Read() - bytes_in_at_recall_ >= kRecallProgressBytes;
    if (recalled_ns_ == 0 || in_use) {
      recalled_ns_ = now_ns;
      bytes_in_at_recall_ = stats_.bytes_in.Read();
    }
    if (now_ns - recalled_ns_ >= kRecallSilences * shared_.options().silent_ns_max) {
      on_stuck_(Status::Overloaded("the peer neither uses nor gives back credit that others wait for")
                    .Phase("recalling credit")
                    .AgeMs((now_ns - recalled_ns_) / kMillisecondNs)
                    .Next("look at the peer: it may be overloaded, or not ours"));
      return;
    }
    // Again and again: what it cannot give now it may give soon.
    sender_.AppendControl(wire::FrameKind::kRecall, 0, 0);
  }
  if (window_.reserved_bytes() > 0) home_.Arm(&recall_, kRecallNs);
}

void Grants::End() {
  window_.Close();
  reactor::Reactor::Disarm(&again_);
  reactor::Reactor::Disarm(&recall_);
}

}  // namespace pipe
}  // namespace fusewire
