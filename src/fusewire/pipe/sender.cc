// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/sender.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::pipe {
namespace {

// The half of what is under way where most is: so a connection that TakesMore() always has something to do.
constexpr size_t kWriteBytesMax = 512 * 1024;
constexpr size_t kPartsPerWrite = 64;
// Most writes have no more parts. Clearing an array of kPartsPerWrite would take longer than filling it.
constexpr size_t kFewParts = 4;
// Beyond this, express messages wait in their queue, where they are counted, instead of side by side in our blocks.
constexpr size_t kExpressBytesMax = 1 << 20;

uint64_t CostOf(const Message& message) {
  size_t table = message.body.size() > 1 ? message.body.size() * sizeof(uint64_t) : 0;
  return wire::kHeaderBytes + table + message.head.size + TotalBytes(message.body);
}

}  // namespace

Sender::Sender(const Options& options, reactor::Reactor& home, transport::Connection& connection, const PeerInfo& peer,
               PipeStats& stats, reactor::Flushable* flushable)
    : options_(options),
      home_(home),
      peer_(peer),
      stats_(stats),
      flushable_(flushable),
      bulk_bytes_(std::min(connection.BulkBytes(), kExpressBytesMax)),
      queue_(options.queued_bytes_max),
      writer_(connection, home.now_ns()),
      frames_(writer_.queue(), options.limits.chunk_bytes_max) {}

// ---- its life ----

void Sender::AppendGreeting(ConstBytes bytes) {
  FUSEWIRE_CHECK(stage_ == Stage::kGreeting);
  CopyBytes(writer_.queue().Append(bytes.size), bytes);
}

void Sender::Open(uint32_t chunk_bytes, uint64_t window_bytes) {
  FUSEWIRE_CHECK(stage_ == Stage::kGreeting);
  frames_.SetChunkBytes(chunk_bytes);
  window_.Open(window_bytes);
  queue_.DemoteLongExpress(chunk_bytes);
  stage_ = Stage::kOpen;
}

void Sender::Stop(const Status& why) {
  FUSEWIRE_CHECK(!why.ok());
  FUSEWIRE_CHECK(stage_ < Stage::kStopped);
  stage_ = Stage::kStopped;
  why_stopped_ = why;
}

void Sender::End(const Status& why) {
  FUSEWIRE_CHECK(!why.ok());
  FUSEWIRE_CHECK(stage_ != Stage::kEnded);
  stage_ = Stage::kEnded;
  why_stopped_ = why;
  writer_.Fail(why);
  frames_.Fail(why);
  queue_.Fail(why);
}

// ---- messages ----

void Sender::Send(Message&& message, Done&& done) {
  FUSEWIRE_AT_HOME(home_);
  uint64_t cost = CostOf(message);
  if (cost > frames_.chunk_bytes()) message.express = false;
  Status refusal = WhyNot(message);
  const bool at_once = message.express ? stage_ == Stage::kOpen && !queue_.has_express() &&
                                             writer_.bytes() < kExpressBytesMax && window_.CanSend(cost)
                                       : cost > frames_.chunk_bytes() && BeginsAtOnce(cost);
  if (refusal.ok() && at_once) {
    FlushSoon();
    ConstBytes head = message.head;
    Begin(&message, head, std::move(done));
    return;
  }
  if (refusal.ok() && !HasRoom(message.head.size)) {
    refusal = Status::Overloaded("the peer does not take messages as fast as they come")
                  .Phase("send")
                  .Next("send less at a time");
  }
  Buffer head = refusal.ok() ? Buffer::CopyOf(message.head) : Buffer();
  if (refusal.ok() && head.size() != message.head.size) {
    refusal = Status::Overloaded("no memory for the message's head").Phase("send");
  }
  if (!refusal.ok()) {
    message.body.clear();
    if (done) home_.Post([done = std::move(done), why = Describe(refusal)]() mutable { done(why); });
    return;
  }
  FlushSoon();
  message.head = head.bytes();
  queue_.Push(WaitingMessage{std::move(message), std::move(head), std::move(done), cost});
}

// Why this message cannot be taken at all, or ok.
Status Sender::WhyNot(const Message& message) const {
  if (stage_ >= Stage::kStopped) return why_stopped_;
  return CheckSize(message.head.size, message.body);
}

