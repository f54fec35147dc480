// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/acceptor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fusewire/pipe/handed_over.h"
#include "fusewire/pipe/handshake.h"
#include "fusewire/pipe/offering.h"
#include "fusewire/wire/hello.h"

namespace fusewire {
namespace pipe {

struct Acceptor::Impl final : OtherHomes {
  Impl(Shared& shared_in, reactor::Pool& pool_in, transport::Transport& transport_in)
      : shared(shared_in), pool(pool_in), hands_over(transport_in.HandsOver()) {}

  void OnIncoming(std::unique_ptr<transport::Incoming> incoming);
  void OnHandedOver(HandedOver handed) override;
  void Place(HandedOver handed);
  // For each porch of an offering.
  size_t GreetingsMax(const Shared& of) const {
    return static_cast<size_t>(std::max(1, of.options().greetings_max / pool.size()));
  }

  // A service that shares the listener.
  struct Other {
    uint16_t service;
    std::unique_ptr<Offering> offering;  // null: it was withdrawn
    bool serves;
  };
  Other* Find(uint16_t service);

  Shared& shared;
  reactor::Pool& pool;
  const bool hands_over;
  AcceptorCounts counts;
  std::unique_ptr<Offering> own;
  // At home of the pool's first reactor.
  std::unique_ptr<transport::Listener> listener;
  std::vector<Other> others;
  bool leaving = false;
};

Result<std::unique_ptr<Acceptor>> Acceptor::Open(Shared& shared, reactor::Pool& pool, transport::Transport& transport,
                                                 const transport::Address& address, uint16_t service,
                                                 NewReceiver new_receiver) {
  auto impl = std::make_unique<Impl>(shared, pool, transport);
  std::vector<reactor::Reactor*> homes;
  for (int i = 0; i < pool.size(); ++i) homes.push_back(&pool.at(i));
  impl->own = std::make_unique<Offering>(impl->counts, service, shared, std::move(homes), pool.at(0),
                                         impl->GreetingsMax(shared), std::move(new_receiver),
                                         impl->hands_over ? impl.get() : nullptr);
  Status failed;
  pool.at(0).Run([&] {
    Impl* self = impl.get();
    auto listener = transport.Listen(pool.at(0), address, [self](std::unique_ptr<transport::Incoming> incoming) {
      self->OnIncoming(std::move(incoming));
    });
    if (!listener.ok()) {
      failed = listener.status();
      return;
    }
    self->listener = std::move(listener).value();
    self->counts.address = self->listener->address();
  });
  if (!failed.ok()) return failed;
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(impl)));
}

Acceptor::Acceptor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Acceptor::~Acceptor() {
  Impl* impl = impl_.get();
  impl->pool.at(0).Run([impl] {
    impl->listener.reset();
    impl->leaving = true;  // from now on nobody gets a place
  });
  impl->own.reset();
  impl->others.clear();
}

const transport::Address& Acceptor::address() const { return impl_->counts.address; }

void Acceptor::StopListening() {
  Impl* impl = impl_.get();
  impl->pool.at(0).Run([impl] { impl->listener.reset(); });
}

void Acceptor::Close(Status why) {
  StopListening();
  Impl* impl = impl_.get();
  std::vector<reactor::Reactor*> homes;
  impl->pool.at(0).Run([&] {
    impl->own->CloseAll(why, &homes);
    for (Impl::Other& other : impl->others) {
      if (other.offering != nullptr) other.offering->CloseAll(why, &homes);
    }
  });
  for (reactor::Reactor* home : homes) home->Run([] {});
}

// ---- services that share the listener ----

Status Acceptor::Serve(uint16_t service, Shared& shared, reactor::Reactor& home, NewReceiver new_receiver) {
  if (!impl_->hands_over) {
    return Status::Unavailable("over this transport a listener has one service")
        .Peer(address().ToString())
        .Phase("listen")
        .Next("give the other one a listener of its own");
  }
  Impl* impl = impl_.get();
  auto offering =
      std::make_unique<Offering>(impl->counts, service, shared, std::vector<reactor::Reactor*>{&home}, impl->pool.at(0),
                                 impl->GreetingsMax(shared), std::move(new_receiver), nullptr);
  impl->pool.at(0).Run([&] {
    Impl::Other* other = impl->Find(service);
    if (service == impl->own->service() || (other != nullptr && other->offering != nullptr)) return;
    if (other == nullptr) other = &impl->others.emplace_back(Impl::Other{service, nullptr, false});
    other->offering = std::move(offering);
    other->serves = true;
  });
  if (offering == nullptr) return Status::Ok();
  return Status::Invalid("service " + wire::ServiceWords(service) + " is served here already")
      .Peer(address().ToString())
      .Phase("listen");
}

void Acceptor::StopServing(uint16_t service) {
  Impl* impl = impl_.get();
  impl->pool.at(0).Run([impl, service] {
    Impl::Other* other = impl->Find(service);
    if (other != nullptr) other->serves = false;
  });
}

void Acceptor::Withdraw(uint16_t service) {
  Impl* impl = impl_.get();
  std::unique_ptr<Offering> gone;  // goes at its homes, not from this one
  impl->pool.at(0).Run([impl, service, &gone] {
    Impl::Other* other = impl->Find(service);
    if (other == nullptr) return;
    other->serves = false;
    gone = std::move(other->offering);
  });
}

Acceptor::Impl::Other* Acceptor::Impl::Find(uint16_t service) {
  for (Other& other : others) {
    if (other.service == service) return &other;
  }
  return nullptr;
}

// ---- what comes in ----

void Acceptor::Impl::OnIncoming(std::unique_ptr<transport::Incoming> incoming) {
  counts.accepted.fetch_add(1, std::memory_order_relaxed);
  if (counts.connections.load(std::memory_order_relaxed) >= shared.options().connections_max) {
    counts.TellTurnedAway(incoming->peer_address(),
                          Status::Overloaded("connections_max is reached").Next("raise connections_max"),
                          pool.at(0).now_ns());
    return;
  }
  counts.connections.fetch_add(1, std::memory_order_relaxed);
  own->Take(std::move(incoming));
}

void Acceptor::Impl::OnHandedOver(HandedOver handed) {
  pool.at(0).Post([this, handed = std::move(handed)]() mutable {
    if (!leaving) Place(std::move(handed));
  });
}

// Whoever waits for a service that was here may go on waiting.
void Acceptor::Impl::Place(HandedOver handed) {
  Other* other = Find(handed.service);
  if (other != nullptr && other->serves) {
    other->offering->Take(std::move(handed));
    return;
  }
  handed.refusal = NotOffered(handed.service);
  if (other != nullptr) {
    handed.refusal = Status::Unavailable("service " + wire::ServiceWords(handed.service) + " is not offered any more")
                         .Next("try again, or look at the peer: it may be about to end");
  }
  own->Take(std::move(handed));
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

}  // namespace pipe
}  // namespace fusewire
