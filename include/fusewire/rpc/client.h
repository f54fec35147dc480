// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Client asks one peer: it connects when the first call comes, again after a failure, and ends every call exactly
// once. Home: one reactor of its task. Owns: the Link to the peer; not the calls. Fails: each call on its own.
// kUnavailable: the pipe broke (the outcome of calls that were sent is unknown), or there was none within patience_ns.
// kOverloaded: this process has no descriptor left to connect with.
// See docs/errors.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/rpc/call.h"
#include "fusewire/rpc/client_options.h"
#include "fusewire/rpc/stats.h"
#include "fusewire/transport/address.h"

namespace fusewire::reactor {
class Completion;
class Waiter;
class Reactor;
}  // namespace fusewire::reactor

namespace fusewire::task {
class Task;
}  // namespace fusewire::task

namespace fusewire::rpc {

class Client {
 public:
  // Any thread. `task` outlives the client. Does not connect yet.
  Client(task::Task& task, const transport::Address& address, ClientOptions options = ClientOptions());
  // Any thread but a home: ends all calls first, as Close does.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Any thread. The call is ours until its OnDone, which may come at once, on another thread: nothing calls back from
  // inside Start, so the caller may hold its locks.
  void Start(Call* call);
  // Any thread. Starts the call and waits for its OnDone, which says that `answered` is done; this thread drives the
  // idle reactor meanwhile. The call's own timeout bounds the wait. Inside any reactor's callback it does not wait:
  // OnDone comes at once, with kInvalid.
  void StartAndWait(Call* call, reactor::Completion* answered);
  // Any thread. The call as mail for its home, where it starts: for many that start in one turn.
  Mail* Prepare(Call* call);
  // As StartAndWait. The plain way: one question, one answer.
  struct Answer {
    Status status;
    std::string head;
    Buffers body;
  };
  Answer Ask(uint16_t method, ConstBytes head, Buffers body = Buffers(), int64_t timeout_ns = kForeverNs);

  // Any thread. Connects now, without a call; for warming up.
  void Connect();
  // Any thread. The peer cannot be reached there any more: calls that wait for a connection end with `why`, and so do
  // all that are started later. A call that was sent ends by its answer, or with the connection.
  void GiveUp(Status why);
  // Any thread but a home. Ends every call with kCancelled, says goodbye; later calls end at once. Code that starts
  // calls again in their OnDone must stop at kCancelled: Close waits for that.
  void Close();

  reactor::Reactor& home();
  // Any thread but a home.
  PeerSnapshot Snapshot();

 private:
  std::unique_ptr<ClientCore> core_;
};

}  // namespace fusewire::rpc
