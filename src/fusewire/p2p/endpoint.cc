// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/endpoint.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"
#include "fusewire/p2p/lanes.h"
#include "fusewire/pipe/acceptor.h"

namespace fusewire {
namespace p2p {
namespace {

// Who leaves looks so often whether the others have heard of it, each time a turn of the loop, before it sleeps.
constexpr int kLooksAtOnce = 4;

std::unique_ptr<pipe::Receiver> NewLane(Core& core, pipe::Pipe& pipe) {
  return std::make_unique<AcceptedLane>(core, pipe);
}

}  // namespace

struct Endpoint::Impl {
  Impl(EndpointOptions options, std::unique_ptr<reactor::Pool> pool_in, std::unique_ptr<transport::Transport> way)
      : shared(std::move(options.pipe)),
        pool(std::move(pool_in)),
        transport(std::move(way)),
        core(std::make_unique<Core>(shared.options(), pool->at(0), options.limits, std::move(options.on_peer),
                                    [this](Core& dialling, PeerLink& peer, const transport::Address& address) {
                                      return std::make_unique<DialedLane>(dialling, peer, shared, *transport, address);
                                    })) {}
  // Taken down in this order: nobody comes any more; then the peers, at home; then what they stood on.
  ~Impl() {
    if (shared_acceptor != nullptr) shared_acceptor->Withdraw(wire::kP2pService);
    acceptor.reset();
    pool->at(0).Run([this] { core.reset(); });
    transport.reset();
    pool->Close();
  }

