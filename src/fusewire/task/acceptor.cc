// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/acceptor.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
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

Acceptor::~Acceptor() {
  StopListening();
  std::map<uint16_t, Service> gone;  // goes at its homes, not from this one
  first_home().Run([this, &gone] {
    leaving_ = true;  // from now on nobody gets a place
    gone.swap(services_);
  });
  gone.clear();
  lobby_.reset();
}

std::unique_ptr<ServiceListener> Acceptor::NewListener(uint16_t service, pipe::PipeContext& of,
                                                       const std::vector<reactor::Reactor*>& homes,
                                                       NewReceiver new_receiver) {
  const size_t fit = kGreetingsBytesMax / transport_.GreetingBytes();
  const size_t of_all = std::min(static_cast<size_t>(of.options().greetings_max), fit);
  // For each reactor of a service.
  const size_t greetings_max = std::max<size_t>(of_all / static_cast<size_t>(pool_.size()), 1);
  OnOtherService on_other_service;
  if (hands_over_) on_other_service = [this](pipe::HandedOver handed) { HandOver(std::move(handed)); };
  return std::make_unique<ServiceListener>(counts_, service, of, homes, first_home(), greetings_max,
                                           std::move(new_receiver), std::move(on_other_service));
}

// ---- where it listens ----

transport::Address Acceptor::address() const { return AddressOf(pipe::kNoService); }

transport::Address Acceptor::AddressOf(uint16_t service) const {
  MutexLock lock(mutex_);
  auto own = addresses_.find(service);
  if (own == addresses_.end()) own = addresses_.find(pipe::kNoService);
  return own == addresses_.end() ? transport::Address() : own->second;
}

Status Acceptor::Listen(const transport::Address& address, pipe::PortRange ports) {
  if (ports.min > ports.max) {
    return Status::Invalid("empty port range " + std::to_string(ports.min) + "-" + std::to_string(ports.max))
        .Phase("listen")
        .Next("give the lower port first");
  }
  auto lobby =
      NewListener(pipe::kNoService, context_, AllOf(pool_), [](pipe::Pipe&) -> std::unique_ptr<pipe::Receiver> {
        FUSEWIRE_CHECK(false);  // it completes no greeting
        return nullptr;
      });
  Status opened;
  first_home().Run([&] {
    if (lobby_ == nullptr) lobby_ = std::move(lobby);
    if (listening_) {
      opened = Status::Invalid("the task listens already, at " + counts_.address.ToString())
                   .Peer(address.ToString())
                   .Phase("listen")
                   .Next("open its services without an address, or stop listening first");
      return;
    }
    {
      MutexLock lock(mutex_);
      addresses_.clear();
    }
    next_ = address;
    ports_ = ports;
    opened = Open();
    listening_ = opened.ok();
    if (opened.ok()) return;
    for (auto& [number, service] : services_) service.listener.reset();
  });
  return opened;
}

Status Acceptor::Open() {
  FUSEWIRE_AT_HOME(first_home());
  FUSEWIRE_CHECK(!listening_);
  FUSEWIRE_CHECK(listener_ == nullptr);
  if (hands_over_) {
    listener_ = FUSEWIRE_TRY(ListenAtNext(pipe::kNoService));
    return Status::Ok();
  }
  for (const auto& [number, service] : services_) {
    if (service.serves) FUSEWIRE_TRY(OpenFor(number));
  }
  return Status::Ok();
}

// Where each service has its own listener.
Status Acceptor::OpenFor(uint16_t service) {
  services_[service].listener = FUSEWIRE_TRY(ListenAtNext(service));
  next_.port = 0;
  return Status::Ok();
}

Result<std::unique_ptr<transport::Listener>> Acceptor::ListenAtNext(uint16_t service) {
  const int first = next_.port != 0 ? next_.port : ports_.min, last = next_.port != 0 ? next_.port : ports_.max;
  Status failed;
  for (int port = first; port <= last; ++port) {
    auto opened = transport_.Listen(
        first_home(), {next_.host, static_cast<uint16_t>(port)},
        [this, service](std::unique_ptr<transport::Incoming> incoming) { OnIncoming(service, std::move(incoming)); });
    if (opened.ok()) {
      MutexLock lock(mutex_);
      addresses_[service] = opened.value()->address();
      if (addresses_.count(pipe::kNoService) == 0) addresses_[pipe::kNoService] = addresses_[service];
      counts_.address = addresses_[pipe::kNoService];
      return opened;
    }
    failed = opened.status();
  }
  if (first == last) return failed;
  return Status(failed.code(), "none of the ports " + std::to_string(first) + " to " + std::to_string(last) +
                                   " could be opened, the last: " + failed.cause())
      .Peer(next_.ToString())
      .Phase("listen")
      .Next("allow other ports");
}

