// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Pipe carries whole messages to one incarnation of one peer: in order, bounded by credit, landed where the receiver
// wants. Home: the reactor of its Connection. Owns: its Connection, and the Buffers of every message until the network
// is done with them. Fails: once; every pending Done hears of it, then PipeHandler::OnClosed. See docs/errors.md.
#ifndef FUSEWIRE_PIPE_PIPE_H_
#define FUSEWIRE_PIPE_PIPE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "fusewire/base/metrics.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/frame_handler.h"
#include "fusewire/pipe/frame_reader.h"
#include "fusewire/pipe/handshake.h"
#include "fusewire/pipe/landing.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/out_queue.h"
#include "fusewire/pipe/window.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/wire.h"

namespace fusewire {
namespace pipe {

struct Message {
  wire::FrameKind kind = wire::FrameKind::kMessage;
  uint16_t method = 0;
  uint32_t aux = 0;
  uint64_t call = 0;
  ConstBytes head;  // copied before Send returns
  Buffers body;     // held until the network is done with them
  // May overtake messages that are not express, also between the chunks of one. Express messages keep their own order.
  // What is longer than a chunk, as agreed with the peer, is not express whatever this says.
  bool express = false;
};

// A connection whose peer has asked for another service than the pipe's.
struct HandedOver {
  uint16_t service = 0;
  std::unique_ptr<transport::Incoming> incoming;
  Status refusal;             // not ok: nobody serves it, and this is what its peer is told
  std::string heard;          // its hello, and what came with it
  int64_t greeted_by_ns = 0;  // it has so long to say the rest
};

// Who takes what comes in for another service.
class OtherHomes {
 public:
  // At the pipe's home, once, instead of all that a pipe tells its receiver. The pipe is of no use any more, and not to
  // be destroyed yet.
  virtual void OnHandedOver(HandedOver handed) = 0;

 protected:
  ~OtherHomes() = default;
};

// Who the peer says it is.
struct PeerInfo {
  std::string name;
  std::string address;
  uint64_t incarnation = 0;
  uint64_t features = 0;
  const char* wire = "";  // what the pipe runs over: "tcp", "shm" ...
  // "worker:3 (10.0.0.7:5555)"
  std::string ToString() const { return name.empty() ? address : name + " (" + address + ")"; }
};

// The beginning and the end of a pipe. All calls at home. None may destroy the pipe, except that OnClosed may.
class PipeHandler {
 public:
  // The greeting is over. Returns what takes the messages from now on; it stays until OnClosed.
  virtual FrameHandler* OnOpen(const PeerInfo& peer) = 0;
  // The last call, exactly once, never from inside a call of ours to the pipe.
  virtual void OnClosed(Status why) = 0;

 protected:
  ~PipeHandler() = default;
};

// Both in one.
class Receiver : public PipeHandler, public FrameHandler {
 public:
  virtual ~Receiver() = default;
};

struct PipeStats {
  Counter messages_in, messages_out, bytes_in, bytes_out, frames_in, frames_out;
  Counter credit_stalls;  // a message had to wait for the peer's credit
  Counter budget_stalls;  // the peer had to wait for our budget
  Histogram ping_ns;
};

class Pipe final : private transport::ConnectionHandler, private reactor::Flushable, private FrameSink {
 public:
  // `shared`, `home` and `handler` outlive the pipe.
  Pipe(Shared& shared, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection, Role role,
       uint16_t service, PipeHandler* handler);
  ~Pipe();

  // At home, once: begins the greeting. `others` (if any), of an acceptor, outlives the pipe.
  void Start(OtherHomes* others = nullptr);
  // Instead, of one that was handed over: goes on with it.
  void GoOn(const HandedOver& handed);
  // At home. Waits for the greeting, for credit and for its turn. `done` (if any) is called once the network is done
  // with the message, or the pipe has closed.
  void Send(Message message, Done done = nullptr);
  // At home. False: so much is waiting already that Send would refuse this message.
  bool HasRoom(size_t head_bytes) const {
    return queued_bytes_ + QueuedBytes(head_bytes) <= shared_.options().queued_bytes_max;
  }
  // Whether such a message is within the limits of both tasks: one beyond them would cost us the pipe, so Send refuses
  // it with kInvalid.
  Status CheckSize(size_t head_bytes, const Buffers& body) const;
  // At home. Tells the peer that we no longer want the answer to `call`. A call that has not begun to travel is taken
  // back.
  void Cancel(uint64_t call);
  // At home. We are done with a message; its bytes are the peer's credit again.
  void Consume(const wire::FrameHeader& header);
  // At home. If this message's body is coming in, the rest of it goes nowhere and the receiver's memory is free at
  // once.
  void Abandon(wire::FrameKind kind, uint64_t call);
  // At home. Says goodbye with the reason, if there is time, and closes. May be repeated.
  void Close(Status why);
  // At home. Ends at once, without a goodbye and without OnClosed: for who is about to destroy the pipe, so that every
  // Done comes while what it needs is still there.
  void Abort(const Status& why);

