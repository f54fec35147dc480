// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A method of a Server: the request that it is given, and the Reply with which it answers.
// Home: that of the caller's pipe; a Reply may go to any thread. Owns: a Request its body or its sink, a Reply its
// call. Fails: a Reply that is dropped tells the caller so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/bytes.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/pipe/peer_info.h"
#include "fusewire/rpc/call.h"

namespace fusewire::reactor {
class Reactor;
}  // namespace fusewire::reactor

namespace fusewire::rpc {

class ServerCall;

// Landing memory for the body of one request. Its destructor releases memory that was not taken.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // At home. Valid for as long as the sink lives.
  virtual pipe::Landing Where() = 0;
};

struct Request {
  uint16_t method = 0;
  ConstBytes head;                       // valid during the handler
  Buffers body;                          // unless the method has a sink
  std::unique_ptr<RequestSink> sink;     // filled
  const pipe::PeerInfo* peer = nullptr;  // valid during the handler
  int64_t deadline_ns = kForeverNs;      // on the clock of the handler's reactor; the caller has stopped waiting then
};

// Why an answer is no longer wanted.
enum class Unwanted {
  kGivenUp,  // the caller has cancelled, or its deadline has passed
  kLost,     // the caller's connection has ended; it may ask again, over another one
};

// The right and the duty to reply to one call. Any thread may hold and use it; it keeps the call alive.
class Reply {
 public:
  Reply() = default;
  explicit Reply(ServerCall* call) : call_(call) {}
  Reply(Reply&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Reply& operator=(Reply&& other) noexcept;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  // If no reply was sent, the caller gets an error: the handler dropped the call.
  ~Reply();

  // Any thread. Sends the reply, once. An error has no body. No callback runs inside.
  void Send(Status status, ConstBytes head = ConstBytes(), Buffers body = Buffers());
  // Any thread. Sends one part of a streamed reply; Send ends the stream. `done` (if any) is called at home when the
  // network is done with the part: a long stream waits for it instead of filling memory.
  void SendPart(ConstBytes head, Buffers body = Buffers(), Done done = nullptr);
  // Any thread. True once the caller has cancelled, its deadline has passed, or it is gone: the reply is no longer
  // wanted.
  bool unwanted() const;
  // At home, in the handler: `told` is called at home, at most once, when unwanted() becomes true before the answer is
  // sent.
  void OnUnwanted(UniqueFunction<void(Unwanted why)> told);
  explicit operator bool() const { return call_ != nullptr; }
  // Any thread. The home of the call: parts that are sent there leave at once, and together.
  reactor::Reactor& home() const;

 private:
  ServerCall* call_ = nullptr;
};

struct Method {
  uint16_t number = 0;
  std::string name;  // for counters and errors
  // At home. It must be quick: slow work moves its Reply to another thread.
  UniqueFunction<void(Request request, Reply reply)> handle;
  // At home, if set: creates the sink in which the request's body lands. An error is sent to the caller.
  UniqueFunction<Result<std::unique_ptr<RequestSink>>(ConstBytes head, const SegmentSizes& sizes)> make_sink;
};

}  // namespace fusewire::rpc
