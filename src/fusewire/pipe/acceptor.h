// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An Acceptor listens at one address, greets whoever comes, and gives each peer a home among the pool's reactors. It
// has one service; others may share its listener: whoever says hello to one of those is handed over to its home.
// Home: made and destroyed from any thread that is not a home. Owns: its listener and all pipes that came through it.
// Fails: Open says why; afterwards each pipe on its own.
#ifndef FUSEWIRE_PIPE_ACCEPTOR_H_
#define FUSEWIRE_PIPE_ACCEPTOR_H_

#include <cstdint>
#include <memory>

#include "fusewire/pipe/new_receiver.h"
#include "fusewire/pipe/options.h"
#include "fusewire/reactor/pool.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace pipe {

struct AcceptorStats {
  uint64_t accepted = 0;     // connections
  uint64_t greeted = 0;      // that became pipes
  uint64_t turned_away = 0;  // that did not
  uint64_t superseded = 0;   // pipes closed because their peer came back as another incarnation
  uint64_t open = 0;         // pipes now
};

class Acceptor {
 public:
  // All references outlive the acceptor.
  static Result<std::unique_ptr<Acceptor>> Open(Shared& shared, reactor::Pool& pool, transport::Transport& transport,
                                                const transport::Address& address, uint16_t service,
                                                NewReceiver new_receiver);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Any thread. With the port that was really taken.
  const transport::Address& address() const;

  // ---- any thread but a home ----
  // Pipes that are open stay so.
  void StopListening();
  // Stops listening and says goodbye to all, of every service.
  void Close(Status why);
  // Serves one more service, whose pipes are greeted as `shared` says and live at `home`; both outlive it here.
  // kUnavailable: what comes in over this transport keeps its home.
  Status Serve(uint16_t service, Shared& shared, reactor::Reactor& home, NewReceiver new_receiver);
  // Who comes for it from now on is told that it is not available; pipes that are open stay so.
  void StopServing(uint16_t service);
  // When it returns, none of its pipes is left, and its receivers are destroyed.
  void Withdraw(uint16_t service);

  // Any thread. Of all services.
  AcceptorStats Snapshot() const;

 private:
  struct Impl;
  explicit Acceptor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pipe
}  // namespace fusewire

#endif  // FUSEWIRE_PIPE_ACCEPTOR_H_