  bool open() const { return state_ == State::kOpen; }
  // At home. Whether an express message of so much, all in all, would go at once and hold nobody up.
  bool GoesAtOnce(uint64_t cost) const;
  // At home. Express messages wait for credit: those that Send took, and that Close would drop.
  bool holds_express_back() const { return !express_.empty(); }
  const PeerInfo& peer() const { return peer_; }
  const PipeStats& stats() const { return stats_; }
  const ReceiveWindow& receive_window() const { return receive_window_; }
  reactor::Reactor& home() { return home_; }

 private:
  enum class State { kGreeting, kOpen, kSayingGoodbye, kClosed };
  struct Waiting {
    Message message;
    Buffer head;
    Done done;
    uint64_t cost;
  };
  struct LongSend {  // the message whose chunks are under way
    Buffers body;
    Done done;
    size_t index = 0;
    size_t offset = 0;
    uint64_t left = 0;
  };

  // transport::ConnectionHandler
  size_t Landing(Bytes* parts, size_t parts_max) override;
  size_t LookAhead() override;
  uint64_t Expected() override { return open() ? reader_.Expected() : 0; }
  void OnLanded(size_t bytes) override;
  void OnBytes(ConstBytes bytes) override;
  void OnWritten(size_t bytes) override;
  void OnClosed(Status why) override;
  // FrameSink
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;
  Status OnControl(const wire::FrameHeader& header, ConstBytes meta) override;
  // reactor::Flushable
  void Flush() override;

  void OnGreetingBytes(ConstBytes* bytes);
  std::optional<uint64_t> Admit();
  void HandOver(ConstBytes rest);
  Status OpenWith(const wire::Hello& hello);
  void Check(const Status& status);
  void Heard();
  void OnTick();
  void RestIfIdle();
  Status CheckMetaGrows();

  void Pump();
  void AskForCredit();
  void SendGrant();
  void RecallIfWanted();
  void Write();
  void Encode(Message* message, ConstBytes head, Done done);
  void AppendControl(wire::FrameKind kind, uint32_t aux, uint64_t call, ConstBytes meta = ConstBytes());
  void AppendBody(LongSend* send, uint64_t bytes);
  void AppendChunk();
  void FinishGoodbye();
  void EndAll(const Status& why);
  void DemoteLongExpress();
  Status WhyNot(const Message& message) const;
  static size_t QueuedBytes(size_t head_bytes) { return head_bytes + sizeof(Waiting); }
  Status Describe(const Status& why) const;

  Shared& shared_;
  reactor::Reactor& home_;
  std::unique_ptr<transport::Connection> connection_;
  PipeHandler* const handler_;
  FrameHandler* messages_ = nullptr;  // from when it opens
  State state_ = State::kGreeting;
  PeerInfo peer_;
  std::optional<uint64_t> window_bytes_;  // our part of the window budget, if there was one
  std::unique_ptr<Handshake> handshake_;  // gone once open
  FrameReader reader_;
  SendWindow send_window_;
  ReceiveWindow receive_window_;
  uint32_t chunk_bytes_;
  // Beyond this, express messages wait in their queue, where they are counted, instead of side by side in our blocks.
  static constexpr size_t kExpressBytesMax = 1 << 20;
  const size_t bulk_bytes_;  // is lined up for the network while less waits; never while express messages wait
  uint32_t sequence_ = 0;

  OutQueue out_;
  std::deque<Waiting> express_;
  std::deque<Waiting> in_order_;
  LongSend long_;
  size_t queued_bytes_ = 0;
  size_t writes_ = 0;  // unanswered
  bool in_flush_ = false;
  static constexpr size_t kPartsPerWrite = 64;
  ConstBytes parts_[kPartsPerWrite];

  OtherHomes* others_ = nullptr;
  int64_t greeted_by_ns_ = 0;
  int64_t heard_ns_;               // when the peer last said anything
  int64_t said_ns_;                // when we last did
  uint64_t meta_at_tick_ = 0;      // which frame's meta was coming in when we last looked, counted from 1; or 0
  int64_t meta_since_ns_ = 0;      // when we first looked and it was
  uint64_t messages_at_tick_ = 0;  // in and out, when we last looked whether the pipe is idle
  int64_t opened_ns_ = 0;
  int64_t pinged_ns_ = 0;
  bool suspect_ = false;
  bool pong_due_ = false;
  uint64_t pong_call_ = 0;
  bool give_back_ = false;   // unused credit, unless what waits next can use it
  int64_t recalled_ns_ = 0;  // when we asked for unused credit in vain; 0: we have not
  uint64_t bytes_in_at_recall_ = 0;
  Status why_closing_;
  reactor::Timer tick_;    // heartbeats; before that the limit of the greeting; at the end the limit of the goodbye
  reactor::Timer again_;   // while the peer waits for our budget, and at the end for what it has not received yet
  reactor::Timer recall_;  // while we hold a share of it: do others wait?
  PipeStats stats_;
};

// What a message counts against the window.
inline uint64_t WindowCost(const wire::FrameHeader& header) {
  return wire::kHeaderBytes + header.meta_bytes + header.body_bytes;
}

}  // namespace pipe
}  // namespace fusewire

#endif  // FUSEWIRE_PIPE_PIPE_H_
