// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Task is one task of a cluster: its name and limits, its reactors, its transport, its memory budgets, and one
// listener that serves all its services at one address. Clients, servers and endpoints stand on it.
// Home: any thread; made and destroyed from one that is not a home. Owns: the pool, the transport, the acceptor and the
// budgets. Outlives everything that stands on it. Fails: Start and Listen say why.
#pragma once

#include <memory>
#include <string>

#include "fusewire/base/status.h"
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
}  // namespace fusewire::reactor

namespace fusewire::transport {
class Transport;
}  // namespace fusewire::transport

namespace fusewire::task {

class Acceptor;

struct TaskOptions {
  pipe::Options pipe;
  reactor::PoolOptions pool;
  TransportChoice wire = TransportChoice::kAuto;
  transport::TcpOptions tcp;
  transport::Protection protection;  // of all but shared memory
};

class Task {
 public:
  // Over what options.wire says.
  static Result<std::unique_ptr<Task>> Start(TaskOptions options);
  // Over any transport and any reactors; for tests, simulations, and custom transports. `options` have passed
  // CheckOptions().
  static std::unique_ptr<Task> Make(pipe::Options options, std::unique_ptr<reactor::Pool> pool,
                                    std::unique_ptr<transport::Transport> transport);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Any thread but a home. Opens the listener, once; services may come before and after. Port 0: one of `ports`.
  Status Listen(const transport::Address& address, pipe::PortRange ports = pipe::PortRange());
  // Any thread. The one address to publish, with the port that was really taken; port 0: it listens nowhere. Over UCX,
  // each service has a port of its own: acceptor().AddressOf().
  transport::Address address() const;
  const std::string& name() const;
  // Whether its wire may be memory that tasks of this host share.
  bool may_share() const;

  // ---- for services, which include the headers of what they use ----
  Acceptor& acceptor();
  pipe::PipeContext& context();
  reactor::Pool& pool();
  transport::Transport& transport();

 private:
  struct Impl;
  explicit Task(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fusewire::task