void Acceptor::StopListening() {
  first_home().Run([this] {
    listening_ = false;
    listener_.reset();
    for (auto& [number, service] : services_) service.listener.reset();
  });
}

// ---- its services ----

Status Acceptor::Serve(uint16_t service, pipe::PipeContext& context, std::vector<reactor::Reactor*> homes,
                       NewReceiver new_receiver) {
  FUSEWIRE_CHECK(service != pipe::kNoService);
  FUSEWIRE_CHECK(!homes.empty());
  auto service_listener = NewListener(service, context, homes, std::move(new_receiver));
  Status served;
  first_home().Run([&] {
    Service& place = services_[service];
    if (place.service_listener != nullptr) {
      served = Status::Invalid("service " + wire::ServiceWords(service) + " is served here already")
                   .Peer(counts_.address.ToString())
                   .Phase("listen")
                   .Next("close the one that is there, or open this one in a task of its own");
      return;
    }
    if (listening_ && !hands_over_) {
      served = OpenFor(service);
      if (!served.ok()) return;
    }
    place.service_listener = std::move(service_listener);
    place.serves = true;
    served_.fetch_add(1, std::memory_order_relaxed);
  });
  return served;
}

void Acceptor::StopServing(uint16_t service) {
  first_home().Run([this, service] {
    auto found = services_.find(service);
    if (found == services_.end()) return;
    found->second.serves = false;
    found->second.listener.reset();
  });
}

void Acceptor::CloseService(uint16_t service, Status why) {
  std::vector<reactor::Reactor*> homes;
  first_home().Run([&] {
    auto found = services_.find(service);
    if (found != services_.end() && found->second.service_listener != nullptr)
      found->second.service_listener->CloseAll(why, &homes);
  });
  for (reactor::Reactor* home : homes) home->Run([] {});
}

void Acceptor::Withdraw(uint16_t service) {
  StopServing(service);
  std::unique_ptr<ServiceListener> gone;  // goes at its homes, not from this one
  first_home().Run([this, service, &gone] {
    auto found = services_.find(service);
    if (found != services_.end()) gone = std::move(found->second.service_listener);
    if (gone != nullptr) served_.fetch_sub(1, std::memory_order_relaxed);
  });
}

// ---- what comes in ----

// Where there is nothing to choose, the one service takes it at once; otherwise its hello is read first.
ServiceListener* Acceptor::Front(uint16_t service) {
  FUSEWIRE_AT_HOME(first_home());
  FUSEWIRE_DCHECK(hands_over_ == (service == pipe::kNoService));
  if (service == pipe::kNoService && services_.size() == 1) service = services_.begin()->first;
  auto found = services_.find(service);
  return found != services_.end() && found->second.serves ? found->second.service_listener.get() : lobby_.get();
}

void Acceptor::OnIncoming(uint16_t service, std::unique_ptr<transport::Incoming> incoming) {
  counts_.accepted.fetch_add(1, std::memory_order_relaxed);
  if (counts_.connections.load(std::memory_order_relaxed) >= context_.options().connections_max) {
    counts_.TellTurnedAway(incoming->peer_address(),
                           Status::Overloaded("connections_max is reached").Next("raise connections_max"),
                           first_home().now_ns());
    return;
  }
  counts_.connections.fetch_add(1, std::memory_order_relaxed);
  Front(service)->Take(std::move(incoming));
}

void Acceptor::HandOver(pipe::HandedOver handed) {
  first_home().Post([this, handed = std::move(handed)]() mutable {
    if (!leaving_) Place(std::move(handed));
  });
}

// A peer of a service that was here may go on waiting for it.
void Acceptor::Place(pipe::HandedOver handed) {
  FUSEWIRE_AT_HOME(first_home());
  FUSEWIRE_CHECK(hands_over_);
  auto found = services_.find(handed.service);
  if (found != services_.end() && found->second.serves) {
    found->second.service_listener->Take(std::move(handed));
    return;
  }
  handed.refusal = pipe::NotOffered(handed.service);
  if (found != services_.end()) {
    handed.refusal = Status::Unavailable("service " + wire::ServiceWords(handed.service) + " is not offered any more")
                         .Next("try again, or look at the peer: it may be about to end");
  }
  lobby_->Take(std::move(handed));
}

AcceptorStats Acceptor::Snapshot() const {
  AcceptorStats stats;
  stats.accepted = counts_.accepted.load(std::memory_order_relaxed);
  stats.greeted = counts_.greeted.load(std::memory_order_relaxed);
  stats.turned_away = counts_.turned_away.load(std::memory_order_relaxed);
  stats.superseded = counts_.superseded.load(std::memory_order_relaxed);
  stats.open = counts_.open.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace fusewire::task
