// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Server answers calls: methods by number, each a function that runs at the home of the caller's pipe.
// Home: every reactor of its task. Owns: its acceptor and the calls in flight.
// Fails: Open says why; afterwards each call on its own. Every call that reaches a handler gets exactly one reply, if
// only "the handler dropped it"; a caller that is gone gets none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/pipe/peer_info.h"
#include "fusewire/rpc/call.h"
#include "fusewire/rpc/stats.h"
#include "fusewire/transport/address.h"

namespace fusewire::reactor {
class Reactor;
}  // namespace fusewire::reactor

namespace fusewire::task {
class Task;
}  // namespace fusewire::task

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
  void OnUnwanted(UniqueFunction<void()> told);
  // The same, but not when the caller's connection ends: it may ask again, over another one.
  void OnCancelled(UniqueFunction<void()> told);
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

struct ServerOptions {
  // Per peer. More: the peer breaks its promise, and is cut off.
  uint32_t calls_in_flight_max = 65536;
  // The memory of answers that their callers have not taken yet, of all servers of the process together; an answer
  // beyond it fails with kOverloaded. Memory that a handler lends does not count. 0: as much as the receive budget, and
  // at least 64 MiB.
  uint64_t answers_bytes_max = 0;
};

class Server {
 public:
  // Any thread but a home. The methods are called on every reactor of the task at once. `task` outlives the server.
  // It serves wherever the task listens, before and after that does.
  static Result<std::unique_ptr<Server>> Open(task::Task& task, std::vector<Method> methods,
                                              ServerOptions options = ServerOptions());
  // The same, and the task listens at `address` until the server closes.
  static Result<std::unique_ptr<Server>> Open(task::Task& task, const transport::Address& address,
                                              std::vector<Method> methods, ServerOptions options = ServerOptions());
  // Any thread but a home. Cuts off all peers; Replies that are still held may be sent or dropped later, to nobody.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Any thread. With the actual port; port 0: its task listens nowhere.
  transport::Address address() const;
  // Any thread but a home. New calls are refused with kUnavailable; returns when those in flight have been answered, or
  // after `grace_ns`; then says goodbye to all.
  void Close(int64_t grace_ns = kSecondNs);
  // Any thread but a home.
  fusewire::rpc::Snapshot Snapshot();
  // Any thread.
  uint64_t calls_in_flight() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusewire::rpc
