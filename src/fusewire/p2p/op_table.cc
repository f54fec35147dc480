// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/op_table.h"

#include <algorithm>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/p2p/matcher.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::p2p {
namespace {

// How often we look whether a pipe still sends what an ending operation waits for, and what counts as sending.
constexpr int64_t kReleaseLookNs = 1 * kSecondNs;
constexpr uint64_t kReleaseProgressBytes = 4096;

std::string Place(RegionRef region, uint64_t offset) {
  return " at offset " + std::to_string(offset) + " of region " + std::to_string(region.id);
}

// For an error: "receiving with tag 5".
std::string Phase(const Op& op) {
  switch (op.kind()) {
    case OpKind::kSend: return "sending with tag " + std::to_string(static_cast<const SendOp&>(op).tag);
    case OpKind::kReceive: return "receiving with tag " + std::to_string(static_cast<const ReceiveOp&>(op).tag);
    case OpKind::kPut: {
      const auto& put = static_cast<const PutOp&>(op);
      const bool signals_only = put.region.id == 0 && put.signal != 0;
      return signals_only ? "adding to signal " + std::to_string(put.signal)
                          : "writing" + Place(put.region, put.offset);
    }
    case OpKind::kGet: {
      const auto& get = static_cast<const GetOp&>(op);
      return "reading" + Place(get.region, get.offset);
    }
    case OpKind::kAwait: {
      const auto& await = static_cast<const AwaitOp&>(op);
      return "waiting for signal " + std::to_string(await.signal->name) + " to reach " + std::to_string(await.at_least);
    }
    case OpKind::kAwaitPeer: return "waiting for the peer to connect";
  }
  return "";
}

// With the peer, the operation and its age, where the status does not have them yet.
Status WithContext(const Op& op, const Status& status, int64_t now_ns) {
  if (status.ok()) return status;
  Status full = status.Phase(Phase(op)).AgeMs((now_ns - op.run.posted_ns) / kMillisecondNs);
  return op.run.with == nullptr ? full : full.Peer(op.run.with->description());
}

// If the peer still takes bytes, this message's turn will come. If it does not, the pipe is of no use, and is closed.
void LookForRelease(Op* op, reactor::Reactor& home) {
  FUSEWIRE_DCHECK(op->run.in_pipe > 0);
  FUSEWIRE_CHECK(op->run.lane != nullptr);
  pipe::Pipe* pipe = op->run.lane->pipe();
  uint64_t bytes = pipe == nullptr ? 0 : pipe->stats().bytes_out.Read();
  if (pipe != nullptr && bytes - op->run.lane_bytes < kReleaseProgressBytes) {
    pipe->Close(Status::Unavailable("the peer does not take the rest of a message that was given up")
                    .Next("look at the peer: it may be stopped or overloaded"));
  }
  op->run.lane_bytes = bytes;
  home.Arm(&op->run.deadline, kReleaseLookNs);
}

constexpr unsigned Bit(OpRun::State state) { return 1u << static_cast<int>(state); }

// The states from which an operation may come into `to`.
unsigned Before(OpRun::State to) {
  using State = OpRun::State;
  constexpr unsigned kBegun = Bit(State::kWaiting);
  switch (to) {
    case State::kPosted: return kBegun | Bit(State::kRequested);  // its sender gave it up
    case State::kRequested:
    case State::kLanding: return kBegun | Bit(State::kPosted) | Bit(State::kRequested);
    case State::kOffered: return kBegun;
    case State::kSending:
    case State::kSent: return kBegun | Bit(State::kOffered) | Bit(State::kSending) | Bit(State::kSent);
    case State::kEnding: return Bit(State::kSending);
    case State::kEndMailed: return ~(Bit(State::kIdle) | Bit(State::kEndMailed));
    default: return 0;
  }
}

}  // namespace

OpTable::OpTable(reactor::Reactor& home, const Limits& limits, Verbs& verbs, reactor::Drain& drain, OnRoom on_room)
    : home_(home),
      limits_(limits),
      verbs_(verbs),
      drain_(drain),
      on_room_(std::move(on_room)),
      ops_(limits.ops_max),
      end_reports_(home, drain) {}

OpTable::~OpTable() { FUSEWIRE_CHECK(ops_.in_use() == 0); }

void OpTable::Move(Op* op, State to) {
  FUSEWIRE_DCHECK((Before(to) & Bit(op->run.state)) != 0);
  // Memory that the pipe holds is given back before anything else happens to it.
  FUSEWIRE_DCHECK(op->run.in_pipe == 0 || to == State::kSending || to == State::kEnding);
  op->run.state = to;
}

// ---- beginning ----

