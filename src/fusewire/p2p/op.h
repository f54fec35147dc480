// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An Op is one operation with a peer, and the place for its outcome. Made once, it may be posted again and again: what
// does not change is not said twice. An Op is data: what it says and what is noted of it. Its verbs (Post, Wait,
// Cancel) are the endpoint's: endpoint_ops.cc.
// Home: its endpoint's, from Post until its end; its maker's before and after.
// Owns: nothing. The memory that it names stays valid until its end, and is not touched after.
// Fails: through its end, which comes exactly once per Post, whatever happens: `then`, or Test and Wait. See
// docs/p2p.md.
#ifndef FUSEWIRE_P2P_OP_H_
#define FUSEWIRE_P2P_OP_H_

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
#include "fusewire/reactor/reactor.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire {
namespace p2p {

class Core;
class Endpoint;
class Lane;
class PeerLink;
class Signal;
struct Kept;
struct SignalState;

// What a peer needs to know of a region: send it in a message.
struct RegionRef {
  uint64_t id = 0;  // slot and generation
  uint64_t bytes = 0;
};
// Of a signal; 0 is none.
using SignalRef = uint64_t;
// What peers may do with a region.
enum class Access { kRead = 1, kWrite = 2, kReadWrite = 3 };

// What an endpoint notes of an operation from Post to its end. Its maker leaves it alone.
struct OpRun {
  enum class State {
    kIdle,
    kWaiting,   // for the peer, or for those before it
    kPosted,    // a receive for its message; an await for its signal
    kPulling,   // a receive: its message is on the way; a get: asked
    kLanding,   // its memory is being filled
    kOffered,   // a send: waits at the peer
    kSending,   // the pipe holds its memory
    kSent,      // waits for the peer's word
    kEnding,    // waits for the pipe to give back its memory
    kEndMailed  // its end follows
  };
  static constexpr uintptr_t kPending = 0, kEnded = 1;  // else a reactor::Waiter*

  explicit OpRun(UniqueFunction<void()> on_deadline) : deadline(std::move(on_deadline)) {}

  // ---- between its maker's thread and its home ----
  std::atomic<uintptr_t> word{kPending};
  std::atomic<uint64_t> id{0};  // its name in the op table, while it is there
  std::atomic<bool> cancel_wanted{false};

  // ---- at home: the op table's, op_table.h ----
  State state = State::kIdle;
  Status status;
  int64_t posted_ns = 0;
  int64_t deadline_ns = kForeverNs;
  reactor::Timer deadline;
  PeerLink* with = nullptr;  // the peer that it has to do with now
  uint32_t in_pipe = 0;      // messages whose memory the pipe holds
  Lane* lane = nullptr;      // that pipe
  uint64_t lane_bytes = 0;   // what it had written when we last looked
  bool offered = false;      // counts among those that the peer has not answered
  uint64_t pushed = 0;       // bytes that went with its offer
  bool wants_word = false;   // of the peer, before it ends
  bool taken = false;        // it has come

  // ---- at home: where a message meets its receive ----
  uint64_t order = 0;        // of posted receives: the matcher's
  uint64_t remote_id = 0;    // the sender's name for its message
  uint64_t room = 0;         // of the landing
  Kept* arriving = nullptr;  // what has begun to come
  std::vector<Bytes> landing;
};

class Op : public Mail, public ListNode {
 public:
  enum class Kind { kSend, kReceive, kPut, kGet, kAwait, kAwaitPeer };

  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  ~Op() override { FUSEWIRE_CHECK(run.state == OpRun::State::kIdle); }

  // ---- set before Post ----
  int64_t timeout_ns = 0;  // counted from Post; 0: the endpoint's
  // At home, at the end, never from inside Post: it may post this and other operations, and must not destroy this one.
  // An operation that has it is not tested or waited for.
  UniqueFunction<void()> then;

