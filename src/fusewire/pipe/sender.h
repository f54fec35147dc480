// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The sending side of a pipe: which frame goes next (the pipe's own and express messages at once, the rest chunk by
// chunk), as far as the peer's credit reaches, and handing it to the network.
// Home: the pipe's. Owns: every message from Send until the network is done with it. Fails: a message on its own,
// through its Done; all of them by End.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fusewire/base/bytes.h"
#include "fusewire/base/fifo.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/frame_writer.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/pipe_handler.h"
#include "fusewire/pipe/window.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {

struct WaitingMessage {
  Message message;
  Buffer head;  // message.head lies in it
  Done done;
  uint64_t cost;
};

// Messages that wait for the greeting, for credit, or for their turn: express ones, and those that keep their order.
// Pure: no socket, no clock. Owns these messages, and copies of their heads. HasRoom says whether one more fits.
class SendQueue {
 public:
  explicit SendQueue(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // False: so much is waiting already that a message with such a head has no room.
  bool HasRoom(size_t head_bytes) const { return bytes_ + BytesOf(head_bytes) <= bytes_max_; }
  void Push(WaitingMessage waiting);

  bool empty() const { return express_.empty() && in_order_.empty(); }
  bool has_express() const { return !express_.empty(); }
  bool has_in_order() const { return !in_order_.empty(); }
  // The cost of the next one; there is one.
  uint64_t express_cost() const { return express_.front().cost; }
  uint64_t in_order_cost() const { return in_order_.front().cost; }
  WaitingMessage PopExpress() { return Pop(&express_); }
  WaitingMessage PopInOrder() { return Pop(&in_order_); }

  // The peer wants smaller chunks than we would take: express messages longer than one now wait their turn.
  void DemoteLongExpress(uint32_t chunk_bytes);
  // The message that makes this call, if it waits here.
  std::optional<WaitingMessage> TakeBack(uint64_t call);
  // Nothing more will be sent: every Done is called, in the order in which the messages would have been sent.
  void Fail(const Status& why);
  // Gives back memory that an empty queue does not need.
  void Trim();

 private:
  static size_t BytesOf(size_t head_bytes) { return head_bytes + sizeof(WaitingMessage); }
  WaitingMessage Pop(Fifo<WaitingMessage>* queue);

  const uint64_t bytes_max_;
  size_t bytes_ = 0;
  Fifo<WaitingMessage> express_;
  Fifo<WaitingMessage> in_order_;
};

// Hands the bytes of its queue to the connection, and counts the Writes that are unanswered.
class ConnectionWriter {
 public:
  ConnectionWriter(transport::Connection& connection, int64_t now_ns) : connection_(connection), wrote_ns_(now_ns) {}

  OutQueue& queue() { return queue_; }
  const OutQueue& queue() const { return queue_; }
  size_t bytes() const { return queue_.bytes(); }
  bool TakesMore() const { return writes_ == 0 || connection_.TakesMore(); }
  // One Write, of what comes next. False: there is nothing.
  bool Write(int64_t now_ns);
  // One is answered: this many of its bytes are written.
  void OnWritten(size_t bytes);
  bool idle() const { return queue_.empty() && writes_ == 0; }
  // When it gave the connection something last.
  int64_t wrote_ns() const { return wrote_ns_; }
  // Nothing will be written any more.
  void Fail(const Status& why);

 private:
  template <size_t kParts>
  bool WriteParts(int64_t now_ns);

  transport::Connection& connection_;
  OutQueue queue_;
  size_t writes_ = 0;  // unanswered
  int64_t wrote_ns_;
};

class Sender {
 public:
  // All references outlive the sender. `flushable` is flushed at the end of a turn in which there is something to
  // write, and calls Write.
  Sender(const Options& options, reactor::Reactor& home, transport::Connection& connection, const PeerInfo& peer,
         PipeStats& stats, reactor::Flushable* flushable);

  // ---- its life ----
  // Bytes of the greeting.
  void AppendGreeting(ConstBytes bytes);
  // The greeting is over; this is what was agreed. Messages may go.
  void Open(uint32_t chunk_bytes, uint64_t window_bytes);
  // No message begins or goes on any more; bytes that are queued for the network still go, and so does a goodbye.
  void Stop(const Status& why);
  // Nothing more is written: every Done is called, in the order in which the messages would have been sent.
  void End(const Status& why);

  // ---- messages; see Pipe ----
  void Send(Message&& message, Done&& done);
  bool HasRoom(size_t head_bytes) const { return queue_.HasRoom(head_bytes); }
  Status CheckSize(size_t head_bytes, const Buffers& body) const;
  void Cancel(uint64_t call);
  bool GoesAtOnce(uint64_t cost) const;
  bool BeginsAtOnce(uint64_t cost) const;
  bool holds_express_back() const { return queue_.has_express(); }

  // ---- the pipe's own frames, and those of the peer that are about our sending ----
  void AppendControl(wire::FrameKind kind, uint32_t aux, uint64_t call, ConstBytes meta = ConstBytes());
  Status OnCredit(uint64_t bytes);
  // The peer wants back the credit that we cannot use.
  void OnRecall();
  void OnPing(uint64_t call);

  // ---- writing ----
  // There may be something to write.
  void FlushSoon() { home_.FlushLater(flushable_); }
  void Write();
  void OnWritten(size_t bytes);
  // All that was queued is written, and no Write is on the stack.
  bool idle() const { return !in_write_ && writer_.idle(); }
  // The next Write has something to write, unless that waits for credit.
  bool has_output() const { return stage_ == Stage::kOpen && (!writer_.queue().empty() || !queue_.empty()); }
  int64_t wrote_ns() const { return writer_.wrote_ns(); }
  // No message has come or gone for a while: gives back credit that nothing waits for.
  void Rest();
  // Gives back memory that an idle connection does not need.
  void Trim();

 private:
  enum class Stage { kGreeting, kOpen, kStopped, kEnded };

  Status WhyNot(const Message& message) const;
  Status Describe(const Status& why) const { return why.Peer(peer_.ToString()); }
  void Begin(Message* message, ConstBytes head, Done&& done);
  void Pump();
  void AskForCredit();

  const Options& options_;
  reactor::Reactor& home_;
  const PeerInfo& peer_;
  PipeStats& stats_;
  reactor::Flushable* const flushable_;
  Status why_stopped_;
  const size_t bulk_bytes_;  // is queued for the network while less waits; never while express messages wait

  SendQueue queue_;
  SendWindow window_;
  ConnectionWriter writer_;
  FrameWriter frames_;
  std::optional<uint64_t> pong_;  // that is due
  Stage stage_ = Stage::kGreeting;
  bool in_write_ = false;
  bool give_back_ = false;  // unused credit, unless what waits next can use it
};

}  // namespace fusewire::pipe
