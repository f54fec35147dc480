// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/server.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/peer_calls.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/task/task.h"

namespace fusewire::rpc {
namespace {

constexpr uint64_t kAnswersBytesMin = 64 << 20;

}  // namespace

struct Server::Impl {
  Impl(task::Task& task_in, std::vector<Method> methods_in, ServerOptions options_in)
      : task(task_in), methods(std::move(methods_in)), options(options_in) {
    for (int i = 0; i < task.pool().size(); ++i) {
      homes.push_back(std::make_unique<ServerHome>());
      homes.back()->reactor = &task.pool().at(i);
      homes.back()->calls_in_flight_max = options.calls_in_flight_max;
      homes.back()->words_bytes_max = task.context().options().queued_bytes_max / 8;
      homes.back()->answers_bytes_max = options.answers_bytes_max != 0
                                            ? options.answers_bytes_max
                                            : std::max(task.context().receive_budget().limit_bytes(), kAnswersBytesMin);
    }
  }

  ServerHome& HomeOf(const reactor::Reactor& reactor) {
    for (auto& home : homes) {
      if (home->reactor == &reactor) return *home;
    }
    FUSEWIRE_CHECK(false);
    return *homes[0];
  }

  task::Task& task;
  MethodIndex methods;
  const ServerOptions options;
  std::atomic<bool> closing{false};
  bool listens = false;                            // the task listens for us
  std::vector<std::unique_ptr<ServerHome>> homes;  // one per reactor
};

Result<std::unique_ptr<Server>> Server::Open(task::Task& task, std::vector<Method> methods, ServerOptions options) {
  FUSEWIRE_TRY(MethodIndex::Check(methods));
  auto impl = std::make_unique<Impl>(task, std::move(methods), options);
  Impl* self = impl.get();
  std::vector<reactor::Reactor*> homes;
  for (auto& home : self->homes) homes.push_back(home->reactor);
  FUSEWIRE_TRY(task.acceptor().Serve(kRpcService, task.context(), std::move(homes), [self](pipe::Pipe& pipe) {
    return std::unique_ptr<pipe::Receiver>(
        std::make_unique<PeerCalls>(pipe, self->methods, self->HomeOf(pipe.home()), self->closing));
  }));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Result<std::unique_ptr<Server>> Server::Open(task::Task& task, const transport::Address& address,
                                             std::vector<Method> methods, ServerOptions options) {
  Result<std::unique_ptr<Server>> server = Open(task, std::move(methods), options);
  if (!server.ok()) return server;
  FUSEWIRE_TRY(task.Listen(address));
  server.value()->impl_->listens = true;
  return server;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  Close(0);
  impl_->task.acceptor().Withdraw(kRpcService);               // its pipes' PeerCalls are in the homes
  for (auto& home : impl_->homes) home->reactor->Run([] {});  // the dones of parts have been called when this has
}

transport::Address Server::address() const { return impl_->task.acceptor().AddressOf(kRpcService); }

uint64_t Server::calls_in_flight() const {
  uint64_t sum = 0;
  for (const auto& home : impl_->homes) sum += home->under_way.open();
  return sum;
}

void Server::Close(int64_t grace_ns) {
  impl_->closing.store(true, std::memory_order_relaxed);
  impl_->task.acceptor().StopServing(kRpcService);
  if (impl_->listens) impl_->task.acceptor().StopListening();
  const int64_t deadline_ns = AddNs(impl_->task.pool().at(0).clock()->NowNs(), grace_ns);
  for (auto& home : impl_->homes) {
    const Status drained = home->under_way.Wait(*home->reactor, deadline_ns);
    if (drained.ok() || grace_ns <= 0) continue;
    FUSEWIRE_LOG(kInfo, "server at %s closes without its answers: %s", address().ToString().c_str(),
                 drained.ToString().c_str());
  }
  impl_->task.acceptor().CloseService(
      kRpcService, Status::Unavailable("the server is shutting down").Next("try again, or another server"));
}

fusewire::rpc::Snapshot Server::Snapshot() {
  fusewire::rpc::Snapshot snapshot;
  std::map<uint16_t, MethodStats> sums;
  MethodStats unknown;
  for (auto& home : impl_->homes) {
    home->reactor->Run([&] {
      home->peers.ForEach([&](PeerCalls* peer) { snapshot.peers.push_back(peer->Snapshot()); });
      for (const auto& [method, stats] : home->methods.all()) sums[method].Merge(*stats);
      unknown.Merge(home->unknown);
    });
    snapshot.reactors.push_back(home->reactor->Snapshot());
  }
  for (const auto& [method, stats] : sums) {
    snapshot.methods.push_back(Read(method, impl_->methods.NameOf(method), stats));
  }
  if (unknown.calls.Read() > 0) snapshot.methods.push_back(Read(0, "unknown", unknown));
  const Budget& budget = impl_->task.context().receive_budget();
  snapshot.receive_budget_used_bytes = budget.used_bytes();
  snapshot.receive_budget_peak_bytes = budget.peak_bytes();
  snapshot.receive_budget_limit_bytes = budget.limit_bytes();
  snapshot.copies = ReadCopyCounts();
  return snapshot;
}

// ---- statistics ----

void MethodStats::Merge(const MethodStats& other) {
  calls.Add(other.calls.Read());
  errors.Add(other.errors.Read());
  timeouts.Add(other.timeouts.Read());
  cancels.Add(other.cancels.Read());
  request_bytes.Add(other.request_bytes.Read());
  reply_bytes.Add(other.reply_bytes.Read());
  latency_ns.Merge(other.latency_ns);
}

MethodSnapshot Read(uint16_t method, std::string name, const MethodStats& stats) {
  MethodSnapshot snapshot;
  snapshot.method = method;
  snapshot.name = std::move(name);
  snapshot.calls = stats.calls.Read();
  snapshot.errors = stats.errors.Read();
  snapshot.timeouts = stats.timeouts.Read();
  snapshot.cancels = stats.cancels.Read();
  snapshot.request_bytes = stats.request_bytes.Read();
  snapshot.reply_bytes = stats.reply_bytes.Read();
  snapshot.latency_ns = stats.latency_ns.Read();
  return snapshot;
}

void ReadInto(const pipe::PipeStats& stats, PeerSnapshot* peer) {
  peer->messages_in += stats.messages_in.Read();
  peer->messages_out += stats.messages_out.Read();
  peer->bytes_in += stats.bytes_in.Read();
  peer->bytes_out += stats.bytes_out.Read();
  peer->credit_stalls += stats.credit_stalls.Read();
  peer->budget_stalls += stats.budget_stalls.Read();
  peer->ping_ns = stats.ping_ns.Read();
}

}  // namespace fusewire::rpc
