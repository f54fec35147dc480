// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer's credit: grants it from the standing window and the budget, and while others wait for the budget, recalls
// what is not used.
// Home: the pipe's. Owns: the pipe's part of the window budget and of the receive budget. Fails: through `on_stuck`, if
// the peer keeps credit that others wait for, or sends what it has begun too slowly.
#pragma once

#include <cstdint>
#include <optional>

#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/pipe/pieces.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/pipe/pipe_stats.h"
#include "fusewire/pipe/recall.h"
#include "fusewire/pipe/sender.h"
#include "fusewire/pipe/window.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::pipe {

class Grants {
 public:
  using Arriving = UniqueFunction<uint64_t()>;
  using OnStuck = UniqueFunction<void(Status why)>;
  // All references outlive it. `arriving`: of the bodies that have begun, what has not come yet. `on_stuck` comes from
  // a timer.
  Grants(PipeContext& context, reactor::Reactor& home, Sender& sender, PipeStats& stats, Arriving arriving,
         OnStuck on_stuck);
  ~Grants();
  Grants(const Grants&) = delete;
  Grants& operator=(const Grants&) = delete;

  // Once: the pipe's part of the window budget, if there is one left. Nothing has been received yet.
  std::optional<uint64_t> TakeWindow();
  const std::optional<uint64_t>& window_bytes() const { return window_bytes_; }
  ReceiveWindow& window() { return window_; }
  const ReceiveWindow& window() const { return window_; }
  Pieces& pieces() { return pieces_; }
  // Sends what there is to grant. At the end of a turn in which something was consumed or asked for.
  void SendGrant();
  // Nothing will be received or granted any more.
  void End();

 private:
  void LookAtPeer();

  PipeContext& context_;
  reactor::Reactor& home_;
  Sender& sender_;
  PipeStats& stats_;
  Arriving arriving_;
  OnStuck on_stuck_;
  std::optional<uint64_t> window_bytes_;  // our part of the window budget, if there was one
  ReceiveWindow window_;
  Pieces pieces_;
  Recall recall_;
  reactor::Timer again_;  // while the peer waits for our budget
  reactor::Timer look_;   // while we hold a share of it: do others wait?
};

}  // namespace fusewire::pipe
