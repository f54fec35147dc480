// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An Op is one operation with a peer, and holds its outcome. It is made once and may be posted many times. An Op is
// data: its arguments, and its state while it is under way. Its functions (Post, Wait, Cancel) are the endpoint's, in
// endpoint.cc.
// Home: its endpoint's, from Post until its end; its maker's thread before and after.
// The memory that it names must stay valid until its end, and is not touched after it.
// Fails: through its end, which is reported exactly once per Post, whatever happens: by `then`, or by Test and Wait.
// See docs/p2p.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/list.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/p2p/peer.h"
#include "fusewire/reactor/options.h"
#include "fusewire/reactor/timer.h"

namespace fusewire::p2p {

class Core;
class Endpoint;
class Lane;
class PeerLink;
class Signal;
struct UnexpectedMessage;
struct SignalState;

// The name of a region for a peer: send it in a message.
struct RegionRef {
  uint64_t id = 0;  // slot and generation
  uint64_t bytes = 0;
};
// The name of a signal for a peer; 0 is none.
using SignalRef = uint64_t;
// The operations that peers may make on a region.
enum class Access { kRead = 1, kWrite = 2, kReadWrite = 3 };

enum class OpKind { kSend, kReceive, kPut, kGet, kAwait, kAwaitPeer };

// The state of an operation from Post to its end. Only the endpoint uses it.
struct OpRun {
  enum class State {
    kIdle,
    kWaiting,    // for the peer, or behind operations that do
    kPosted,     // a receive waits for its message, an await for its signal
    kRequested,  // a receive or a get: its bytes are on their way
    kLanding,    // its memory is being filled
    kOffered,    // a send: its offer waits at the peer
    kSending,    // the pipe holds its memory
    kSent,       // waits for the peer's result
    kEnding,     // has its status; waits until the pipe gives back its memory
    kEndMailed   // its end is being reported
  };
  static constexpr uintptr_t kPending = 0, kEnded = 1;  // otherwise `word` is a reactor::Waiter*

  explicit OpRun(UniqueFunction<void()> on_deadline) : deadline(std::move(on_deadline)) {}

  // ---- between its maker's thread and its home ----
  std::atomic<uintptr_t> word{kPending};
  std::atomic<uint64_t> id{0};  // in the op table; 0: it is not there
  std::atomic<bool> cancel_wanted{false};

  // ---- at home: the op table's, op_table.h ----
  State state = State::kIdle;
  Status status;
  int64_t posted_ns = 0;
  int64_t deadline_ns = kForeverNs;
  reactor::Timer deadline;
  PeerLink* with = nullptr;   // its peer; of a receive from any peer, the one whose message it has
  uint32_t in_pipe = 0;       // how many messages with its memory the pipe holds
  Lane* lane = nullptr;       // of that pipe; of a landing: that it comes over
  uint64_t lane_bytes = 0;    // that the pipe had written when we last looked
  bool offered = false;       // it counts in Flow::offers_out
  uint64_t pushed = 0;        // bytes that went with its offer
  bool wants_result = false;  // it ends with the peer's result
  bool result_came = false;   // but the pipe still holds its memory

  // ---- at home: where a message meets its receive ----
  uint64_t order = 0;                     // of posting; set by the matcher
  uint64_t remote_id = 0;                 // of its send, at the peer; of a send: the receive that has its data unasked
  uint64_t room = 0;                      // bytes of the landing
  UnexpectedMessage* arriving = nullptr;  // that it takes once its body is complete
  std::vector<Bytes> landing;
};

class Op : public Mail, public ListNode {
 public:
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  ~Op() override { FUSEWIRE_CHECK(run.state == OpRun::State::kIdle); }

  // ---- set before Post ----
  int64_t timeout_ns = 0;  // counted from Post; 0: Limits::timeout_ns
  // Runs at home, at the end, never inside Post. It may post this and other operations, and must not destroy this one.
  // Don't call Test or Wait on an operation that has it.
  UniqueFunction<void()> then;

