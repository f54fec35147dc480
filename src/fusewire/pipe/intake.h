// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The receiving side of a pipe. Bytes go one way: reader, intake, the receiver of messages. Bytes that come count
// against the peer's credit; credit is granted from the standing window and the budget, and recalled while others wait
// for the budget and the peer does not use it. The peer's frames about our credit, and its signs of life, go to
// the part that they concern.
// Home: the pipe's. Owns: the frame that is coming in, and the pipe's part of the window budget and of the receive
// budget. Fails: with what the peer, or the receiver, did wrong, for good; or through `on_stuck`, if the peer keeps
// credit that others wait for, or sends what it has begun too slowly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/pipe/frame_reader.h"
#include "fusewire/pipe/heartbeat.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/pipe/pipe_handler.h"
#include "fusewire/pipe/sender.h"
#include "fusewire/pipe/window.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

class Intake final : private FrameSink {
 public:
  using OnStuck = UniqueFunction<void(Status why)>;
  // All references outlive it. `on_stuck` comes from a timer.
  Intake(PipeContext& context, reactor::Reactor& home, Sender& sender, Heartbeat& heartbeat, PipeStats& stats,
         OnStuck on_stuck);
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // Once: the pipe's part of the window budget, if there is one left. Nothing has been received yet.
  std::optional<uint64_t> TakeWindow();
  bool has_window() const { return window_bytes_.has_value(); }
  // The greeting is over; what comes from now on is for `messages`.
  void Open(uint32_t chunk_bytes, FrameHandler* messages);
  // Later bytes are discarded, and nothing is granted any more.
  void Close();

  // Takes what comes in, from Open on.
  FrameReader& reader() { return reader_; }
  // Not ok: the peer has sent a goodbye, with this reason.
  const Status& goodbye() const { return goodbye_; }
  // Called now and then: whether the peer's input is plausible.
  Status CheckMetaGrows(int64_t now_ns);

  // See Pipe.
  void Consume(const wire::FrameHeader& header);
  const ReceiveWindow& window() const { return window_; }
  // Sends what there is to grant. At the end of a turn in which something was consumed or asked for.
  void SendGrant();
  // No message has come or gone for a while.
  void Rest() { window_.Rest(); }

 private:
  bool open() const { return messages_ != nullptr; }
  // FrameSink
  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;
  Status OnControl(const wire::FrameHeader& header, ConstBytes meta) override;
  void OnGoodbye(const wire::FrameHeader& header, ConstBytes meta);
  void LookAtPeer();

  PipeContext& context_;
  reactor::Reactor& home_;
  Sender& sender_;
  Heartbeat& heartbeat_;
  PipeStats& stats_;
  OnStuck on_stuck_;
  FrameHandler* messages_ = nullptr;  // while it is open
  FrameReader reader_;
  Status goodbye_;
  std::optional<uint64_t> window_bytes_;  // our part of the window budget, if there was one
  // shared_ptr: with mail on its way here, which finds null after our end.
  const std::shared_ptr<Intake*> self_;
  ReceiveWindow window_;
  Pieces pieces_;
  Recall recall_;
  struct Looks {
    reactor::Timer at_budget;  // while the peer waits for our budget as the first
    reactor::Timer at_peer;    // while we hold a share of it: do others wait?
  } looks_;
};

}  // namespace fusewire::pipe