Status Sender::CheckSize(size_t head_bytes, const Buffers& body) const {
  const wire::Limits& limits = options_.limits;
  auto over = [](const char* field, uint64_t value, uint64_t limit) {
    return Status::Invalid(std::string(field) + " " + std::to_string(value) + ", limit " + std::to_string(limit))
        .Phase("send")
        .Next("send it in several messages, or raise the limit in all tasks");
  };
  if (body.size() > limits.segments_max) return over("segments", body.size(), limits.segments_max);
  uint64_t meta_bytes = wire::SegmentTableBytes(static_cast<uint16_t>(body.size())) + head_bytes;
  if (meta_bytes > limits.meta_bytes_max) return over("meta_bytes", meta_bytes, limits.meta_bytes_max);
  uint64_t body_bytes = TotalBytes(body);
  if (body_bytes > limits.body_bytes_max) return over("body_bytes", body_bytes, limits.body_bytes_max);
  return Status::Ok();
}

void Sender::Cancel(uint64_t call) {
  FUSEWIRE_AT_HOME(home_);
  if (std::optional<WaitingMessage> taken_back = queue_.TakeBack(call)) {
    if (taken_back->done) {
      Status why = Describe(Status::Cancelled("taken back before it was sent"));
      home_.Post([done = std::move(taken_back->done), why]() mutable { done(why); });
    }
    return;
  }
  if (stage_ == Stage::kOpen) AppendControl(wire::FrameKind::kCancel, 0, call);
}

bool Sender::GoesAtOnce(uint64_t cost) const { return cost <= frames_.chunk_bytes() && BeginsAtOnce(cost); }

bool Sender::BeginsAtOnce(uint64_t cost) const {
  const size_t ahead_max = cost > frames_.chunk_bytes() ? bulk_bytes_ : kExpressBytesMax;
  const bool idle = queue_.empty() && !frames_.has_chunks() && writer_.bytes() < ahead_max;
  return stage_ == Stage::kOpen && idle && window_.CanSend(cost + window_.set_aside());
}

void Sender::Begin(Message* message, ConstBytes head, Done&& done) {
  FUSEWIRE_DCHECK(stage_ == Stage::kOpen);
  window_.Take(frames_.AppendMessage(message, head, std::move(done)));
  stats_.messages_out.Add();
}

// ---- the pipe's own frames ----

void Sender::AppendControl(wire::FrameKind kind, uint32_t aux, uint64_t call, ConstBytes meta) {
  FUSEWIRE_DCHECK(stage_ == Stage::kOpen || kind == wire::FrameKind::kGoodbye);
  frames_.AppendControl(kind, aux, call, meta);
  stats_.frames_out.Add();
  FlushSoon();
}

Status Sender::OnCredit(uint64_t bytes) {
  FUSEWIRE_TRY(window_.OnCredit(bytes));
  FlushSoon();
  return Status::Ok();
}

void Sender::OnRecall() {
  give_back_ = true;
  FlushSoon();
}

// Answered when there is room to write, and only the last one: a peer that pings without reading must not fill our
// memory.
void Sender::OnPing(uint64_t call) {
  pong_ = call;
  FlushSoon();
}

// ---- writing ----

// Lines up what may go now.
void Sender::Pump() {
  FUSEWIRE_DCHECK(stage_ == Stage::kOpen);
  if (const auto pong = std::exchange(pong_, std::nullopt)) AppendControl(wire::FrameKind::kPong, 0, *pong);
  while (queue_.has_express() && writer_.bytes() < kExpressBytesMax && window_.CanSend(queue_.express_cost())) {
    WaitingMessage waiting = queue_.PopExpress();
    Begin(&waiting.message, waiting.head.bytes(), std::move(waiting.done));
  }
  // A control frame waits behind as much and one chunk, and over TCP behind what the kernels of both sides hold
  // (TcpOptions): together under 1 MiB; over shared memory the reader takes as much in a quarter of a millisecond.
  while (writer_.bytes() < bulk_bytes_) {
    if (frames_.has_chunks()) {
      frames_.AppendChunk();
      stats_.frames_out.Add();
      continue;
    }
    // We request the whole reserve. Half of it is enough to begin, so that the small messages since then do not
    // cost the next large one a round trip.
    if (!queue_.has_in_order() || !window_.CanSend(queue_.in_order_cost() + window_.set_aside() / 2)) break;
    WaitingMessage waiting = queue_.PopInOrder();
    Begin(&waiting.message, waiting.head.bytes(), std::move(waiting.done));
  }
  AskForCredit();
}

