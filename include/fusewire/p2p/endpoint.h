// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An Endpoint is one name in a cluster of peers that send to each other. It is both ends in one, where rpc has a Client
// and a Server.
// Home: one reactor. Any thread may call these functions; those that wait, any thread but a home.
// Owns: its peers; its task, unless it was opened in one. Outlives its operations, regions and signals.
// Fails: Start and Open say why; afterwards each operation on its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/p2p/limits.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/peer.h"
#include "fusewire/pipe/options.h"
#include "fusewire/reactor/options.h"
#include "fusewire/task/transport_choice.h"
#include "fusewire/transport/address.h"
#include "fusewire/transport/protection.h"
#include "fusewire/transport/tcp/tcp_options.h"

namespace fusewire::pipe {
class PipeContext;
}  // namespace fusewire::pipe

namespace fusewire::reactor {
class Pool;
class Reactor;
}  // namespace fusewire::reactor

namespace fusewire::task {
class Task;
}  // namespace fusewire::task

namespace fusewire::transport {
class Transport;
}  // namespace fusewire::transport

namespace fusewire::p2p {

struct EndpointOptions {
  pipe::Options pipe;  // pipe.name is the endpoint's
  reactor::PoolOptions pool;
  task::TransportChoice wire = task::TransportChoice::kAuto;
  transport::TcpOptions tcp;
  transport::Protection protection;  // of all but shared memory
  Limits limits;
  OnPeer on_peer;
};

class Endpoint {
 public:
  // In a task of its own, over what options.wire says, listening at `address`; port 0: one that is free.
  static Result<std::unique_ptr<Endpoint>> Start(EndpointOptions options, const transport::Address& address);
  // The same over any transport, on the first reactor of `pool`.
  static Result<std::unique_ptr<Endpoint>> Make(EndpointOptions options, const transport::Address& address,
                                                std::unique_ptr<reactor::Pool> pool,
                                                std::unique_ptr<transport::Transport> transport);
  // In a task that has other services too, on one of its reactors: peers come by the task's listener, whether that
  // opened before or opens later, and count into its budgets. The pool, the wire, tcp, protection and budgets of
  // `options` are ignored. The name may be another one than the task's. `task` outlives the endpoint; a task has one of
  // them.
  static Result<std::unique_ptr<Endpoint>> Open(task::Task& task, EndpointOptions options);
  // Closes.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const std::string& name() const;
  // With the port that was really taken; 0: it listens nowhere.
  transport::Address address() const;
  uint64_t incarnation() const;
  // Whether its wire may be memory that tasks of this host share.
  bool may_share() const;

  // The peer of that name, which is dialled at `address` once an operation needs it. Does not wait. It may have dialled
  // us already; a new address is used from the next attempt on.
  Result<Peer*> Connect(const std::string& name, const transport::Address& address);
  // The peer of that name, which will dial us.
  Result<Peer*> Expect(const std::string& name);
  // Decides about messages whose tag is in the range and for which no receive is posted. The newest range comes first.
  void HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer);

  // Wait for the end; timeouts as in Op.
  Status AwaitUp(Peer& peer, int64_t timeout_ns = 0);
  Status Send(Peer& peer, uint64_t tag, ConstBytes bytes, int64_t timeout_ns = 0);
  Result<uint64_t> Receive(Peer* peer, uint64_t tag, Bytes into, int64_t timeout_ns = 0);
  Status Put(Peer& peer, RegionRef region, uint64_t offset, ConstBytes bytes, SignalRef signal = 0,
             int64_t timeout_ns = 0);
  Status Get(Peer& peer, RegionRef region, uint64_t offset, Bytes into, int64_t timeout_ns = 0);
  Status Await(Signal& signal, uint64_t at_least, int64_t timeout_ns = 0);

  reactor::Reactor& home();
  // Not from a home. Ends every operation with kCancelled, and says goodbye to all peers. Messages of operations that
  // have already succeeded are sent first, if their peers take them within goodbye_ns_max. May be repeated.
  void Close();

  // For operations, regions and signals.
  Core& core();
  // For collectives.
  pipe::PipeContext& context();

 private:
  struct Impl;
  static Status Check(const EndpointOptions& options);
  static Result<std::unique_ptr<Endpoint>> OpenOwn(EndpointOptions options, const transport::Address& address,
                                                   std::unique_ptr<task::Task> own);
  explicit Endpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusewire::p2p
