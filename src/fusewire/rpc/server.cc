// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/server.h"

#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/rpc/session.h"

namespace fusewire {
namespace rpc {

struct Server::Impl {
  Impl(Node& node_in, std::vector<Method> methods_in, ServerOptions options_in)
      : node(node_in), methods(std::move(methods_in)), options(options_in) {
    for (int i = 0; i < node.pool().size(); ++i) {
      homes.push_back(std::make_unique<ServerHome>());
      homes.back()->reactor = &node.pool().at(i);
      homes.back()->words_bytes_max = node.shared().options().queued_bytes_max / 8;
    }
  }

  ServerHome& HomeOf(const reactor::Reactor& reactor) {
    for (auto& home : homes) {
      if (home->reactor == &reactor) return *home;
    }
    FUSEWIRE_CHECK(false);
    return *homes[0];
  }

  Node& node;
  MethodIndex methods;
  const ServerOptions options;
  std::atomic<bool> closing{false};
  std::vector<std::unique_ptr<ServerHome>> homes;  // one per reactor
  std::unique_ptr<pipe::Acceptor> acceptor;        // goes first: its pipes' sessions are in the homes
};

Result<std::unique_ptr<Server>> Server::Open(Node& node, const transport::Address& address, std::vector<Method> methods,
                                             ServerOptions options) {
  FUSEWIRE_TRY(MethodIndex::Check(methods));
  auto impl = std::make_unique<Impl>(node, std::move(methods), options);
  Impl* self = impl.get();
  auto acceptor = pipe::Acceptor::Open(
      node.shared(), node.pool(), node.transport(), address, kRpcService, [self](pipe::Pipe& pipe) {
        return std::unique_ptr<pipe::Receiver>(
            std::make_unique<Session>(pipe, self->methods, self->HomeOf(pipe.home()), self->options, self->closing));
      });
  if (!acceptor.ok()) return acceptor.status();
  impl->acceptor = std::move(acceptor).value();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  Close(0);
  impl_->acceptor.reset();
  for (auto& home : impl_->homes) home->reactor->Run([] {});  // the dones of parts have been called when this has
}

const transport::Address& Server::address() const { return impl_->acceptor->address(); }
pipe::Acceptor& Server::acceptor() { return *impl_->acceptor; }

uint64_t Server::calls_in_flight() const {
  uint64_t sum = 0;
  for (const auto& home : impl_->homes) sum += home->under_way.open();
  return sum;
}

void Server::Close(int64_t grace_ns) {
  impl_->closing.store(true, std::memory_order_relaxed);
  impl_->acceptor->StopListening();
  const int64_t deadline_ns = AddNs(impl_->node.pool().at(0).clock()->NowNs(), grace_ns);
  for (auto& home : impl_->homes) {
    const Status drained = home->under_way.Wait(*home->reactor, deadline_ns);
    if (drained.ok() || grace_ns <= 0) continue;
    FUSEWIRE_LOG(kInfo, "server at %s closes without its answers: %s", address().ToString().c_str(),
                 drained.ToString().c_str());
  }
  impl_->acceptor->Close(Status::Unavailable("the server is shutting down").Next("try again, or another server"));
}

fusewire::rpc::Snapshot Server::Snapshot() {
  fusewire::rpc::Snapshot snapshot;
  std::map<uint16_t, MethodStats> sums;
  MethodStats unknown;
  for (auto& home : impl_->homes) {
    home->reactor->Run([&] {
      home->sessions.ForEach([&](Session* session) { snapshot.peers.push_back(session->Snapshot()); });
      for (const auto& [method, stats] : home->methods.all()) sums[method].Merge(*stats);
      unknown.Merge(home->unknown);
    });
    snapshot.reactors.push_back(home->reactor->Snapshot());
  }
  for (const auto& [method, stats] : sums) {
    snapshot.methods.push_back(Read(method, impl_->methods.NameOf(method), stats));
  }
  if (unknown.calls.Read() > 0) snapshot.methods.push_back(Read(0, "unknown", unknown));
  const Budget& budget = impl_->node.shared().receive_budget();
  snapshot.receive_budget_used_bytes = budget.used_bytes();
  snapshot.receive_budget_peak_bytes = budget.peak_bytes();
  snapshot.receive_budget_limit_bytes = budget.limit_bytes();
  snapshot.copies = ReadCopyCounts();
  return snapshot;
}

pipe::AcceptorStats Server::AcceptorSnapshot() const { return impl_->acceptor->Snapshot(); }

}  // namespace rpc
}  // namespace fusewire
