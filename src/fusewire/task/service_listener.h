// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One service of an acceptor: its pipes, and which incarnation of each peer is the present one.
// Home: made and destroyed from any thread that is not a home. Owns: its pending connections. Fails: each pipe on its
// own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/unique_function.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/pending_connections.h"
#include "fusewire/task/roster.h"
#include "fusewire/transport/transport.h"

namespace fusewire::task {

// How a service makes what serves a new pipe of its own.
// Makes the receiver of a new pipe. Called at the pipe's home, on any reactor of the pool; the pipe outlives the
// receiver, which is destroyed at home after OnClosed, or without it when the acceptor goes.
using NewReceiver = UniqueFunction<std::unique_ptr<pipe::Receiver>(pipe::Pipe& pipe)>;

// The counts of all services of an acceptor together. Home: any thread.
struct AcceptorCounts {
  // An admitted connection was rejected, and why.
  void TurnAway(const std::string& peer_address, const Status& why, int64_t now_ns);
  void TellTurnedAway(const std::string& peer_address, const Status& why, int64_t now_ns);

  transport::Address address;       // for words; constant once something comes in
  std::atomic<int> connections{0};  // seated, greeted or not
  std::atomic<uint64_t> accepted{0}, greeted{0}, turned_away{0}, superseded{0}, open{0};
  pipe::SourceLog turned_away_log;
};

class ServiceListener final : private PendingOwner {
 public:
  // Pipes get the homes in turn. `first_home`: where the roster lives. `others`: see PendingConnections. All outlive
  // the listener.
  ServiceListener(AcceptorCounts& counts, uint16_t service, pipe::PipeContext& context,
                  std::vector<reactor::Reactor*> homes, reactor::Reactor& first_home, size_t greetings_max,
                  NewReceiver new_receiver, pipe::OtherHomes* others);
  // Its pipes end without a goodbye.
  ~ServiceListener();

  uint16_t service() const { return service_; }
  pipe::PipeContext& context() { return context_; }
  // At the first home. What comes has been counted.
  void Take(std::unique_ptr<transport::Incoming> incoming);
  void Take(pipe::HandedOver handed);
  // At the first home. Says goodbye to all, once it has been delivered at the homes that are added to *homes.
  void CloseAll(const Status& why, std::vector<reactor::Reactor*>* homes);

 private:
  std::unique_ptr<pipe::Receiver> NewReceiverFor(pipe::Pipe& pipe) override { return new_receiver_(pipe); }
  void OnGreeted(size_t pending, uint64_t id, const pipe::PeerInfo& peer) override;
  void OnGone(size_t pending, uint64_t id, const pipe::PeerInfo& peer) override;
  void OnTurnedAway(const pipe::PeerInfo& peer, const Status& why, int64_t now_ns) override;
  PendingConnections* NextPending() { return pending_[next_pending_++ % pending_.size()].get(); }
  void SeatAt(PendingConnections* pending, transport::Incoming* incoming, const pipe::HandedOver* handed);
  void ClosePipe(Seat seat, const Status& why);

  AcceptorCounts& counts_;
  const uint16_t service_;
  pipe::PipeContext& context_;
  reactor::Reactor& first_home_;
  NewReceiver new_receiver_;
  Roster roster_;         // at first_home_
  bool leaving_ = false;  // likewise: nothing is posted to the pending connections any more
  std::vector<std::unique_ptr<PendingConnections>> pending_;
  size_t next_pending_ = 0;
};

}  // namespace fusewire::task
