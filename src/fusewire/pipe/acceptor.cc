// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/acceptor.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/log.h"
#include "fusewire/pipe/porch.h"
#include "fusewire/pipe/roster.h"

namespace fusewire {
namespace pipe {

struct Acceptor::Impl final : PorchOwner {
  Impl(Shared& shared_in, reactor::Pool& pool_in, NewReceiver new_receiver_in)
      : shared(shared_in),
        pool(pool_in),
        new_receiver(std::move(new_receiver_in)),
        roster(static_cast<size_t>(shared_in.options().connections_max), shared_in.options().silent_ns_max) {}

  void OnIncoming(std::unique_ptr<transport::Incoming> incoming);
  std::unique_ptr<Receiver> NewReceiverFor(Pipe& pipe) override { return new_receiver(pipe); }
  void OnGreeted(size_t porch, uint64_t id, const PeerInfo& peer) override;
  void OnGone(size_t porch, uint64_t id, const PeerInfo& peer) override;
  void OnTurnedAway(const PeerInfo& peer, const Status& why, int64_t now_ns) override;
  void TellTurnedAway(const std::string& peer_address, const Status& why, int64_t now_ns);
  void ClosePipe(Seat seat, const Status& why);

  Shared& shared;
  reactor::Pool& pool;
  NewReceiver new_receiver;
  transport::Address address;
  std::unique_ptr<transport::Listener> listener;  // at home of the pool's first reactor, as is the roster
  Roster roster;
  std::vector<std::unique_ptr<Porch>> porches;  // one per reactor of the pool
  size_t next_porch = 0;
  bool leaving = false;             // at home of the pool's first reactor
  std::atomic<int> connections{0};  // seated, greeted or not
  std::atomic<uint64_t> accepted{0}, greeted{0}, turned_away{0}, superseded{0}, open{0};
  SourceLog turned_away_log;
};

Result<std::unique_ptr<Acceptor>> Acceptor::Open(Shared& shared, reactor::Pool& pool, transport::Transport& transport,
                                                 const transport::Address& address, uint16_t service,
                                                 NewReceiver new_receiver) {
  auto impl = std::make_unique<Impl>(shared, pool, std::move(new_receiver));
  size_t greetings_max = static_cast<size_t>(std::max(1, shared.options().greetings_max / pool.size()));
  for (int i = 0; i < pool.size(); ++i) {
    impl->porches.push_back(
        std::make_unique<Porch>(impl.get(), static_cast<size_t>(i), shared, pool.at(i), service, greetings_max));
  }
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
    self->address = self->listener->address();
  });
  if (!failed.ok()) return failed;
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(impl)));
}

Acceptor::Acceptor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Acceptor::~Acceptor() {
  Impl* impl = impl_.get();
  impl->pool.at(0).Run([impl] {
    impl->listener.reset();
    impl->leaving = true;  // from now on nothing is posted to the porches
  });
  for (size_t i = impl->porches.size(); i-- > 0;) {
    impl->porches[i]->home().Run([impl, i] { impl->porches[i].reset(); });
  }
  impl->pool.at(0).Run([] {});  // what they posted has been delivered when this has
}

const transport::Address& Acceptor::address() const { return impl_->address; }

void Acceptor::StopListening() {
  Impl* impl = impl_.get();
  impl->pool.at(0).Run([impl] { impl->listener.reset(); });
}

void Acceptor::Close(Status why) {
  Impl* impl = impl_.get();
  StopListening();
  for (auto& porch : impl->porches) {
    Porch* one = porch.get();
    one->home().Run([one, &why] { one->CloseAll(why); });
  }
}

AcceptorStats Acceptor::Snapshot() const {
  AcceptorStats stats;
  stats.accepted = impl_->accepted.load(std::memory_order_relaxed);
  stats.greeted = impl_->greeted.load(std::memory_order_relaxed);
  stats.turned_away = impl_->turned_away.load(std::memory_order_relaxed);
  stats.superseded = impl_->superseded.load(std::memory_order_relaxed);
  stats.open = impl_->open.load(std::memory_order_relaxed);
  return stats;
}

void Acceptor::Impl::OnIncoming(std::unique_ptr<transport::Incoming> incoming) {
  accepted.fetch_add(1, std::memory_order_relaxed);
  if (connections.load(std::memory_order_relaxed) >= shared.options().connections_max) {
    TellTurnedAway(incoming->peer_address(),
                   Status::Overloaded("connections_max is reached").Next("raise connections_max"), pool.at(0).now_ns());
    return;
  }
  connections.fetch_add(1, std::memory_order_relaxed);
  Porch* porch = porches[next_porch++ % porches.size()].get();
  auto seat = [porch, incoming = std::move(incoming), this]() mutable {
    Result<std::unique_ptr<transport::Connection>> connection = incoming->Adopt(porch->home());
    if (connection.ok()) {
      porch->Take(std::move(connection).value());
      return;
    }
    connections.fetch_sub(1, std::memory_order_relaxed);
    TellTurnedAway(incoming->peer_address(), connection.status(), porch->home().now_ns());
  };
  if (porch->home().AtHome()) {
    seat();
  } else {
    porch->home().Post(std::move(seat));
  }
}

void Acceptor::Impl::OnGreeted(size_t porch, uint64_t id, const PeerInfo& peer) {
  greeted.fetch_add(1, std::memory_order_relaxed);
  open.fetch_add(1, std::memory_order_relaxed);
  if (peer.name.empty()) return;
  pool.at(0).Post([this, seat = Seat{porch, id}, name = peer.name, incarnation = peer.incarnation] {
    if (leaving) return;
    for (const Seat& old : roster.OnGreeted(name, incarnation, seat, pool.at(0).now_ns())) {
      superseded.fetch_add(1, std::memory_order_relaxed);
      ClosePipe(old, Status::Unavailable("another incarnation of " + name + " has taken its place")
                         .Phase("greeting")
                         .Next("nothing, if the task was restarted; else two tasks have the same name"));
    }
  });
}

void Acceptor::Impl::OnGone(size_t porch, uint64_t id, const PeerInfo& peer) {
  connections.fetch_sub(1, std::memory_order_relaxed);
  open.fetch_sub(1, std::memory_order_relaxed);
  if (peer.name.empty()) return;
  pool.at(0).Post([this, seat = Seat{porch, id}, name = peer.name] { roster.OnGone(name, seat, pool.at(0).now_ns()); });
}

void Acceptor::Impl::OnTurnedAway(const PeerInfo& peer, const Status& why, int64_t now_ns) {
  connections.fetch_sub(1, std::memory_order_relaxed);
  TellTurnedAway(peer.ToString(), why, now_ns);
}

void Acceptor::Impl::TellTurnedAway(const std::string& peer_address, const Status& why, int64_t now_ns) {
  turned_away.fetch_add(1, std::memory_order_relaxed);
  uint64_t held_back = 0;
  if (!turned_away_log.Allow(peer_address, now_ns, &held_back)) return;
  FUSEWIRE_LOG(kWarn, "listener %s turned %s away (%llu more in between): %s", address.ToString().c_str(),
               peer_address.c_str(), static_cast<unsigned long long>(held_back), why.ToString().c_str());
}

void Acceptor::Impl::ClosePipe(Seat seat, const Status& why) {
  Porch* porch = porches[seat.porch].get();
  porch->home().Post([porch, id = seat.id, why] { porch->ClosePipe(id, why); });
}

}  // namespace pipe
}  // namespace fusewire