  // Any thread. Not while it is under way.
  void Post();
  // Any thread. True: it has ended, and status() says how.
  bool Test() const { return run.word.load(std::memory_order_acquire) == OpRun::kEnded; }
  // Any thread but a home, one at a time. Runs the idle reactor meanwhile. False: it has not ended within limit_ns, or
  // before an interrupt that ends the wait; it goes on.
  bool Wait(int64_t limit_ns = kForeverNs, reactor::Interrupts interrupts = reactor::Interrupts::kGoOn);
  // Any thread but a home. Post and Wait in one go, and then status().
  const Status& PostAndWait();
  // Any thread. The end follows soon, with kCancelled, unless it was faster.
  void Cancel();

  // After the end.
  const Status& status() const { return run.status; }

  // ---- for its endpoint ----
  Kind kind() const { return kind_; }
  PeerLink* peer() const { return peer_; }  // null: any, or none
  uint64_t id() const { return run.id.load(std::memory_order_relaxed); }
  OpRun run;

 protected:
  Op(Endpoint& endpoint, Peer* peer, Kind kind);

 private:
  void Deliver() override;

  Core* const core_;
  PeerLink* const peer_;
  const Kind kind_;
};

// A message to the receive of that tag that the peer posted, or will post. Ends when the memory is free: a small one
// once it has left, a large one when the peer has it.
class SendOp final : public Op {
 public:
  SendOp(Endpoint& endpoint, Peer& peer, uint64_t tag_in, ConstBytes bytes = ConstBytes());

  uint64_t tag;
  ConstBytes head;                // a few bytes for the receiver, at most wire::kP2pHeadBytesMax
  std::vector<ConstBytes> parts;  // one message, gathered
  bool confirm = false;           // also a small one ends when a receive has it, and with that receive's error
};

// The next message of that tag, from that peer or from anybody.
class ReceiveOp final : public Op {
 public:
  ReceiveOp(Endpoint& endpoint, Peer* peer, uint64_t tag_in, Bytes into = Bytes());

  uint64_t tag;
  std::vector<Bytes> parts;  // the landing; the message may be smaller, not larger

  // After the end.
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
  std::vector<ConstBytes> parts;  // none: it only signals
  SignalRef signal = 0;           // added to once all bytes are there
  uint64_t add = 1;
  bool confirm =
      true;  // ends when the bytes are there; else once they have left, and errors come as PeerEvent::kRefused
};

// Reads from a peer's region.
class GetOp final : public Op {
 public:
  GetOp(Endpoint& endpoint, Peer& peer, RegionRef region_in, uint64_t offset_in = 0, Bytes into = Bytes());

  RegionRef region;
  uint64_t offset;
  std::vector<Bytes> parts;
};

// Until a signal has reached a value.
class AwaitOp final : public Op {
 public:
  AwaitOp(Endpoint& endpoint, Signal& signal_in, uint64_t at_least_in);

  uint64_t at_least;
  SignalState* const signal;
};

// Until a peer is up.
class AwaitPeerOp final : public Op {
 public:
  AwaitPeerOp(Endpoint& endpoint, Peer& peer);
};

// A message that nobody has posted a receive for.
struct Offer {
  Peer& peer;
  uint64_t tag;
  uint64_t bytes;
  ConstBytes head;  // valid during the call
};
// What to do with it.
struct OfferAnswer {
  // Land it there: an operation that is not under way, with room for it.
  static OfferAnswer Take(ReceiveOp* into) { return OfferAnswer{into, Status::Ok()}; }
  // Keep it, or let it wait at its sender, until a receive is posted.
  static OfferAnswer Defer() { return OfferAnswer{nullptr, Status::Ok()}; }
  // The sender gets this error.
  static OfferAnswer Refuse(Status why) { return OfferAnswer{nullptr, std::move(why)}; }
  ReceiveOp* into;
  Status why;
};
// At home; quick.
using OnOffer = UniqueFunction<OfferAnswer(const Offer& offer)>;

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_OP_H_