void Sender::AskForCredit() {
  // For exactly what goes next: a wish beyond that could keep others waiting, or be larger than the peer's budget
  // though no message is. A steady stream does not stop for it: it asks for the next message when one begins, and keeps
  // the larger window until others want it.
  uint64_t next = queue_.has_express() ? queue_.express_cost() : 0;
  if (queue_.has_in_order()) next += queue_.in_order_cost() + window_.set_aside();
  bool is_of_use = next > 0 && window_.CanSend(next);
  uint64_t back = give_back_ && !is_of_use ? window_.GiveBack() : 0;
  if (back > 0) AppendControl(wire::FrameKind::kReturn, 0, back);
  give_back_ = false;
  uint64_t position = 0;
  if (!window_.Want(next, &position)) return;
  AppendControl(wire::FrameKind::kWant, 0, position);
  if (next > 0 && !window_.CanSend(next)) stats_.credit_stalls.Add();
}

void Sender::Write() {
  FUSEWIRE_AT_HOME(home_);
  if (in_write_) return;
  in_write_ = true;
  while (stage_ != Stage::kEnded && writer_.TakesMore()) {
    if (stage_ == Stage::kOpen) Pump();
    if (!writer_.Write(home_.now_ns())) break;
  }
  in_write_ = false;
}

void Sender::OnWritten(size_t bytes) {
  stats_.bytes_out.Add(bytes);
  writer_.OnWritten(bytes);
  if (!in_write_) Write();
}

void Sender::Rest() { give_back_ |= queue_.empty(); }

void Sender::Trim() {
  writer_.queue().Trim();
  queue_.Trim();
}

// ---- the connection ----

bool ConnectionWriter::Write(int64_t now_ns) {
  return queue_.parts() <= kFewParts ? WriteParts<kFewParts>(now_ns) : WriteParts<kPartsPerWrite>(now_ns);
}

template <size_t kParts>
bool ConnectionWriter::WriteParts(int64_t now_ns) {
  ConstBytes parts[kParts];
  const size_t count = queue_.Offer(parts, kParts, kWriteBytesMax);
  if (count == 0) return false;
  ++writes_;
  wrote_ns_ = now_ns;
  connection_.Write(parts, count);  // which may be answered, or end the pipe, before it returns
  return true;
}

void ConnectionWriter::OnWritten(size_t bytes) {
  FUSEWIRE_CHECK(writes_ > 0);
  if (--writes_ == 0) queue_.TakeBackOffers();
  queue_.Written(bytes);
}

void ConnectionWriter::Fail(const Status& why) {
  writes_ = 0;
  queue_.Fail(why);
}

// ---- messages that wait ----

void SendQueue::Push(WaitingMessage waiting) {
  FUSEWIRE_DCHECK(waiting.message.head.data == waiting.head.bytes().data);
  FUSEWIRE_DCHECK(HasRoom(waiting.head.size()));
  bytes_ += BytesOf(waiting.head.size());
  (waiting.message.express ? express_ : in_order_).Push(std::move(waiting));
}

WaitingMessage SendQueue::Pop(Fifo<WaitingMessage>* queue) {
  FUSEWIRE_DCHECK(!queue->empty());
  WaitingMessage waiting = queue->Pop();
  FUSEWIRE_DCHECK(BytesOf(waiting.head.size()) <= bytes_);
  bytes_ -= BytesOf(waiting.head.size());
  return waiting;
}

void SendQueue::DemoteLongExpress(uint32_t chunk_bytes) {
  Fifo<WaitingMessage> express;
  std::swap(express, express_);
  for (WaitingMessage& waiting : express) {
    (waiting.cost > chunk_bytes ? in_order_ : express_).Push(std::move(waiting));
  }
}

std::optional<WaitingMessage> SendQueue::TakeBack(uint64_t call) {
  for (Fifo<WaitingMessage>* queue : {&express_, &in_order_}) {
    WaitingMessage* found = std::find_if(queue->begin(), queue->end(), [call](const WaitingMessage& waiting) {
      return waiting.message.kind == wire::FrameKind::kCall && waiting.message.call == call;
    });
    if (found == queue->end()) continue;
    WaitingMessage taken_back = queue->Take(found);
    FUSEWIRE_CHECK(BytesOf(taken_back.head.size()) <= bytes_);
    bytes_ -= BytesOf(taken_back.head.size());
    return taken_back;
  }
  return std::nullopt;
}

void SendQueue::Fail(const Status& why) {
  for (Fifo<WaitingMessage>* queue : {&express_, &in_order_}) {
    while (!queue->empty()) {
      WaitingMessage waiting = Pop(queue);
      waiting.message.body.clear();
      if (waiting.done) waiting.done(why);
    }
  }
  FUSEWIRE_CHECK(bytes_ == 0);
}

void SendQueue::Trim() {
  express_.Trim();
  in_order_.Trim();
}

}  // namespace fusewire::pipe
