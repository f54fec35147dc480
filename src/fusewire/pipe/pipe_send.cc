// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a pipe sends, and in which order: its own frames and express messages at once, the rest chunk by chunk.
#include <algorithm>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/pipe/pipe.h"

namespace fusewire {
namespace pipe {
namespace {

// Up to this a segment is copied beside its header: cheaper than one more part for the kernel to look at.
constexpr size_t kCopySegmentBytes = 512;
// The half of what is under way where most is: so a connection that TakesMore() always has something to do.
constexpr size_t kWriteBytesMax = 512 * 1024;
// How often a peer that waits for our budget is looked at again.
constexpr int64_t kRegrantNs = 2 * kMillisecondNs;
// How often a pipe that holds a share of the budget looks whether others wait for it.
constexpr int64_t kRecallNs = 20 * kMillisecondNs;
// For how many times silent_ns_max a peer may ignore it. More than one: it may be a while before it hears of it.
constexpr int64_t kRecallSilences = 3;
// A peer that sends as much after a recall is using its credit. Heartbeats are less.
constexpr uint64_t kRecallProgressBytes = 4096;

uint64_t CostOf(const Message& message) {
  size_t table = message.body.size() > 1 ? message.body.size() * sizeof(uint64_t) : 0;
  return wire::kHeaderBytes + table + message.head.size + TotalBytes(message.body);
}

}  // namespace

void Pipe::Send(Message message, Done done) {
  FUSEWIRE_AT_HOME(home_);
  uint64_t cost = CostOf(message);
  if (cost > chunk_bytes_) message.express = false;
  std::deque<Waiting>& queue = message.express ? express_ : in_order_;
  Status refusal = WhyNot(message);
  bool at_once = message.express && open() && queue.empty() && out_.bytes() < kExpressBytesMax;
  if (refusal.ok() && at_once && send_window_.CanSend(cost)) {
    home_.FlushLater(this);
    ConstBytes head = message.head;
    Encode(&message, head, std::move(done));
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
  home_.FlushLater(this);
  queued_bytes_ += QueuedBytes(head.size());
  message.head = head.bytes();
  queue.push_back(Waiting{std::move(message), std::move(head), std::move(done), cost});
}

// Why this message cannot be taken at all, or ok.
Status Pipe::WhyNot(const Message& message) const {
  if (state_ == State::kClosed || state_ == State::kSayingGoodbye) return why_closing_;
  return CheckSize(message.head.size, message.body);
}

Status Pipe::CheckSize(size_t head_bytes, const Buffers& body) const {
  const wire::Limits& limits = shared_.options().limits;
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

// The peer wants smaller chunks than we would take: what is longer now goes the long way.
void Pipe::DemoteLongExpress() {
  std::deque<Waiting> express;
  express.swap(express_);
  for (Waiting& waiting : express) {
    (waiting.cost > chunk_bytes_ ? in_order_ : express_).push_back(std::move(waiting));
  }
}

void Pipe::Cancel(uint64_t call) {
  FUSEWIRE_AT_HOME(home_);
  for (std::deque<Waiting>* queue : {&express_, &in_order_}) {
    auto found = std::find_if(queue->begin(), queue->end(), [call](const Waiting& waiting) {
      return waiting.message.kind == wire::FrameKind::kCall && waiting.message.call == call;
    });
    if (found == queue->end()) continue;
    Waiting taken_back = std::move(*found);
    queue->erase(found);
    queued_bytes_ -= QueuedBytes(taken_back.head.size());
    if (taken_back.done) {
      Status why = Describe(Status::Cancelled("taken back before it was sent"));
      home_.Post([done = std::move(taken_back.done), why]() mutable { done(why); });
    }
    return;
  }
  if (open()) AppendControl(wire::FrameKind::kCancel, 0, call);
}

void Pipe::AppendControl(wire::FrameKind kind, uint32_t aux, uint64_t call, ConstBytes meta) {
  wire::FrameHeader header;
  header.kind = kind;
  header.aux = aux;
  header.call = call;
  header.meta_bytes = static_cast<uint32_t>(meta.size);
  header.sequence = sequence_++;
  Bytes room = out_.Append(wire::kHeaderBytes + meta.size);
  wire::EncodeHeader(header, meta, room);
  CopyBytes(room.From(wire::kHeaderBytes), meta);
  stats_.frames_out.Add();
  home_.FlushLater(this);
}

// Header, segment table and head side by side in a block; then the body, or its first chunk.
void Pipe::Encode(Message* message, ConstBytes head, Done done) {
  auto segments = static_cast<uint16_t>(message->body.size());
  size_t table_bytes = wire::SegmentTableBytes(segments);
  wire::FrameHeader header;
  header.kind = message->kind;
  header.method = message->method;
  header.segments = segments;
  header.aux = message->aux;
  header.meta_bytes = static_cast<uint32_t>(table_bytes + head.size);
  header.call = message->call;
  header.body_bytes = TotalBytes(message->body);
  header.sequence = sequence_++;
  send_window_.Take(WindowCost(header));
  Bytes room = out_.Append(wire::kHeaderBytes + header.meta_bytes);
  Bytes meta = room.From(wire::kHeaderBytes);
  for (uint16_t i = 0; table_bytes > 0 && i < segments; ++i) wire::EncodeSegmentBytes(message->body[i].size(), i, meta);
  CopyBytes(meta.From(table_bytes), head);
  wire::EncodeHeader(header, meta, room);
  stats_.messages_out.Add();
  if (header.body_bytes == 0) {
    if (done) out_.AppendEnd(std::move(message->body), std::move(done));
    return;
  }
  LongSend send{std::move(message->body), std::move(done), 0, 0, header.body_bytes};
  AppendBody(&send, std::min<uint64_t>(send.left, chunk_bytes_));
  if (send.left == 0) {
    out_.AppendEnd(std::move(send.body), std::move(send.done));
  } else {
    long_ = std::move(send);
  }
}

void Pipe::AppendBody(LongSend* send, uint64_t bytes) {
  send->left -= bytes;
  while (bytes > 0) {
    Bytes segment = send->body[send->index].bytes().From(send->offset);
    auto size = static_cast<size_t>(std::min<uint64_t>(segment.size, bytes));
    if (size == 0) {
      // An empty segment takes no place.
    } else if (size <= kCopySegmentBytes) {
      CopyBytes(out_.Append(size), segment.Sub(0, size));
    } else {
      out_.AppendReference(segment.Sub(0, size));
    }
    send->offset += size;
    bytes -= size;
    if (send->offset == send->body[send->index].size()) {
      ++send->index;
      send->offset = 0;
    }
  }
}

void Pipe::AppendChunk() {
  wire::FrameHeader header;
  header.kind = wire::FrameKind::kChunk;
  header.body_bytes = std::min<uint64_t>(long_.left, chunk_bytes_);
  header.sequence = sequence_++;
  wire::EncodeHeader(header, ConstBytes(), out_.Append(wire::kHeaderBytes));
  AppendBody(&long_, header.body_bytes);
  stats_.frames_out.Add();
  if (long_.left > 0) return;
  out_.AppendEnd(std::move(long_.body), std::move(long_.done));
  long_ = LongSend();
}

bool Pipe::GoesAtOnce(uint64_t cost) const {
  const bool idle = express_.empty() && in_order_.empty() && long_.left == 0 && out_.bytes() < kExpressBytesMax;
  return open() && idle && cost <= chunk_bytes_ && send_window_.CanSend(cost + send_window_.set_aside());
}

// Lines up what may go now.
void Pipe::Pump() {
  if (std::exchange(pong_due_, false)) AppendControl(wire::FrameKind::kPong, 0, pong_call_);
  while (!express_.empty() && out_.bytes() < kExpressBytesMax && send_window_.CanSend(express_.front().cost)) {
    Waiting waiting = std::move(express_.front());
    express_.pop_front();
    queued_bytes_ -= QueuedBytes(waiting.head.size());
    Encode(&waiting.message, waiting.head.bytes(), std::move(waiting.done));
  }
  // A control frame waits behind as much and one chunk, and over TCP behind what the kernels of both sides hold
  // (TcpOptions): together under 1 MiB; over shared memory the reader takes as much in a quarter of a millisecond.
  while (out_.bytes() < bulk_bytes_) {
    if (long_.left > 0) {
      AppendChunk();
      continue;
    }
    if (in_order_.empty() || !send_window_.CanSend(in_order_.front().cost + send_window_.set_aside())) break;
    Waiting waiting = std::move(in_order_.front());
    in_order_.pop_front();
    queued_bytes_ -= QueuedBytes(waiting.head.size());
    Encode(&waiting.message, waiting.head.bytes(), std::move(waiting.done));
  }
  AskForCredit();
}

void Pipe::AskForCredit() {
  // For exactly what goes next: a wish beyond that could keep others waiting, or be larger than the peer's budget
  // though no message is. A steady stream does not stop for it: it asks for the next message when one begins, and keeps
  // the larger window for as long as nobody else wants it.
  uint64_t next = express_.empty() ? 0 : express_.front().cost;
  if (!in_order_.empty()) next += in_order_.front().cost + send_window_.set_aside();
  bool is_of_use = next > 0 && send_window_.CanSend(next);
  uint64_t back = give_back_ && !is_of_use ? send_window_.GiveBack() : 0;
  if (back > 0) AppendControl(wire::FrameKind::kReturn, 0, back);
  give_back_ = false;
  uint64_t position = 0;
  if (!send_window_.Want(next, &position)) return;
  AppendControl(wire::FrameKind::kWant, 0, position);
  if (next > 0 && !send_window_.CanSend(next)) stats_.credit_stalls.Add();
}

void Pipe::SendGrant() {
  uint64_t grant = receive_window_.TakeGrant();
  if (grant > 0) AppendControl(wire::FrameKind::kCredit, 0, grant);
  if (receive_window_.reserved_bytes() > 0 && !recall_.armed()) home_.Arm(&recall_, kRecallNs);
  if (!receive_window_.waiting() || again_.armed()) return;
  stats_.budget_stalls.Add();
  home_.Arm(&again_, kRegrantNs);
}

void Pipe::RecallIfWanted() {
  int64_t now_ns = home_.now_ns();
  if (!receive_window_.ShouldRecall()) {
    recalled_ns_ = 0;
  } else {
    bool in_use = stats_.bytes_in.Read() - bytes_in_at_recall_ >= kRecallProgressBytes;
    if (recalled_ns_ == 0 || in_use) {
      recalled_ns_ = now_ns;
      bytes_in_at_recall_ = stats_.bytes_in.Read();
    }
    if (now_ns - recalled_ns_ >= kRecallSilences * shared_.options().silent_ns_max) {
      Close(Status::Overloaded("the peer neither uses nor gives back credit that others wait for")
                .Phase("recalling credit")
                .AgeMs((now_ns - recalled_ns_) / kMillisecondNs)
                .Next("look at the peer: it may be overloaded, or not ours"));
      return;
    }
    AppendControl(wire::FrameKind::kRecall, 0, 0);  // again and again: what it cannot give now it may give soon
  }
  if (receive_window_.reserved_bytes() > 0) home_.Arm(&recall_, kRecallNs);
}

void Pipe::Flush() {
  if (state_ == State::kClosed) return;
  if (open()) SendGrant();
  Write();
}

void Pipe::Write() {
  if (in_flush_) return;
  in_flush_ = true;
  while (state_ != State::kClosed && (writes_ == 0 || connection_->TakesMore())) {
    if (open()) Pump();
    size_t count = out_.Offer(parts_, kPartsPerWrite, kWriteBytesMax);
    if (count == 0) break;
    ++writes_;
    said_ns_ = home_.now_ns();
    connection_->Write(parts_, count);
  }
  in_flush_ = false;
  FinishGoodbye();
}

void Pipe::OnWritten(size_t bytes) {
  stats_.bytes_out.Add(bytes);
  if (--writes_ == 0) out_.TakeBackOffers();
  out_.Written(bytes);
  if (!in_flush_) Write();
}

}  // namespace pipe
}  // namespace fusewire