  // Any thread; not while the operation is under way.
  void Post();
  // Any thread. True: it has ended, and status() says how.
  bool Test() const { return run.word.load(std::memory_order_acquire) == OpRun::kEnded; }
  // Any thread but a home, one at a time. Runs the idle reactor meanwhile. False: it has not ended within limit_ns, or
  // before an interrupt that ends the wait; it goes on.
  bool Wait(int64_t limit_ns = kForeverNs, reactor::Interrupts interrupts = reactor::Interrupts::kGoOn);
  // Any thread but a home. Post, Wait and status() in one call.
  const Status& PostAndWait();
  // Any thread. The operation ends soon, with kCancelled unless it has ended otherwise before.
  void Cancel();

  // After its end.
  const Status& status() const { return run.status; }

  // ---- for its endpoint ----
  OpKind kind() const { return kind_; }
  PeerLink* peer() const { return peer_; }  // null: any peer, or none
  uint64_t id() const { return run.id.load(std::memory_order_relaxed); }
  OpRun run;

 protected:
  Op(Endpoint& endpoint, Peer* peer, OpKind kind);

 private:
  void Deliver() override;

  Core* const core_;
  PeerLink* const peer_;
  const OpKind kind_;
};

// Sends a message to a receive with this tag that the peer has posted or will post. It ends when its memory is free: a
// small message when it has left, a large one when the peer has it.
class SendOp final : public Op {
 public:
  SendOp(Endpoint& endpoint, Peer& peer, uint64_t tag_in, ConstBytes bytes = ConstBytes());

  uint64_t tag;
  ConstBytes head;                   // for ReceiveOp::head; at most wire::kP2pHeadBytesMax bytes
  std::vector<ConstBytes> segments;  // one message, gathered
  bool confirm = false;              // a small message, too, ends when a receive has it, or with that receive's error
};

// Receives the next message with this tag from one peer, or from any peer (null).
class ReceiveOp final : public Op {
 public:
  ReceiveOp(Endpoint& endpoint, Peer* peer, uint64_t tag_in, Bytes into = Bytes());

  uint64_t tag;
  std::vector<Bytes> segments;  // the landing; the message may be smaller, not larger

  // After its end.
  Peer* source = nullptr;
  uint64_t bytes = 0;
  std::string head;
};

// Writes into a peer's region, then adds to one of its signals.
class PutOp final : public Op {
 public:
  PutOp(Endpoint& endpoint, Peer& peer, RegionRef region_in, uint64_t offset_in = 0, ConstBytes bytes = ConstBytes());

  RegionRef region;
  uint64_t offset;
  std::vector<ConstBytes> segments;  // none: it only adds to the signal
  SignalRef signal = 0;              // gets `add` once all bytes are in the region
  uint64_t add = 1;
  // It ends when the bytes are there. False: when they have left, and an error is a PeerEvent::kRefused.
  bool confirm = true;
};

// Reads from a peer's region.
class GetOp final : public Op {
 public:
  GetOp(Endpoint& endpoint, Peer& peer, RegionRef region_in, uint64_t offset_in = 0, Bytes into = Bytes());

  RegionRef region;
  uint64_t offset;
  std::vector<Bytes> segments;
};

// Waits until a signal has reached a value.
class AwaitOp final : public Op {
 public:
  AwaitOp(Endpoint& endpoint, Signal& signal_in, uint64_t at_least_in);

  uint64_t at_least;
  SignalState* const signal;
};

// Waits until a peer is connected.
class AwaitPeerOp final : public Op {
 public:
  AwaitPeerOp(Endpoint& endpoint, Peer& peer);
};

// A message for which no receive is posted.
struct Offer {
  Peer& peer;
  uint64_t tag;
  uint64_t bytes;
  ConstBytes head;  // valid during the call
};
// The handling of an offer.
struct OfferAnswer {
  // It lands in this receive, which is not under way and has room for it.
  static OfferAnswer Take(ReceiveOp* into) { return OfferAnswer{into, Status::Ok()}; }
  // It waits, here or at its sender, until a receive is posted.
  static OfferAnswer Defer() { return OfferAnswer{nullptr, Status::Ok()}; }
  // The sender gets this error.
  static OfferAnswer Refuse(Status why) { return OfferAnswer{nullptr, std::move(why)}; }
  ReceiveOp* into;
  Status why;
};
// Runs at home; must be quick.
using OnOffer = UniqueFunction<OfferAnswer(const Offer& offer)>;

}  // namespace fusewire::p2p
