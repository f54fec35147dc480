// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/acceptor.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/mutex.h"
#include "fusewire/pipe/handshake.h"
#include "fusewire/wire/hello.h"

namespace fusewire::task {
namespace {

// What connections that have not greeted may hold: of TLS, 256 of them.
constexpr size_t kGreetingsBytesMax = 24 << 20;

std::vector<reactor::Reactor*> AllOf(reactor::Pool& pool) {
  std::vector<reactor::Reactor*> homes;
  for (int i = 0; i < pool.size(); ++i) homes.push_back(&pool.at(i));
  return homes;
}

}  // namespace

struct Acceptor::Impl {
  // A withdrawn service has no listener: its peers are told that it is not offered any more.
  struct Service {
    std::unique_ptr<ServiceListener> service_listener;
    bool serves = false;
    std::unique_ptr<transport::Listener> listener;  // only where each service has its own
  };

  Impl(pipe::PipeContext& context_in, reactor::Pool& pool_in, transport::Transport& transport_in)
      : context(context_in), pool(pool_in), transport(transport_in), hands_over(transport_in.HandsOver()) {}

  reactor::Reactor& first_home() { return pool.at(0); }
  std::unique_ptr<ServiceListener> NewListener(uint16_t service, pipe::PipeContext& of,
                                               const std::vector<reactor::Reactor*>& homes, NewReceiver new_receiver);

  // ---- at the first home ----
  Status Open();
  Status OpenFor(uint16_t service);
  // At `next`; if its port is 0, at the first of `ports` that is free.
  Result<std::unique_ptr<transport::Listener>> ListenAtNext(uint16_t service);
  // At any home.
  void HandOver(pipe::HandedOver handed);
  void Place(pipe::HandedOver handed);
  void OnIncoming(uint16_t service, std::unique_ptr<transport::Incoming> incoming);
  ServiceListener* Front(uint16_t service);

  pipe::PipeContext& context;
  reactor::Pool& pool;
  transport::Transport& transport;
  const bool hands_over;
  AcceptorCounts counts;
  std::atomic<size_t> served{0};

  // At the first home.
  bool listening = false;
  transport::Address next;  // of the next listener
  pipe::PortRange ports;
  std::unique_ptr<transport::Listener> listener;  // of all services
  std::unique_ptr<ServiceListener> lobby;         // reads the hello of what may be for any service; null until Listen
  std::map<uint16_t, Service> services;
  bool leaving = false;

