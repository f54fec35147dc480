// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An Acceptor serves the services of a task at one address: it reads the hello of each peer that comes, and hands the
// peer over to a home of the service that the hello names. Over a transport that keeps connections where they came in
// (UCX), each service has a listener of its own.
// Home: made and destroyed from any thread that is not a home. Owns: its listener and all pipes that came through it.
// Fails: Listen and Serve say why; afterwards each pipe on its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/service_listener.h"
#include "fusewire/transport/transport.h"

namespace fusewire::task {

struct AcceptorStats {
  uint64_t accepted = 0;     // connections
  uint64_t greeted = 0;      // that became pipes
  uint64_t turned_away = 0;  // that did not
  uint64_t superseded = 0;   // pipes closed because their peer came back as another incarnation
  uint64_t open = 0;         // pipes now
};

class Acceptor {
 public:
  // All references outlive the acceptor. `context` bounds the connections that have not yet said which service they
  // want.
  Acceptor(pipe::PipeContext& context, reactor::Pool& pool, transport::Transport& transport)
      : context_(context), pool_(pool), transport_(transport), hands_over_(transport.HandsOver()) {}
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Any thread. Where it listens, with the port that was really taken, or listened last. Port 0: nowhere.
  transport::Address address() const;
  // Any thread. Where peers reach this service: at another port than others only where each has its own listener.
  transport::Address AddressOf(uint16_t service) const;

  // ---- any thread but a home ----
  // Once, or again after StopListening. Port 0: one of `ports`, which further listeners take too. Where each service
  // has its own, the one of the lowest number listens at `address`.
  Status Listen(const transport::Address& address, pipe::PortRange ports = pipe::PortRange());
  // Pipes that are open stay so.
  void StopListening();
  // Before or after Listen. The pipes of the service live at `homes` in turn, and are greeted as `context` says. Both
  // outlive its Withdraw.
  Status Serve(uint16_t service, pipe::PipeContext& context, std::vector<reactor::Reactor*> homes,
               NewReceiver new_receiver);
  // Peers that ask for it from now on are refused; open pipes stay open.
  void StopServing(uint16_t service);
  // Says goodbye to its peers.
  void CloseService(uint16_t service, Status why);
  // When it returns, none of its pipes is left, and its receivers are destroyed.
  void Withdraw(uint16_t service);

  // Any thread. How many services have not been withdrawn.
  size_t services() const { return served_.load(std::memory_order_relaxed); }
  // Any thread. Of all services.
  AcceptorStats Snapshot() const;

 private:
  // A withdrawn service has no listener: peers that ask for it are refused.
  struct Service {
    std::unique_ptr<ServiceListener> service_listener;
    bool serves = false;
    std::unique_ptr<transport::Listener> listener;  // only where each service has its own
  };

  reactor::Reactor& first_home() { return pool_.at(0); }
  std::unique_ptr<ServiceListener> NewListener(uint16_t service, pipe::PipeContext& of,
                                               const std::vector<reactor::Reactor*>& homes, NewReceiver new_receiver);

  // ---- at the first home ----
  Status Open();
  Status OpenFor(uint16_t service);
  // At next_; if its port is 0, at the first of ports_ that is free.
  Result<std::unique_ptr<transport::Listener>> ListenAtNext(uint16_t service);
  // At any home.
  void HandOver(pipe::HandedOver handed);
  void Place(pipe::HandedOver handed);
  void OnIncoming(uint16_t service, std::unique_ptr<transport::Incoming> incoming);
  ServiceListener* Front(uint16_t service);

  pipe::PipeContext& context_;
  reactor::Pool& pool_;
  transport::Transport& transport_;
  const bool hands_over_;
  AcceptorCounts counts_;
  std::atomic<size_t> served_{0};

  // At the first home.
  bool listening_ = false;
  transport::Address next_;  // of the next listener
  pipe::PortRange ports_;
  std::unique_ptr<transport::Listener> listener_;  // of all services
  std::unique_ptr<ServiceListener> lobby_;         // reads the hello of what may be for any service; null until Listen
  std::map<uint16_t, Service> services_;
  bool leaving_ = false;

  mutable Mutex mutex_;
  std::map<uint16_t, transport::Address> addresses_ FUSEWIRE_GUARDED_BY(mutex_);  // kNoService: of the first listener
};

}  // namespace fusewire::task
