// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The functions of op.h: operations are made, posted and waited for. They stand here because an operation is data for
// everything below the endpoint.
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/p2p/op.h"
#include "fusewire/p2p/op_table.h"
#include "fusewire/p2p/peer_link.h"
#include "fusewire/p2p/region.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::p2p {

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
  reactor::Task begin = [this] { core_->Begin(this); };
  if (!home.TryRunHere(begin)) home.Post(static_cast<Mail*>(this));
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

AwaitOp::AwaitOp(Endpoint& endpoint, Signal& signal_in, uint64_t at_least_in)
    : Op(endpoint, nullptr, OpKind::kAwait), at_least(at_least_in), signal(signal_in.state()) {}

AwaitPeerOp::AwaitPeerOp(Endpoint& endpoint, Peer& peer) : Op(endpoint, &peer, OpKind::kAwaitPeer) {}

}  // namespace fusewire::p2p
