// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Call is one question to a peer and the place for its answer: one object for one operation.
// Home: its client's, from Start until OnDone; its maker's before and after.
// Owns: the request's body until it is sent, the reply's body. The maker owns the Call, and keeps it until OnDone.
// Fails: through OnDone, which is called exactly once per Start, whatever happens.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/list.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/reactor/timer.h"

namespace fusewire::wire {
struct FrameHeader;
}  // namespace fusewire::wire

namespace fusewire::rpc {

// The service number that rpc says in its hello.
constexpr uint16_t kRpcService = 1;
// Messages up to this overtake bulk: requests, small answers.
constexpr uint64_t kExpressBytes = 16 * 1024;

class Client;
class ClientCore;

// The sizes of a body's segments, as its header announces them.
class SegmentSizes {
 public:
  SegmentSizes(const wire::FrameHeader& header, ConstBytes meta) : header_(header), meta_(meta) {}
  size_t count() const;
  uint64_t at(size_t index) const;
  uint64_t total() const;

 private:
  const wire::FrameHeader& header_;
  ConstBytes meta_;
};

// New memory for each segment; the usual way to land. Empty on success.
Status AllocateSegments(const SegmentSizes& sizes, Buffers* body, std::vector<Bytes>* parts);
// Ok, or why a body of `body_bytes` cannot land there.
Status CheckLanding(const pipe::Landing& landing, uint64_t body_bytes);

class Call : public Mail, public ListNode {
 public:
  explicit Call(uint16_t method = 0);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() override;

  // ---- the request: set before Start ----
  uint16_t method = 0;
  ConstBytes head;                  // stays valid until OnDone
  Buffers body;                     // moved away by Start; each is given back when the network is done with it
  int64_t timeout_ns = kForeverNs;  // counted from Start; travels with the call

  // ---- the reply: valid from OnDone ----
  std::string reply_head;
  Buffers reply_body;  // unless Land was overridden

  // Any thread, until the end of OnDone. OnDone follows with kCancelled, unless the answer was faster; the peer is
  // told. A call that is not under way ends at its next Start.
  void Cancel();

 protected:
  // At home: an answer begins that is a success and has segments. Returns where its body is to land: Into memory, or
  // Discard. The memory stays valid until OnDone; nothing touches it after. Default: into new memory, reply_body.
  virtual Result<pipe::Landing> Land(ConstBytes reply_head, const SegmentSizes& sizes);
  // The same for one part of a streamed reply: the memory stays valid until its OnPart, or OnDone. Default: into new
  // memory, which OnPart is given.
  virtual Result<pipe::Landing> LandPart(ConstBytes head, const SegmentSizes& sizes);
  // At home: one part of a streamed reply, in order. `head` is valid during the call; `part` is empty if LandPart was
  // overridden.
  virtual void OnPart(ConstBytes head, Buffers part);
  // At home, exactly once; the call may be started again or destroyed in it.
  virtual void OnDone(Status status) = 0;

 private:
  friend class Client;
  friend class ClientCore;
  enum class State { kIdle, kWaiting, kSent };

  void Deliver() override;  // the mail that brings the call home
  int64_t deadline_ns() const { return AddNs(started_ns_, timeout_ns); }

  std::atomic<ClientCore*> client_{nullptr};
  std::atomic<uint64_t> id_{0};  // packed; 0 until it has come home
  std::atomic<bool> cancel_wanted_{false};
  State state_ = State::kIdle;
  int64_t started_ns_ = 0;
  reactor::Timer deadline_;
  std::vector<Bytes> parts_;  // where the reply lands
  Buffers part_body_;         // of the streamed part that is coming in
  bool landing_ = false;
};

// A call whose end is a function.
class SimpleCall final : public Call {
 public:
  SimpleCall(uint16_t method_in, Done done) : Call(method_in), done_(std::move(done)) {}

 private:
  void OnDone(Status status) override {
    Done done = std::move(done_);
    done(std::move(status));
  }
  Done done_;
};

}  // namespace fusewire::rpc