void OpTable::Prepare(Op* op, uintptr_t word) {
  FUSEWIRE_CHECK(op->run.state == State::kIdle);
  op->run.cancel_wanted.store(false, std::memory_order_relaxed);
  op->run.state = State::kWaiting;
  op->run.word.store(word, std::memory_order_release);
}

bool OpTable::Enter(Op* op) {
  FUSEWIRE_AT_HOME(home_);
  OpRun& run = op->run;
  FUSEWIRE_DCHECK(run.state == State::kWaiting);
  FUSEWIRE_DCHECK(run.in_pipe == 0);
  FUSEWIRE_DCHECK(run.arriving == nullptr);
  FUSEWIRE_DCHECK(run.lane == nullptr);
  FUSEWIRE_DCHECK(!run.offered);
  FUSEWIRE_DCHECK(run.pushed == 0);
  FUSEWIRE_DCHECK(op->id() == 0);
  FUSEWIRE_DCHECK(!op->linked());
  drain_.Open();
  run.status = Status::Ok();
  run.posted_ns = home_.now_ns();
  run.with = op->peer();
  run.result_came = false;
  run.remote_id = 0;
  run.order = 0;
  int64_t timeout_ns = op->timeout_ns == 0 ? limits_.timeout_ns : std::max<int64_t>(op->timeout_ns, 0);
  run.deadline_ns = AddNs(run.posted_ns, timeout_ns);
  uint64_t name = ops_.Take(op);
  run.id.store(name, std::memory_order_seq_cst);
  if (name == 0) {
    End(op, Status::Overloaded("ops_max (" + std::to_string(limits_.ops_max) + ") is reached")
                .Next("wait for operations before you post more"));
  } else if (closed_) {
    End(op, Status::Cancelled("the endpoint is closed"));
  } else if (run.cancel_wanted.load(std::memory_order_seq_cst)) {
    End(op, Status::Cancelled("it was cancelled before it began"));
  } else if (op->timeout_ns < 0) {
    End(op, Status::Timeout("timeout_ns is " + std::to_string(op->timeout_ns) +
                            ": the deadline had passed before it was posted")
                .Next("allow more time"));
  } else {
    if (run.deadline_ns != kForeverNs) home_.ArmAt(&run.deadline, run.deadline_ns);
    return true;
  }
  return false;
}

void OpTable::Wait(Op* op) {
  FUSEWIRE_DCHECK(op->run.state == State::kWaiting);
  PeerLink* peer = op->peer();
  FUSEWIRE_CHECK(peer != nullptr);
  peer->waiting.PushBack(op);
  if (peer->pipe() != nullptr) return;
  home_.ArmAt(&op->run.deadline, std::min(op->run.deadline_ns, AddNs(op->run.posted_ns, limits_.patience_ns)));
  peer->Want();
}

void OpTable::LeaveQueue(uint64_t name) {
  Op* op = ops_.Find(name);
  if (op == nullptr) return;
  FUSEWIRE_DCHECK(op->run.state != State::kWaiting);
  op->Unlink();
  if (op->run.deadline_ns != kForeverNs) home_.ArmAt(&op->run.deadline, op->run.deadline_ns);
}

// ---- on its way ----

void OpTable::Offered(SendOp* op) {
  FUSEWIRE_DCHECK(!op->run.offered);
  op->peer()->flow.OfferSent();
  op->run.offered = true;
  Move(op, State::kOffered);
}

bool OpTable::Send(Op* op, Lane* lane, pipe::Message message) {
  pipe::Pipe* pipe = lane->pipe();
  FUSEWIRE_CHECK(pipe != nullptr);
  FUSEWIRE_DCHECK(op->run.lane == nullptr || op->run.lane == lane);
  Status fits = Verbs::Fits(*pipe, message);
  if (!fits.ok()) {
    EndOnceReleased(op, fits);
    return false;
  }
  if (message.body.empty()) {
    pipe->Send(std::move(message));
    return true;
  }
  ++op->run.in_pipe;
  op->run.lane = lane;
  Move(op, State::kSending);
  pipe->Send(std::move(message), [this, name = op->id()](Status status) { OnPiped(name, status); });
  return true;
}

void OpTable::OnPiped(uint64_t name, const Status& status) {
  Op* op = ops_.Find(name);
  FUSEWIRE_CHECK(op != nullptr);
  FUSEWIRE_CHECK(op->run.in_pipe > 0);
  if (--op->run.in_pipe > 0) return;
  if (op->run.state == State::kEnding) {
    Status why = std::move(op->run.status);
    End(op, why);
  } else if (!status.ok()) {
    End(op, status);
  } else if (op->run.result_came || !op->run.wants_result) {
    End(op, Status::Ok());
  } else {
    Move(op, State::kSent);
  }
}