  Mutex mutex;
  std::map<uint16_t, transport::Address> addresses FUSEWIRE_GUARDED_BY(mutex);  // kNoService: of the first listener
};

Acceptor::Acceptor(pipe::PipeContext& context, reactor::Pool& pool, transport::Transport& transport)
    : impl_(std::make_unique<Impl>(context, pool, transport)) {}

Acceptor::~Acceptor() {
  Impl* impl = impl_.get();
  StopListening();
  std::map<uint16_t, Impl::Service> gone;  // goes at its homes, not from this one
  impl->first_home().Run([impl, &gone] {
    impl->leaving = true;  // from now on nobody gets a place
    gone.swap(impl->services);
  });
  gone.clear();
  impl->lobby.reset();
}

std::unique_ptr<ServiceListener> Acceptor::Impl::NewListener(uint16_t service, pipe::PipeContext& of,
                                                             const std::vector<reactor::Reactor*>& homes,
                                                             NewReceiver new_receiver) {
  const size_t fit = kGreetingsBytesMax / transport.GreetingBytes();
  const size_t of_all = std::min(static_cast<size_t>(of.options().greetings_max), fit);
  // For each reactor of a service.
  const size_t greetings_max = std::max<size_t>(of_all / static_cast<size_t>(pool.size()), 1);
  OnOtherService on_other_service;
  if (hands_over) on_other_service = [this](pipe::HandedOver handed) { HandOver(std::move(handed)); };
  return std::make_unique<ServiceListener>(counts, service, of, homes, first_home(), greetings_max,
                                           std::move(new_receiver), std::move(on_other_service));
}

// ---- where it listens ----

transport::Address Acceptor::address() const { return AddressOf(pipe::kNoService); }

transport::Address Acceptor::AddressOf(uint16_t service) const {
  MutexLock lock(impl_->mutex);
  auto own = impl_->addresses.find(service);
  if (own == impl_->addresses.end()) own = impl_->addresses.find(pipe::kNoService);
  return own == impl_->addresses.end() ? transport::Address() : own->second;
}

Status Acceptor::Listen(const transport::Address& address, pipe::PortRange ports) {
  if (ports.min > ports.max) {
    return Status::Invalid("empty port range " + std::to_string(ports.min) + "-" + std::to_string(ports.max))
        .Phase("listen")
        .Next("give the lower port first");
  }
  Impl* impl = impl_.get();
  auto lobby = impl->NewListener(pipe::kNoService, impl->context, AllOf(impl->pool),
                                 [](pipe::Pipe&) -> std::unique_ptr<pipe::Receiver> {
                                   FUSEWIRE_CHECK(false);  // it completes no greeting
                                   return nullptr;
                                 });
  Status opened;
  impl->first_home().Run([&] {
    if (impl->lobby == nullptr) impl->lobby = std::move(lobby);
    if (impl->listening) {
      opened = Status::Invalid("the task listens already, at " + impl->counts.address.ToString())
                   .Peer(address.ToString())
                   .Phase("listen")
                   .Next("open its services without an address, or stop listening first");
      return;
    }
    {
      MutexLock lock(impl->mutex);
      impl->addresses.clear();
    }
    impl->next = address;
    impl->ports = ports;
    opened = impl->Open();
    impl->listening = opened.ok();
    if (opened.ok()) return;
    for (auto& [number, service] : impl->services) service.listener.reset();
  });
  return opened;
}

Status Acceptor::Impl::Open() {
  FUSEWIRE_AT_HOME(first_home());
  FUSEWIRE_CHECK(!listening);
  FUSEWIRE_CHECK(listener == nullptr);
  if (hands_over) {
    listener = FUSEWIRE_TRY(ListenAtNext(pipe::kNoService));
    return Status::Ok();
  }
  for (const auto& [number, service] : services) {
    if (service.serves) FUSEWIRE_TRY(OpenFor(number));
  }
  return Status::Ok();
}

// Where each service has its own listener.
Status Acceptor::Impl::OpenFor(uint16_t service) {
  services[service].listener = FUSEWIRE_TRY(ListenAtNext(service));
  next.port = 0;
  return Status::Ok();
}

Result<std::unique_ptr<transport::Listener>> Acceptor::Impl::ListenAtNext(uint16_t service) {
  const int first = next.port != 0 ? next.port : ports.min, last = next.port != 0 ? next.port : ports.max;
  Status failed;
  for (int port = first; port <= last; ++port) {
    auto opened = transport.Listen(
        first_home(), {next.host, static_cast<uint16_t>(port)},
        [this, service](std::unique_ptr<transport::Incoming> incoming) { OnIncoming(service, std::move(incoming)); });
    if (opened.ok()) {
      MutexLock lock(mutex);
      addresses[service] = opened.value()->address();
      if (addresses.count(pipe::kNoService) == 0) addresses[pipe::kNoService] = addresses[service];
      counts.address = addresses[pipe::kNoService];
      return opened;
    }
    failed = opened.status();
  }
  if (first == last) return failed;
  return Status(failed.code(), "none of the ports " + std::to_string(first) + " to " + std::to_string(last) +
                                   " could be opened, the last: " + failed.cause())
      .Peer(next.ToString())
      .Phase("listen")
      .Next("allow other ports");
}

void Acceptor::StopListening() {
  Impl* impl = impl_.get();
  impl->first_home().Run([impl] {
    impl->listening = false;
    impl->listener.reset();
    for (auto& [number, service] : impl->services) service.listener.reset();
  });
}

// ---- its services ----

Status Acceptor::Serve(uint16_t service, pipe::PipeContext& context, std::vector<reactor::Reactor*> homes,
                       NewReceiver new_receiver) {
  FUSEWIRE_CHECK(service != pipe::kNoService);
  FUSEWIRE_CHECK(!homes.empty());
  Impl* impl = impl_.get();
  auto service_listener = impl->NewListener(service, context, homes, std::move(new_receiver));
  Status served;
  impl->first_home().Run([&] {
    Impl::Service& place = impl->services[service];
    if (place.service_listener != nullptr) {
      served = Status::Invalid("service " + wire::ServiceWords(service) + " is served here already")
                   .Peer(impl->counts.address.ToString())
                   .Phase("listen")
                   .Next("close the one that is there, or open this one in a task of its own");
      return;
    }
    if (impl->listening && !impl->hands_over) {
      served = impl->OpenFor(service);
      if (!served.ok()) return;
    }
    place.service_listener = std::move(service_listener);
    place.serves = true;
    impl->served.fetch_add(1, std::memory_order_relaxed);
  });
  return served;
}

void Acceptor::StopServing(uint16_t service) {
  Impl* impl = impl_.get();
  impl->first_home().Run([impl, service] {
    auto found = impl->services.find(service);
    if (found == impl->services.end()) return;
    found->second.serves = false;
    found->second.listener.reset();
  });
}

void Acceptor::CloseService(uint16_t service, Status why) {
  Impl* impl = impl_.get();
  std::vector<reactor::Reactor*> homes;
  impl->first_home().Run([&] {
    auto found = impl->services.find(service);
    if (found != impl->services.end() && found->second.service_listener != nullptr)
      found->second.service_listener->CloseAll(why, &homes);
  });
  for (reactor::Reactor* home : homes) home->Run([] {});
}

void Acceptor::Withdraw(uint16_t service) {
  StopServing(service);
  Impl* impl = impl_.get();
  std::unique_ptr<ServiceListener> gone;  // goes at its homes, not from this one
  impl->first_home().Run([impl, service, &gone] {
    auto found = impl->services.find(service);
    if (found != impl->services.end()) gone = std::move(found->second.service_listener);
    if (gone != nullptr) impl->served.fetch_sub(1, std::memory_order_relaxed);
  });
}

size_t Acceptor::services() const { return impl_->served.load(std::memory_order_relaxed); }

// ---- what comes in ----

// Where there is nothing to choose, the one service takes it at once; otherwise its hello is read first.
ServiceListener* Acceptor::Impl::Front(uint16_t service) {
  FUSEWIRE_AT_HOME(first_home());
  FUSEWIRE_DCHECK(hands_over == (service == pipe::kNoService));
  if (service == pipe::kNoService && services.size() == 1) service = services.begin()->first;
  auto found = services.find(service);
  return found != services.end() && found->second.serves ? found->second.service_listener.get() : lobby.get();
}

void Acceptor::Impl::OnIncoming(uint16_t service, std::unique_ptr<transport::Incoming> incoming) {
  counts.accepted.fetch_add(1, std::memory_order_relaxed);
  if (counts.connections.load(std::memory_order_relaxed) >= context.options().connections_max) {
    counts.TellTurnedAway(incoming->peer_address(),
                          Status::Overloaded("connections_max is reached").Next("raise connections_max"),
                          first_home().now_ns());
    return;
  }
  counts.connections.fetch_add(1, std::memory_order_relaxed);
  Front(service)->Take(std::move(incoming));
}

void Acceptor::Impl::HandOver(pipe::HandedOver handed) {
  first_home().Post([this, handed = std::move(handed)]() mutable {
    if (!leaving) Place(std::move(handed));
  });
}

// A peer of a service that was here may go on waiting for it.
void Acceptor::Impl::Place(pipe::HandedOver handed) {
  FUSEWIRE_AT_HOME(first_home());
  FUSEWIRE_CHECK(hands_over);
  auto found = services.find(handed.service);
  if (found != services.end() && found->second.serves) {
    found->second.service_listener->Take(std::move(handed));
    return;
  }
  handed.refusal = pipe::NotOffered(handed.service);
  if (found != services.end()) {
    handed.refusal = Status::Unavailable("service " + wire::ServiceWords(handed.service) + " is not offered any more")
                         .Next("try again, or look at the peer: it may be about to end");
  }
  lobby->Take(std::move(handed));
}

AcceptorStats Acceptor::Snapshot() const {
  const AcceptorCounts& counts = impl_->counts;
  AcceptorStats stats;
  stats.accepted = counts.accepted.load(std::memory_order_relaxed);
  stats.greeted = counts.greeted.load(std::memory_order_relaxed);
  stats.turned_away = counts.turned_away.load(std::memory_order_relaxed);
  stats.superseded = counts.superseded.load(std::memory_order_relaxed);
  stats.open = counts.open.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace fusewire::task
