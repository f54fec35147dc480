// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One reactor's part of one of an acceptor's services: the accepted pipes that live here, greeted or not yet.
// Home: its reactor. Owns: those pipes and their receivers. Fails: each pipe on its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/pipe_context.h"

namespace fusewire::task {

// The events of a pending, for its owner. Called at the pending's home, which may be any reactor.
class PendingOwner {
 public:
  virtual std::unique_ptr<pipe::Receiver> NewReceiverFor(pipe::Pipe& pipe) = 0;
  virtual void OnGreeted(size_t pending, uint64_t id, const pipe::PeerInfo& peer) = 0;
  virtual void OnGone(size_t pending, uint64_t id, const pipe::PeerInfo& peer) = 0;
  virtual void OnTurnedAway(const pipe::PeerInfo& peer, const Status& why, int64_t now_ns) = 0;

 protected:
  ~PendingOwner() = default;
};

class PendingConnections {
 public:
  // `others` (if any) takes those that want another service. All outlive the pending.
  PendingConnections(PendingOwner* owner, size_t index, pipe::PipeContext& context, reactor::Reactor& home,
                     uint16_t service, size_t greetings_max, pipe::OtherHomes* others);
  ~PendingConnections();

  // `handed`: null, or what it has been handed over with.
  void Take(std::unique_ptr<transport::Connection> connection, const pipe::HandedOver* handed);
  // No harm if it has gone already.
  void ClosePipe(uint64_t id, const Status& why);
  void CloseAll(const Status& why);
  // How many there are, greeted or not, and how many are open.
  std::pair<size_t, size_t> Count() const;
  reactor::Reactor& home() { return home_; }

 private:
  class Served;

  void OnOpen(Served* served);
  void OnClosed(Served* served, const Status& why);
  void OnHandedOver(Served* served);
  void MakeRoom();

  PendingOwner* const owner_;
  const size_t index_;
  pipe::PipeContext& context_;
  reactor::Reactor& home_;
  const uint16_t service_;
  const size_t greetings_max_;
  pipe::OtherHomes* const others_;
  uint64_t next_id_ = 1;
  size_t greetings_ = 0;
  std::map<uint64_t, std::unique_ptr<Served>> served_;  // by id, so oldest first
};

}  // namespace fusewire::task
