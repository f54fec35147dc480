// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/endpoint.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"
#include "fusewire/p2p/lanes.h"
#include "fusewire/p2p/op_table.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/reactor/waiter.h"
#include "fusewire/task/acceptor.h"
#include "fusewire/task/task.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/p2p.h"

namespace fusewire::p2p {
namespace {

// With this address, unless it is null.
Result<Peer*> PeerOf(Core& core, const std::string& name, const transport::Address* address) {
  Result<Peer*> found = nullptr;
  core.home().Run([&] {
    Result<PeerLink*> peer = core.PeerNamed(name);
    if (peer.ok() && address != nullptr) peer.value()->SetAddress(*address);
    found = peer.ok() ? Result<Peer*>(peer.value()) : Result<Peer*>(peer.status());
  });
  return found;
}

}  // namespace

struct Endpoint::Impl {
  // `own`: the task, if it is the endpoint's; or null.
  Impl(EndpointOptions options, task::Task& task_in, std::unique_ptr<task::Task> own)
      : own_task(std::move(own)),
        task(task_in),
        context(std::move(options.pipe), task.context()),
        core(std::make_unique<Core>(context.options(), task.pool().Next(), options.limits, std::move(options.on_peer),
                                    [this](Core& dialling, PeerLink& peer, const transport::Address& address) {
                                      return std::make_unique<DialedLane>(dialling, peer, context, task.transport(),
                                                                          address);
                                    })) {}
  // Taken down in this order: no peer can connect any more; then the peers go, at home; then what they depend on.
  ~Impl() {
    if (serves) task.acceptor().Withdraw(wire::kP2pService);
    reactor::Reactor& home = core->home();
    home.Run([this] { core.reset(); });
  }

  Status Serve() {
    Status served = task.acceptor().Serve(wire::kP2pService, context, {&core->home()}, [this](pipe::Pipe& pipe) {
      return std::make_unique<AcceptedLane>(*core, pipe);
    });
    serves = served.ok();
    return served;
  }

