// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The calls of one peer at the server, and their states.
// Home: the pipe's. Owns: calls until they have a Reply, and their storage. Fails: with kCorrupt if the peer violates
// the protocol.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/list.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/method.h"
#include "fusewire/rpc/stats.h"
#include "fusewire/wire/wire.h"

namespace fusewire::rpc {

// The memory of answers that their callers have not taken yet. A caller gets the credit for its request back when the
// answer begins: without this limit, one that asks and never reads could fill all memory with answers. Counts memory
// that exists for an answer alone (Buffer::is_own()): memory that a handler lends is its own anyway. One sum for all
// servers of a process. Any thread. Fails with kOverloaded. Counts the body until its last own segment is released. An
// answer that waits alone is held, however long.
Status HoldAnswer(Buffers* body, uint64_t bytes_max);
// Any thread.
uint64_t HeldAnswerBytes();

class PeerCalls;

// An incoming call. Created at home when its header arrives; belongs to its PeerCalls until the handler gets its Reply,
// then to the Reply; destroyed at home after the reply. If the PeerCalls is destroyed first, no reply is sent.
class ServerCall final : public Mail, public ListNode {
 public:
  ServerCall(PeerCalls* peer_in, reactor::Reactor& home_in);

  // At home; the reply is in status, head and body.
  void Deliver() override;

  PeerCalls* peer;  // null: the peer is gone. Only at home
  reactor::Reactor& home;
  wire::FrameHeader header;
  int64_t started_ns = 0;
  bool landing = false;   // its body is arriving
  bool streamed = false;  // parts have been sent: the request was consumed before them, and order matters from now on
  Status refusal;         // if set, this is the reply: the call was not handled, or a part of its stream was lost
  Request request;        // while it lands: its body or its sink
  std::vector<Bytes> parts;
  std::atomic<bool> unwanted{false};
  UniqueFunction<void(Unwanted)> told;
  reactor::Timer deadline;
  // The reply, from another thread.
  Status status;
  Buffer head;
  Buffers body;
};

// Shared by all callers on one reactor.
struct ServerHome {
  reactor::Reactor* reactor = nullptr;
  // The part of a caller's queue that is reserved for errors about replies that can't be sent.
  size_t words_bytes_max = 0;
  uint32_t calls_in_flight_max = 0;  // of each peer
  uint64_t answers_bytes_max = 0;
  MethodTable methods;
  MethodStats unknown;                // calls of unknown methods
  reactor::Drain under_way{"calls"};  // from their header to their reply
  List<PeerCalls> peers;
};

// The methods of a server by number.
class MethodIndex {
 public:
  explicit MethodIndex(std::vector<Method> methods);
  // Ok, or an error that names two methods with the same number.
  static Status Check(const std::vector<Method>& methods);
  Method* Find(uint16_t number) { return number < by_number_.size() ? by_number_[number] : nullptr; }
  std::string NameOf(uint16_t number);

 private:
  std::vector<Method> methods_;
  std::vector<Method*> by_number_;
};

class PeerCalls final : public pipe::Receiver, public ListNode {
 public:
  PeerCalls(pipe::Pipe& pipe, MethodIndex& methods, ServerHome& home, const std::atomic<bool>& closing);
  ~PeerCalls() override;

  // pipe::Receiver
  pipe::FrameHandler* OnOpen(const pipe::PeerInfo& peer) override;
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;
  void OnCancel(uint64_t call) override;
  void OnClosed(Status why) override;

  // At home. Ends the call and frees it.
  void Answer(ServerCall* call, const Status& status, ConstBytes head, Buffers body);
  void SendPart(ServerCall* call, ConstBytes head, Buffers body, Done done);
  static void MarkUnwanted(ServerCall* call, Unwanted why);
  PeerSnapshot Snapshot() const;

 private:
  struct Slot {
    ServerCall* call = nullptr;
    uint32_t generation = 0;  // the last one used
    bool used = false;
  };

  Status TakeSlot(const wire::FrameHeader& header);
  ServerCall* TakeLanded(uint64_t id);
  ServerCall* NewCall();
  // The call that the caller means by its slot now; null: it has been answered.
  ServerCall*& CurrentAt(uint64_t id) { return slots_[wire::UnpackCallId(id).slot].call; }
  Status LandRequest(ServerCall* call, Method* method, ConstBytes meta, pipe::Landing* landing);
  MethodStats& StatsOf(uint16_t method);
  Status SendAnswer(ServerCall* call, Status status, ConstBytes head, Buffers body, MethodStats* stats);
  Status WhyNot(ConstBytes head, Buffers* body) const;
  void Free(ServerCall* call);
  void LeaveAll();

  pipe::Pipe& pipe_;
  MethodIndex& methods_;
  ServerHome& home_;
  const std::atomic<bool>& closing_;
  std::vector<Slot> slots_;  // by the caller's slot
  List<ServerCall> calls_;
  // Calls whose bodies are arriving: a long one, and one between its chunks. Not found by slot, because the caller may
  // have reused the slot for another call.
  std::vector<ServerCall*> landing_;
  std::vector<std::unique_ptr<ServerCall>> free_;
  uint64_t in_flight_ = 0;
};

}  // namespace fusewire::rpc
