// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Link is our end of one peer at one address: it connects when it is wanted, again after a failure, and tells a
// restarted peer from the old one.
// Home: one reactor, for life. Owns: the Dialing or the Pipe of the moment. Fails: each attempt on its own, through
// OnDown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "fusewire/base/random.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/transport/transport.h"

namespace fusewire::pipe {

// All calls at home; none may destroy the link.
class LinkHandler : public FrameHandler {
 public:
  // The pipe is open. `restarted`: the peer is another incarnation than the last time.
  virtual void OnUp(const PeerInfo& peer, bool restarted) = 0;
  // The pipe broke (was_up), or an attempt to get one failed. The link tries again, after a pause, once it is wanted.
  virtual void OnDown(Status why, bool was_up) = 0;

 protected:
  ~LinkHandler() = default;
};

// The pauses between attempts: each is twice as long as the last, within the bounds of the options. Half of it is
// random: a thousand workers that lost one server do not come back in step.
class Backoff {
 public:
  explicit Backoff(uint64_t seed) : random_(seed) {}
  void Restart() { longest_ns_ = 0; }
  int64_t NextNs(const Options& options);

 private:
  int64_t longest_ns_ = 0;
  Random random_;
};

class Link final : private PipeHandler {
 public:
  // All references outlive the link.
  Link(PipeContext& context, reactor::Reactor& home, transport::Transport& transport, transport::Address address,
       uint16_t service, LinkHandler* handler);
  ~Link();

  // At home. There is something to send: connect, if that is not under way.
  void Want();
  // At home. The open pipe, or null.
  Pipe* pipe() { return pipe_ != nullptr && pipe_->open() ? pipe_.get() : nullptr; }
  // At home. As Pipe's, also while the pipe says goodbye: memory may still be landing then.
  void Abandon(wire::FrameKind kind, uint64_t call) {
    if (pipe_ != nullptr) pipe_->Abandon(kind, call);
  }
  // At home. Says goodbye; OnDown follows if the link was up. Want() would connect again.
  void Close(Status why);
  // At home. The same, as Pipe::Leave.
  void Leave(Status why);
  // At home. Nothing is under way and nothing is up.
  bool idle() const { return pipe_ == nullptr && dialing_ == nullptr; }

  const transport::Address& address() const { return address_; }
  uint64_t connects() const { return connects_; }

 private:
  FrameHandler* OnOpen(const PeerInfo& peer) override;
  void OnClosed(Status why) override;

  void Dial();
  void StopDialing();
  void Failed(Status why, bool was_up);

  PipeContext& context_;
  reactor::Reactor& home_;
  transport::Transport& transport_;
  const transport::Address address_;
  const uint16_t service_;
  LinkHandler* const handler_;
  std::unique_ptr<transport::Dialing> dialing_;
  std::unique_ptr<Pipe> pipe_;
  uint64_t incarnation_ = 0;      // of the peer we met last
  std::optional<int64_t> up_ns_;  // when this pipe got through its greeting
  bool wanted_ = false;
  int64_t next_try_ns_ = 0;
  uint64_t connects_ = 0;
  Backoff backoff_;
  reactor::Timer retry_;
};

}  // namespace fusewire::pipe