Result<pipe::Landing> OpTable::LandInto(Lane& lane, const wire::FrameHeader& header, Op* op) {
  Result<Arriving*> arriving = lane.Take(header.call);
  if (!arriving.ok()) return arriving.status();
  arriving.value()->op = op->id();
  Move(op, State::kLanding);
  FUSEWIRE_DCHECK(op->run.with->lane() == &lane);
  op->run.lane = &lane;
  return pipe::Landing::Into(op->run.landing.data(), op->run.landing.size());
}

bool OpTable::AwaitsResult(const Op& op) {
  return op.run.state == State::kOffered || op.run.state == State::kSending || op.run.state == State::kSent;
}

Status OpTable::OnResult(Op* op, const Status& status) {
  FUSEWIRE_DCHECK(AwaitsResult(*op));
  OpRun& run = op->run;
  if (status.ok() && run.pushed > 0) run.with->flow.pushes.Waited(true);
  if (!status.ok()) {
    EndOnceReleased(op, status);
  } else if (run.state == State::kOffered) {
    return Status::Corrupt("result: of send " + std::to_string(op->id()) + ", whose body was not requested");
  } else if (run.in_pipe > 0) {
    run.result_came = true;  // the network has not yet said that it is done
  } else {
    End(op, Status::Ok());
  }
  return Status::Ok();
}

// ---- finding ----

Op* OpTable::FindOf(uint64_t name, OpKind kind, const PeerLink& peer) const {
  Op* op = ops_.Find(name);
  bool is_it = op != nullptr && op->kind() == kind && op->run.with == &peer && op->run.state != State::kEnding;
  return is_it ? op : nullptr;
}

bool OpTable::Needs(const PeerLink& peer) const {
  if (closed_) return false;
  for (uint64_t name : ops_.Names()) {
    if (ops_.Find(name)->peer() == &peer) return true;
  }
  return false;
}

// ---- ending ----

void OpTable::EndOnceReleased(Op* op, const Status& status) {
  if (op->run.state == State::kEnding) return;
  if (op->run.in_pipe == 0) {
    End(op, status);
    return;
  }
  Move(op, State::kEnding);
  FreeOffer(op);  // now: when the pipe releases it, another pipe may be in use, whose offers are counted from 0
  op->run.status = status;
  op->run.lane_bytes = 0;
  if (pipe::Pipe* pipe = op->run.lane->pipe()) op->run.lane_bytes = pipe->stats().bytes_out.Read();
  home_.Arm(&op->run.deadline, kReleaseLookNs);
}

void OpTable::End(Op* op, const Status& status) {
  OpRun& run = op->run;
  uint64_t name = op->id();
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(run.in_pipe == 0);  // the pipe would go on to read memory that is its maker's again
  FUSEWIRE_DCHECK(name == 0 || ops_.Find(name) == op);
  FUSEWIRE_DCHECK(run.arriving == nullptr || run.arriving->op == op);
  if (run.state == State::kLanding && run.lane != nullptr) run.lane->AbandonOp(name);
  if (run.arriving != nullptr) std::exchange(run.arriving, nullptr)->op = nullptr;
  run.lane = nullptr;
  reactor::Reactor::Disarm(&run.deadline);
  op->Unlink();
  if (name != 0) ops_.Release(name);
  run.id.store(0, std::memory_order_seq_cst);
  run.status = WithContext(*op, status, home_.now_ns());
  FreeOffer(op);
  FUSEWIRE_DCHECK(run.pushed == 0 || op->kind() == OpKind::kSend);
  if (run.pushed > 0) run.with->flow.pushes.Ended(std::exchange(run.pushed, 0));
  Move(op, State::kEndMailed);
  end_reports_.Report(op);
}

// Another message may be offered: the peer has answered this one, or will not.
void OpTable::FreeOffer(Op* op) {
  if (!std::exchange(op->run.offered, false)) return;
  PeerLink* peer = op->run.with;
  FUSEWIRE_DCHECK(peer == op->peer());
  peer->flow.OfferEnded();
  if (!peer->waiting.empty() && !closed_) home_.Post([this, peer] { on_room_(peer); });
}