  const std::unique_ptr<task::Task> own_task;
  task::Task& task;
  pipe::PipeContext context;  // of this name; its budgets are the task's
  std::unique_ptr<Core> core;
  bool serves = false;
};

Status Endpoint::Check(const EndpointOptions& options) {
  if (!options.pipe.name.empty()) return pipe::CheckOptions(options.pipe);
  return Status::Invalid("an endpoint without a name").Phase("start").Next("set EndpointOptions::pipe.name");
}

Result<std::unique_ptr<Endpoint>> Endpoint::Start(EndpointOptions options, const transport::Address& address) {
  FUSEWIRE_TRY(Check(options));
  task::TaskOptions task_options;
  task_options.pipe = options.pipe;
  task_options.pool = options.pool;
  task_options.pool.reactors = 1;
  if (options.pool.name == reactor::PoolOptions().name) task_options.pool.name = "p2p " + options.pipe.name;
  task_options.wire = options.wire;
  task_options.tcp = std::move(options.tcp);
  task_options.protection = std::move(options.protection);
  std::unique_ptr<task::Task> task = FUSEWIRE_TRY(task::Task::Start(std::move(task_options)));
  return OpenOwn(std::move(options), address, std::move(task));
}

Result<std::unique_ptr<Endpoint>> Endpoint::Make(EndpointOptions options, const transport::Address& address,
                                                 std::unique_ptr<reactor::Pool> pool,
                                                 std::unique_ptr<transport::Transport> transport) {
  FUSEWIRE_TRY(Check(options));
  FUSEWIRE_CHECK(pool->size() == 1);  // what waits drives all that can end its wait
  auto task = task::Task::Make(options.pipe, std::move(pool), std::move(transport));
  return OpenOwn(std::move(options), address, std::move(task));
}

Result<std::unique_ptr<Endpoint>> Endpoint::OpenOwn(EndpointOptions options, const transport::Address& address,
                                                    std::unique_ptr<task::Task> own) {
  task::Task& task = *own;
  auto impl = std::make_unique<Impl>(std::move(options), task, std::move(own));
  FUSEWIRE_TRY(impl->Serve());
  FUSEWIRE_TRY(task.Listen(address));
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

Result<std::unique_ptr<Endpoint>> Endpoint::Open(task::Task& task, EndpointOptions options) {
  FUSEWIRE_TRY(Check(options));
  auto impl = std::make_unique<Impl>(std::move(options), task, nullptr);
  FUSEWIRE_TRY(impl->Serve());
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Endpoint::~Endpoint() { Close(); }

void Endpoint::Close() {
  Core* core = impl_->core.get();
  FUSEWIRE_CHECK(!home().AtHome());
  if (impl_->own_task != nullptr) impl_->own_task->acceptor().StopListening();
  impl_->task.acceptor().StopServing(wire::kP2pService);
  home().Run([core] { core->Close(); });
  // Until the network has all messages to peers, or the peers have had their time to take them: one such time for
  // messages that wait for credit, and another for those that a pipe has begun to send, with its goodbye.
  const int64_t goodbye_ns = context().options().goodbye_ns_max, began_ns = home().clock()->NowNs();
  if (core->drain().Wait(home(), AddNs(began_ns, goodbye_ns)).ok()) return;
  home().Run([core] { core->LeaveAtOnce(); });
  (void)core->drain().Wait(home(), AddNs(began_ns, 2 * goodbye_ns));
}

const std::string& Endpoint::name() const { return impl_->core->self().name; }
transport::Address Endpoint::address() const { return impl_->task.acceptor().AddressOf(wire::kP2pService); }
uint64_t Endpoint::incarnation() const { return impl_->core->self().incarnation; }
bool Endpoint::may_share() const { return impl_->task.may_share(); }
reactor::Reactor& Endpoint::home() { return impl_->core->home(); }
pipe::PipeContext& Endpoint::context() { return impl_->context; }
Core& Endpoint::core() { return *impl_->core; }

Result<Peer*> Endpoint::Connect(const std::string& name, const transport::Address& address) {
  return PeerOf(*impl_->core, name, &address);
}

Result<Peer*> Endpoint::Expect(const std::string& name) { return PeerOf(*impl_->core, name, nullptr); }

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

// ---- operations: made, posted and waited for. They are data for everything below the endpoint ----

Op::Op(Endpoint& endpoint, Peer* peer, OpKind kind)
    : run([this] { core_->OnDeadline(this); }),
      core_(&endpoint.core()),
      peer_(static_cast<PeerLink*>(peer)),
      kind_(kind) {}

void Op::Deliver() { core_->OnMail(this); }

void Op::Post() {
  OpTable::Prepare(this, OpRun::kPending);
  reactor::Reactor& home = core_->home();
  if (home.AtHome()) {
    core_->Begin(this);
    return;
  }
  home.HandIn(this);
}

bool Op::Wait(int64_t limit_ns, reactor::Interrupts interrupts) {
  reactor::Reactor& home = core_->home();
  reactor::Waiter waiter;
  auto mine = reinterpret_cast<uintptr_t>(&waiter);
  static_assert(alignof(reactor::Waiter) > OpRun::kEnded, "a Waiter's address is neither of the two words");
  uintptr_t expected = OpRun::kPending;
  if (!run.word.compare_exchange_strong(expected, mine, std::memory_order_acq_rel)) {
    FUSEWIRE_CHECK(expected == OpRun::kEnded);  // one thread waits at a time
    return true;
  }
  const int64_t deadline_ns = AddNs(home.clock()->NowNs(), limit_ns);
  if (home.Wait(&waiter, deadline_ns, reactor::Idling::kLearned, interrupts)) return true;
  if (run.word.compare_exchange_strong(mine, OpRun::kPending, std::memory_order_acq_rel)) return false;
  while (!home.Wait(&waiter, AddNs(home.clock()->NowNs(), kSecondNs))) {
    // It has just ended, and the thread that ended it is about to signal us.
  }
  return true;
}

const Status& Op::PostAndWait() {
  FUSEWIRE_CHECK(!then);
  if (reactor::Reactor::InsideAny()) {
    FUSEWIRE_CHECK(run.state == OpRun::State::kIdle);
    run.status = Status::Invalid("a callback of a reactor must not wait for an operation")
                     .Next("use Post and go on in `then`, or wait on a thread of your own");
    run.word.store(OpRun::kEnded, std::memory_order_release);
    return run.status;
  }
  reactor::Waiter waiter;
  OpTable::Prepare(this, reinterpret_cast<uintptr_t>(&waiter));
  core_->home().PostAndWait(this, &waiter, kForeverNs);
  return run.status;
}

void Op::Cancel() {
  run.cancel_wanted.store(true, std::memory_order_seq_cst);
  uint64_t name = run.id.load(std::memory_order_seq_cst);
  Core* core = core_;
  // If it has no id yet, Enter will see cancel_wanted.
  if (name != 0) core->home().Post([core, name] { core->OnCancelWanted(name); });
}

SendOp::SendOp(Endpoint& endpoint, Peer& peer, uint64_t tag_in, ConstBytes bytes)
    : Op(endpoint, &peer, OpKind::kSend), tag(tag_in) {
  if (!bytes.empty()) segments.push_back(bytes);
}

ReceiveOp::ReceiveOp(Endpoint& endpoint, Peer* peer, uint64_t tag_in, Bytes into)
    : Op(endpoint, peer, OpKind::kReceive), tag(tag_in) {
  if (!into.empty()) segments.push_back(into);
}

PutOp::PutOp(Endpoint& endpoint, Peer& peer, RegionRef region_in, uint64_t offset_in, ConstBytes bytes)
    : Op(endpoint, &peer, OpKind::kPut), region(region_in), offset(offset_in) {
  if (!bytes.empty()) segments.push_back(bytes);
}

GetOp::GetOp(Endpoint& endpoint, Peer& peer, RegionRef region_in, uint64_t offset_in, Bytes into)
    : Op(endpoint, &peer, OpKind::kGet), region(region_in), offset(offset_in) {
  if (!into.empty()) segments.push_back(into);
}

AwaitPeerOp::AwaitPeerOp(Endpoint& endpoint, Peer& peer) : Op(endpoint, &peer, OpKind::kAwaitPeer) {}

}  // namespace fusewire::p2p
