// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Server answers calls: methods by number, each a function that runs at the home of the caller's pipe.
// Home: every reactor of its task. Owns: its acceptor and the calls in flight.
// Fails: Open says why; afterwards each call on its own. Every call that reaches a handler gets exactly one reply, if
// only "the handler dropped it"; a caller that is gone gets none.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/rpc/method.h"
#include "fusewire/rpc/stats.h"
#include "fusewire/transport/address.h"

namespace fusewire::task {
class Task;
}  // namespace fusewire::task

namespace fusewire::rpc {

struct ServerOptions {
  // Per peer. One that exceeds it violates the protocol, and is cut off.
  uint32_t calls_in_flight_max = 65536;
  // The memory of answers that their callers have not taken yet, of all servers of the process together; an answer
  // beyond it fails with kOverloaded. Memory that a handler lends does not count. 0: as much as the receive budget, and
  // at least 64 MiB.
  uint64_t answers_bytes_max = 0;
};

class Server {
 public:
  // Any thread but a home. The methods are called on every reactor of the task at once. `task` outlives the server.
  // It serves wherever the task listens, before and after that does.
  static Result<std::unique_ptr<Server>> Open(task::Task& task, std::vector<Method> methods,
                                              ServerOptions options = ServerOptions());
  // The same, and the task listens at `address` until the server closes.
  static Result<std::unique_ptr<Server>> Open(task::Task& task, const transport::Address& address,
                                              std::vector<Method> methods, ServerOptions options = ServerOptions());
  // Any thread but a home. Cuts off all peers; Replies that are still held may be sent or dropped later, to nobody.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Any thread. With the actual port; port 0: its task listens nowhere.
  transport::Address address() const;
  // Any thread but a home. New calls are refused with kUnavailable; returns when those in flight have been answered, or
  // after `grace_ns`; then says goodbye to all.
  void Close(int64_t grace_ns = kSecondNs);
  // Any thread but a home.
  fusewire::rpc::Snapshot Snapshot();
  // Any thread.
  uint64_t calls_in_flight() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusewire::rpc