void OpTable::OnDeadline(Op* op) {
  OpRun& run = op->run;
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(run.state != State::kIdle);
  FUSEWIRE_DCHECK(run.state != State::kEndMailed);
  if (run.state == State::kEnding) {
    LookForRelease(op, home_);
    return;
  }
  PeerLink* peer = op->peer();
  bool waits = run.state == State::kWaiting && peer != nullptr;
  if (waits && peer->pipe() != nullptr && home_.now_ns() < run.deadline_ns) {
    if (run.deadline_ns != kForeverNs) home_.ArmAt(&run.deadline, run.deadline_ns);
    return;
  }
  std::string last = waits && !peer->last_failure().ok() ? ", last error: " + peer->last_failure().cause() : "";
  if (waits && home_.now_ns() < run.deadline_ns) {
    End(op, Status::Unavailable("no connection within " + std::to_string(limits_.patience_ns / kMillisecondNs) + " ms" +
                                last)
                .Next(peer->CanDial() ? "check that the peer is running, and that its address and port are right"
                                      : "it has to dial us: give Connect its address, or start it"));
    return;
  }
  const char* what = waits && peer->pipe() == nullptr ? "no connection in time"
                     : op->kind() == OpKind::kReceive ? "no message in time"
                     : op->kind() == OpKind::kAwait   ? "no signal in time"
                                                      : "no answer in time";
  GiveUp(op, Status::Timeout(what + last).Next("look at the peer, or allow more time"));
}

// We end the operation, not the peer; so the peer is notified.
void OpTable::GiveUp(Op* op, const Status& why) {
  OpRun& run = op->run;
  PeerLink* peer = run.with;
  bool up = peer != nullptr && peer->pipe() != nullptr;
  // Also if its body is on its way or was dropped: the peer must not request it any more.
  if (up && op->kind() == OpKind::kSend && run.offered) {
    verbs_.Send(peer->lane(), wire::P2pVerb::kWithdraw, op->id() | wire::kP2pMine, 0, {static_cast<SendOp*>(op)->tag});
  }
  bool matched = run.state == State::kRequested || run.state == State::kLanding;
  if (up && op->kind() == OpKind::kReceive && matched && run.remote_id != 0) {
    verbs_.SendResult(peer->lane(), run.remote_id,
                      Status(why.code(), "the receiver gave up: " + why.cause()).Next(why.next()));
  }
  EndOnceReleased(op, why);
}

void OpTable::OnCancelWanted(uint64_t name) {
  Op* op = ops_.Find(name);
  if (op != nullptr) GiveUp(op, Status::Cancelled("the caller cancelled it"));
}

void OpTable::EndAllOf(const PeerLink* peer, const Status& why, bool waiting_too) {
  FUSEWIRE_DCHECK(peer != nullptr);
  FUSEWIRE_DCHECK(!why.ok());
  for (uint64_t name : ops_.Names()) {
    Op* op = ops_.Find(name);
    if (op == nullptr || op->run.with != peer) continue;
    if (op->run.state == State::kWaiting && !waiting_too) continue;
    EndOnceReleased(op, why);
  }
}

void OpTable::Close() {
  FUSEWIRE_AT_HOME(home_);
  closed_ = true;
  for (uint64_t name : ops_.Names()) {
    Op* op = ops_.Find(name);
    if (op != nullptr) GiveUp(op, Status::Cancelled("the endpoint was closed"));
  }
}

// ---- reporting an end ----

void EndReports::Report(Op* op) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(op->run.state == OpRun::State::kEndMailed);
  FUSEWIRE_DCHECK(op->id() == 0);
  if (!posting_ || !op->then) {
    Tell(op);
    return;
  }
  later_.PushBack(op);
  home_.FlushLater(this);
}

// A caller that only submits an operation may hold locks of its own: then the next thread that runs the loop runs
// `then`.
void EndReports::Flush() {
  List<Op> now;
  now.TakeAll(&later_);
  while (Op* op = now.PopFront()) {
    FUSEWIRE_DCHECK(op->then);
    if (home_.handing_in()) {
      home_.Post(static_cast<Mail*>(op));
    } else {
      OnMail(op);
    }
  }
}

void EndReports::OnMail(Op* op) {
  FUSEWIRE_CHECK(op->run.state == OpRun::State::kEndMailed);
  Tell(op);
}

void EndReports::Tell(Op* op) {
  FUSEWIRE_DCHECK(op->run.in_pipe == 0);
  FUSEWIRE_DCHECK(!op->linked());
  op->run.state = OpRun::State::kIdle;
  if (op->then) {
    op->run.word.store(OpRun::kEnded, std::memory_order_release);
    op->then();
  } else {
    uintptr_t waiter = op->run.word.exchange(OpRun::kEnded, std::memory_order_acq_rel);
    if (waiter != OpRun::kPending) reinterpret_cast<reactor::Waiter*>(waiter)->Signal();
  }
  drain_.Close();  // the operation may be gone
}

}  // namespace fusewire::p2p
