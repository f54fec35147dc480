// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/op.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"

namespace fusewire {
namespace p2p {

Op::Op(Core* core, Peer* peer, Kind kind)
    : core_(core), peer_(static_cast<PeerLink*>(peer)), kind_(kind), deadline_([this] { core_->OnDeadline(this); }) {}

Op::~Op() { FUSEWIRE_CHECK(state_ == State::kIdle); }

void Op::Deliver() {
  if (state_ == State::kEndMailed) {
    core_->FinishMailed(this);
  } else {
    core_->Begin(this);
  }
}

void Op::Prepare(uintptr_t word) {
  FUSEWIRE_CHECK(state_ == State::kIdle);
  cancel_wanted_.store(false, std::memory_order_relaxed);
  state_ = State::kWaiting;
  word_.store(word, std::memory_order_release);
}

void Op::Post() {
  Prepare(kPending);
  reactor::Reactor& home = core_->home();
  if (home.AtHome()) {
    core_->Begin(this);
    return;
  }
  reactor::Task begin = [this] { core_->Begin(this); };
  if (!home.TryRunHere(begin)) home.Post(static_cast<Mail*>(this));
}

bool Op::Wait(int64_t limit_ns) {
  reactor::Reactor& home = core_->home();
  reactor::Waiter waiter;
  auto mine = reinterpret_cast<uintptr_t>(&waiter);
  uintptr_t expected = kPending;
  if (!word_.compare_exchange_strong(expected, mine, std::memory_order_acq_rel)) {
    FUSEWIRE_CHECK(expected == kEnded);  // one waits at a time
    return true;
  }
  if (home.Wait(&waiter, AddNs(home.clock()->NowNs(), limit_ns))) return true;
  if (word_.compare_exchange_strong(mine, kPending, std::memory_order_acq_rel)) return false;
  while (!home.Wait(&waiter, AddNs(home.clock()->NowNs(), kSecondNs))) {
    // Its end came just now: whoever brought it is about to say so.
  }
  return true;
}

const Status& Op::PostAndWait() {
  FUSEWIRE_CHECK(!then);
  if (reactor::Reactor::InsideAny()) {
    FUSEWIRE_CHECK(state_ == State::kIdle);
    status_ = Status::Invalid("a callback of a reactor must not wait for an operation")
                  .Next("use Post and go on in `then`, or wait on a thread of your own");
    word_.store(kEnded, std::memory_order_release);
    return status_;
  }
  reactor::Waiter waiter;
  Prepare(reinterpret_cast<uintptr_t>(&waiter));
  core_->home().PostAndWait(this, &waiter, kForeverNs);
  return status_;
}

void Op::Cancel() {
  cancel_wanted_.store(true, std::memory_order_seq_cst);
  uint64_t name = id_.load(std::memory_order_seq_cst);
  Core* core = core_;
  // Before it has come home, Begin will see the wish.
  if (name != 0) core->home().Post([core, name] { core->OnCancelWanted(name); });
}

SendOp::SendOp(Endpoint& endpoint, Peer& peer, uint64_t tag_in, ConstBytes bytes)
    : Op(CoreOf(endpoint), &peer, Kind::kSend), tag(tag_in) {
  if (!bytes.empty()) parts.push_back(bytes);
}

ReceiveOp::ReceiveOp(Endpoint& endpoint, Peer* peer, uint64_t tag_in, Bytes into)
    : Op(CoreOf(endpoint), peer, Kind::kReceive), tag(tag_in) {
  if (!into.empty()) parts.push_back(into);
}

PutOp::PutOp(Endpoint& endpoint, Peer& peer, RegionRef region_in, uint64_t offset_in, ConstBytes bytes)
    : Op(CoreOf(endpoint), &peer, Kind::kPut), region(region_in), offset(offset_in) {
  if (!bytes.empty()) parts.push_back(bytes);
}

GetOp::GetOp(Endpoint& endpoint, Peer& peer, RegionRef region_in, uint64_t offset_in, Bytes into)
    : Op(CoreOf(endpoint), &peer, Kind::kGet), region(region_in), offset(offset_in) {
  if (!into.empty()) parts.push_back(into);
}

AwaitOp::AwaitOp(Endpoint& endpoint, Signal& signal, uint64_t at_least_in)
    : Op(CoreOf(endpoint), nullptr, Kind::kAwait), at_least(at_least_in), state_(signal.state_.get()) {}

AwaitPeerOp::AwaitPeerOp(Endpoint& endpoint, Peer& peer) : Op(CoreOf(endpoint), &peer, Kind::kAwaitPeer) {}

}  // namespace p2p
}  // namespace fusewire
