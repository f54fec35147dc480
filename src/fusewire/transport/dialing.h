// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What all dials of a name share: the resolver, and one deadline for the places that the name leads to.
// Home: Resolve from any reactor, the answer comes back to it; a dial lives on one reactor. Owns: the resolver one
// thread, from the first name on; it is left behind if the resolver is destroyed while the system still resolves.
// Fails: with kUnavailable and the system's words; a dial with the last error, or kTimeout.
#pragma once

#include <pthread.h>

#include <memory>
#include <string>

#include "fusewire/base/unique_function.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/address.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// Asks for the addresses of names on a thread of its own, because the system's resolver blocks.
class Resolver {
 public:
  explicit Resolver(ResolveNames resolve);
  ~Resolver();
  // Calls `answer` at `home`, once, unless the resolver is destroyed first. The reactor must live until then.
  void Resolve(const std::string& host, reactor::Reactor& home, UniqueFunction<void(Names)> answer);

 private:
  struct Work;
  int StartThread(pthread_t* thread);
  // shared_ptr: the thread may still be inside the system's resolver when we go.
  std::shared_ptr<Work> work_;
};

// One dial of a name: tries the places that it leads to in turn. A backend says which places, and what trying one is.
class DialingInTurn : public Dialing, protected reactor::FdHandler {
 public:
  ~DialingInTurn() override;
  // Begins with the addresses of `host`, which may be a number.
  void Start(Resolver* resolver, const std::string& host, int64_t timeout_ns);

 protected:
  DialingInTurn(reactor::Reactor& home, Address address, OnDialed on_dialed);
  virtual void OnNames(const Names& names) = 0;
  virtual void TryNext() = 0;
  // Lets go of the place that is being tried.
  virtual void Drop();

  Status Watch(uint32_t epoll_events);
  // To where a connection was made; it is not watched any more.
  Fd TakeSocket();
  // Each may destroy this object.
  void Succeed(std::unique_ptr<Connection> connection);
  void Finish(Status why);

  reactor::Reactor& home_;
  const Address address_;
  size_t next_ = 0;  // of the places
  Fd fd_;            // to the place that is being tried
  Status last_error_;
  reactor::Timer deadline_;
  reactor::Timer step_;  // tries the next place or ends; never inside a caller's call

 private:
  OnDialed TakeCallback();

  OnDialed on_dialed_;
  bool watched_ = false;
  int64_t began_ns_ = 0;
  // shared_ptr: the resolver's answer may arrive after our destruction, and must notice that.
  std::shared_ptr<bool> alive_;
};

}  // namespace fusewire::transport
