// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Asks for the addresses of names on a thread of its own, because the system's resolver blocks.
// Home: Resolve from any reactor; the answer comes back to it. Owns: one thread, from the first name on; it is left
// behind when the resolver goes while the system still thinks. Fails: with kUnavailable and the system's words.
#pragma once

#include <pthread.h>

#include <memory>
#include <string>

#include "fusewire/base/unique_function.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/address.h"

namespace fusewire::transport {

class Resolver {
 public:
  explicit Resolver(ResolveNames resolve);
  ~Resolver();
  // Calls `answer` at home of `home`, once, unless the resolver goes first. The reactor must live until then.
  void Resolve(const std::string& host, reactor::Reactor& home, UniqueFunction<void(Names)> answer);

 private:
  struct Work;
  int StartThread(pthread_t* thread);
  // shared_ptr: the thread may still be inside the system's resolver when we go.
  std::shared_ptr<Work> work_;
};

}  // namespace fusewire::transport