  pipe::Shared shared;
  std::unique_ptr<reactor::Pool> pool;
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<Core> core;
  std::unique_ptr<pipe::Acceptor> acceptor;   // our own; or null
  pipe::Acceptor* shared_acceptor = nullptr;  // instead
  const transport::Address nowhere;
  bool may_share = false;
};

Result<std::unique_ptr<Endpoint>> Endpoint::Start(EndpointOptions options, const transport::Address& address) {
  options.pool.reactors = 1;
  if (options.pool.name == reactor::PoolOptions().name) options.pool.name = "p2p " + options.pipe.name;
  Result<std::unique_ptr<reactor::Pool>> pool = reactor::Pool::Start(options.pool);
  if (!pool.ok()) return pool.status();
  const bool shares = options.wire == pipe::TransportChoice::kShm ||
                      (options.wire == pipe::TransportChoice::kAuto && !options.tcp.resolve);
  auto transport = pipe::MakeTransport(options.wire, std::move(options.tcp));
  auto endpoint = Make(std::move(options), address, std::move(pool).value(), std::move(transport));
  if (endpoint.ok()) endpoint.value()->impl_->may_share = shares;
  return endpoint;
}

Result<std::unique_ptr<Endpoint>> Endpoint::Make(EndpointOptions options, const transport::Address& address,
                                                 std::unique_ptr<reactor::Pool> pool,
                                                 std::unique_ptr<transport::Transport> transport) {
  Result<std::unique_ptr<Endpoint>> endpoint = Make(std::move(options), std::move(pool), std::move(transport));
  if (!endpoint.ok()) return endpoint;
  FUSEWIRE_TRY(endpoint.value()->Listen(address));
  return endpoint;
}

Result<std::unique_ptr<Endpoint>> Endpoint::Make(EndpointOptions options, std::unique_ptr<reactor::Pool> pool,
                                                 std::unique_ptr<transport::Transport> transport) {
  FUSEWIRE_TRY(pipe::CheckOptions(options.pipe));
  if (options.pipe.name.empty()) {
    return Status::Invalid("an endpoint without a name").Phase("start").Next("set EndpointOptions::pipe.name");
  }
  FUSEWIRE_CHECK(pool->size() == 1);  // what waits drives all that can end its wait
  auto impl = std::make_unique<Impl>(std::move(options), std::move(pool), std::move(transport));
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

Status Endpoint::Listen(const transport::Address& address) {
  FUSEWIRE_CHECK(this->address().port == 0);
  auto acceptor = pipe::Acceptor::Open(shared(), *impl_->pool, *impl_->transport, address, wire::kP2pService,
                                       [&core = core()](pipe::Pipe& pipe) { return NewLane(core, pipe); });
  if (!acceptor.ok()) return acceptor.status();
  impl_->acceptor = std::move(acceptor).value();
  return Status::Ok();
}

Status Endpoint::ListenWith(pipe::Acceptor& acceptor) {
  FUSEWIRE_CHECK(this->address().port == 0);
  FUSEWIRE_TRY(acceptor.Serve(wire::kP2pService, shared(), home(),
                              [&core = core()](pipe::Pipe& pipe) { return NewLane(core, pipe); }));
  impl_->shared_acceptor = &acceptor;
  return Status::Ok();
}

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Endpoint::~Endpoint() { Close(); }

void Endpoint::Close() {
  Core* core = impl_->core.get();
  FUSEWIRE_CHECK(!home().AtHome());
  if (impl_->acceptor != nullptr) impl_->acceptor->StopListening();
  if (impl_->shared_acceptor != nullptr) impl_->shared_acceptor->StopServing(wire::kP2pService);
  home().Run([core] { core->Close(); });
  // Until the network has all that peers were told, or they have had their time to take it: as long for what they give
  // no credit for, and then for what a pipe has begun to send, and its goodbye.
  Clock* clock = home().clock();
  const int64_t goodbye_ns = shared().options().goodbye_ns_max, began_ns = clock->NowNs();
  const auto left = [&] {
    bool all = false;
    home().Run([&] { all = core->Leave(clock->NowNs() - began_ns >= goodbye_ns); });
    return all;
  };
  for (int looks = 1; !left() && clock->NowNs() - began_ns < 2 * goodbye_ns; ++looks) {
    if (looks < kLooksAtOnce) continue;
    reactor::Waiter nap;
    if (!home().Wait(&nap, AddNs(clock->NowNs(), kMillisecondNs)) && clock != Clock::Real()) break;
  }
  home().Run([core] { core->Leave(true); });
}

const std::string& Endpoint::name() const { return impl_->core->self().name; }
const transport::Address& Endpoint::address() const {
  if (impl_->shared_acceptor != nullptr) return impl_->shared_acceptor->address();
  return impl_->acceptor != nullptr ? impl_->acceptor->address() : impl_->nowhere;
}
uint64_t Endpoint::incarnation() const { return impl_->core->self().incarnation; }
bool Endpoint::may_share() const { return impl_->may_share; }
reactor::Reactor& Endpoint::home() { return impl_->core->home(); }
pipe::Shared& Endpoint::shared() { return impl_->shared; }
Core& Endpoint::core() { return *impl_->core; }

Result<Peer*> Endpoint::Connect(const std::string& name, const transport::Address& address) {
  Result<Peer*> found = nullptr;
  home().Run([&] {
    Result<PeerLink*> peer = impl_->core->PeerNamed(name);
    if (!peer.ok()) {
      found = peer.status();
      return;
    }
    peer.value()->SetAddress(address);
    found = static_cast<Peer*>(peer.value());
  });
  return found;
}

Result<Peer*> Endpoint::Expect(const std::string& name) {
  Result<Peer*> found = nullptr;
  home().Run([&] {
    Result<PeerLink*> peer = impl_->core->PeerNamed(name);
    found = peer.ok() ? Result<Peer*>(static_cast<Peer*>(peer.value())) : Result<Peer*>(peer.status());
  });
  return found;
}

void Endpoint::HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer) {
  home().Run([&] { impl_->core->HandleOffers(tag_min, tag_max, std::move(on_offer)); });
}

Status Endpoint::AwaitUp(Peer& peer, int64_t timeout_ns) {
  AwaitPeerOp op(*this, peer);
  op.timeout_ns = timeout_ns;
  return op.PostAndWait();
}

Status Endpoint::Send(Peer& peer, uint64_t tag, ConstBytes bytes, int64_t timeout_ns) {
  SendOp op(*this, peer, tag, bytes);
  op.timeout_ns = timeout_ns;
  return op.PostAndWait();
}

Result<uint64_t> Endpoint::Receive(Peer* peer, uint64_t tag, Bytes into, int64_t timeout_ns) {
  ReceiveOp op(*this, peer, tag, into);
  op.timeout_ns = timeout_ns;
  if (!op.PostAndWait().ok()) return op.status();
  return op.bytes;
}

Status Endpoint::Put(Peer& peer, RegionRef region, uint64_t offset, ConstBytes bytes, SignalRef signal,
                     int64_t timeout_ns) {
  PutOp op(*this, peer, region, offset, bytes);
  op.signal = signal;
  op.timeout_ns = timeout_ns;
  return op.PostAndWait();
}

Status Endpoint::Get(Peer& peer, RegionRef region, uint64_t offset, Bytes into, int64_t timeout_ns) {
  GetOp op(*this, peer, region, offset, into);
  op.timeout_ns = timeout_ns;
  return op.PostAndWait();
}

Status Endpoint::Await(Signal& signal, uint64_t at_least, int64_t timeout_ns) {
  AwaitOp op(*this, signal, at_least);
  op.timeout_ns = timeout_ns;
  return op.PostAndWait();
}

}  // namespace p2p
}  // namespace fusewire
