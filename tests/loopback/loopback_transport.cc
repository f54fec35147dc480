// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "loopback/loopback_transport.h"

#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

// A delayed packet is sent again after this time.
constexpr int64_t kRepeatNs = 5 * kMillisecondNs;

bool NamesOwnHost(const std::string& host) { return host.empty() || host == "*" || host == "localhost"; }

// The next free port of this host.
uint16_t FreePort(Host* host) {
  do {
    if (++host->next_port < 40000) host->next_port = 40000;
  } while (host->listeners.count(host->next_port) > 0);
  return host->next_port;
}

}  // namespace

// ---- listening ----

Result<std::unique_ptr<Listener>> LoopbackTransport::Listen(reactor::Reactor& home, const Address& address,
                                                            OnIncoming on_incoming) {
  FUSEWIRE_AT_HOME(home);
  auto refused = [&address](int error, const char* next) {
    return Status::FromErrno(Code::kInvalid, "bind", error).Peer(address.ToString()).Phase("listen").Next(next);
  };
  if (!NamesOwnHost(address.host) && network_->Find(address.host) != host_) {
    return refused(EADDRNOTAVAIL, "choose an address of this host");
  }
  Address taken = address;
  if (taken.port == 0) taken.port = FreePort(host_);
  if (host_->listeners.count(taken.port) > 0) {
    return refused(EADDRINUSE, "choose another port, or stop the process that holds this one");
  }
  return std::unique_ptr<Listener>(
      std::make_unique<LoopbackListener>(network_, host_, home, taken, std::move(on_incoming)));
}

LoopbackListener::LoopbackListener(Network* network, Host* host, reactor::Reactor& home, Address address,
                                   OnIncoming on_incoming)
    : network_(network),
      host_(host),
      home_(home),
      address_(std::move(address)),
      on_incoming_(std::move(on_incoming)),
      alive_(std::make_shared<bool>(true)) {
  host_->listeners[address_.port] = this;
}

LoopbackListener::~LoopbackListener() {
  FUSEWIRE_AT_HOME(home_);
  *alive_ = false;
  host_->listeners.erase(address_.port);
}

void LoopbackListener::Offer(LoopbackEnd end, std::string peer_address) {
  auto incoming = std::make_unique<LoopbackIncoming>(network_, std::move(end), std::move(peer_address));
  home_.Post([this, alive = alive_, incoming = std::move(incoming)]() mutable {
    if (*alive) on_incoming_(std::move(incoming));
  });
}

// ---- dialling ----

std::unique_ptr<Dialing> LoopbackTransport::Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                                 OnDialed on_dialed) {
  auto dialing = std::make_unique<LoopbackDialing>(network_, streams_, host_, home, address, std::move(on_dialed));
  dialing->Start(timeout_ns);
  return dialing;
}

LoopbackDialing::LoopbackDialing(Network* network, Streams* streams, Host* host, reactor::Reactor& home,
                                 Address address, OnDialed on_dialed)
    : network_(network),
      streams_(streams),
      host_(host),
      home_(home),
      address_(std::move(address)),
      on_dialed_(std::move(on_dialed)),
      deadline_([this] {
        error_ = Status::Timeout("no connection");
        Finish();
      }),
      alive_(std::make_shared<bool>(true)) {}

void LoopbackDialing::Start(int64_t timeout_ns) {
  FUSEWIRE_AT_HOME(home_);
  began_ns_ = home_.now_ns();
  home_.Arm(&deadline_, timeout_ns);
  // An unknown name takes as long to resolve as our own.
  const Host* other = NamesOwnHost(address_.host) ? nullptr : network_->Find(address_.host);
  const LoopbackFaults& faults = network_->FaultsBetween(host_->name, other == nullptr ? host_->name : other->name);
  auto delay_ns = static_cast<int64_t>(network_->random().Below(static_cast<uint64_t>(faults.dial_delay_ns_max) + 1));
  After(faults.latency_ns_min + delay_ns, &LoopbackDialing::Knock);
}

void LoopbackDialing::After(int64_t delay_ns, void (LoopbackDialing::*step)()) {
  network_->At(network_->now_ns() + delay_ns, [this, step, alive = alive_] {
    if (*alive) (this->*step)();
  });
}

// The name is resolved now, not when the dialling began: a host that has moved is found at its new place.
void LoopbackDialing::Knock() {
  Host* target = NamesOwnHost(address_.host) ? host_ : network_->Find(address_.host);
  if (target == nullptr) {
    Answer(Status::Unavailable("the name does not resolve: no host has it")
               .Phase("resolve " + address_.host)
               .Next("check the name and this host's name service"));
    return;
  }
  const LoopbackFaults& there = network_->FaultsBetween(host_->name, target->name);
  const LoopbackFaults& back = network_->FaultsBetween(target->name, host_->name);
  bool held_up = there.clogged || back.clogged || there.lost || back.lost || target->fate == Host::Fate::kSilent;
  if (held_up) {
    After(kRepeatNs, &LoopbackDialing::Knock);
    return;
  }
  auto listener = target->listeners.find(address_.port);
  bool refused = target->fate != Host::Fate::kUp || listener == target->listeners.end();
  if (refused || network_->random().Chance(there.refuse_chance)) {
    Answer(Status::FromErrno(Code::kUnavailable, "connect", ECONNREFUSED));
    return;
  }
  Connect(target, listener->second);
}

void LoopbackDialing::Connect(Host* target, LoopbackListener* listener) {
  auto [there, back] = streams_->Connect(host_, target);
  std::string own_address = host_->name + ":" + std::to_string(FreePort(host_));
  listener->Offer(LoopbackEnd(there, back), std::move(own_address));
  connection_ = std::make_unique<LoopbackConnection>(network_, home_, LoopbackEnd(back, there), address_.ToString());
  Answer(Status::Ok());
}

void LoopbackDialing::Answer(Status why) {
  error_ = std::move(why);
  network_->At(network_->now_ns() + network_->FaultsBetween(host_->name, host_->name).latency_ns_min,
               [this, alive = alive_] {
                 if (!*alive) return;
                 home_.Post([this, alive] {
                   if (*alive) Finish();
                 });
               });
}

void LoopbackDialing::Finish() {
  FUSEWIRE_AT_HOME(home_);
  reactor::Reactor::Disarm(&deadline_);
  *alive_ = false;  // no more answers
  // The callback may destroy this object.
  OnDialed on_dialed = std::move(on_dialed_);
  if (error_.ok()) {
    on_dialed(std::move(connection_));
    return;
  }
  on_dialed(error_.Peer(address_.ToString())
                .Phase("connect")
                .AgeMs((home_.now_ns() - began_ns_) / kMillisecondNs)
                .Next("check that the peer is running, and that its address and port are right"));
}

}  // namespace fusewire::transport
