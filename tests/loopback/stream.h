// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One direction of a loopback connection: a send buffer, the path, and a receive buffer.
//   Send -> [ chunk | chunk | ... ]  -- latency, bandwidth, faults -->  [ received bytes ] -> Read
//             counted against send_buffer_bytes                          bounded by receive_buffer_bytes
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "loopback/network.h"

namespace fusewire::transport {

// How a stream ends for its receiver.
enum class StreamEnding { kNone, kFinished, kReset };

// The chunks on the way: each leaves when the line is free, is due some latency later, and never overtakes another.
class Line {
 public:
  struct Chunk {
    int64_t due_ns = 0;
    std::vector<uint8_t> bytes;
    StreamEnding ending = StreamEnding::kNone;
  };

  // Returns when it is due.
  int64_t Put(Chunk chunk, const LoopbackFaults& how, Network* network);
  bool IsDue(int64_t now_ns) const { return !chunks_.empty() && chunks_.front().due_ns <= now_ns; }
  const Chunk& front() const { return chunks_.front(); }
  Chunk Pop();
  // What was on the way is lost.
  void Clear();
  bool empty() const { return chunks_.empty(); }
  size_t bytes() const { return bytes_; }

 private:
  std::deque<Chunk> chunks_;
  size_t bytes_ = 0;
  int64_t last_due_ns_ = 0;
  int64_t free_ns_ = 0;
};

// Bytes that have arrived and were not read yet.
class ReceiveBuffer {
 public:
  void Push(std::vector<uint8_t> bytes);
  // Fills all of `into`, whose size is at most size().
  void Read(Bytes into);
  void Clear();
  size_t size() const { return size_; }

 private:
  std::deque<std::vector<uint8_t>> pieces_;
  size_t read_of_first_ = 0;
  size_t size_ = 0;
};

// shared_ptr from this: a pending event may outlive both ends.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Ending = StreamEnding;

  Stream(Network* network, Host* from, Host* to) : network_(network), from_(from), to_(to) {}
  void set_reverse(const std::weak_ptr<Stream>& reverse) { reverse_ = reverse; }
  Host* from() const { return from_; }
  Host* to() const { return to_; }
  const LoopbackFaults& faults() const { return network_->FaultsBetween(from_->name, to_->name); }

  // The sender's end. The number of bytes that it may Send now; 0 once the stream has ended.
  size_t Room() const;
  void Send(std::vector<uint8_t> bytes);
  void Finish();
  // The receiver gets an error. `at_once`: bytes in flight are lost.
  void Reset(bool at_once);
  // The sender is gone; its bytes in flight still arrive.
  void FallSilent() { silent_ = true; }
  // Why the sender's kernel closed the stream; ok if it has not.
  const Status& failure() const { return failure_; }

  // The receiver's end.
  size_t readable() const { return received_.size(); }
  // Fills all of `into`, whose size is at most readable().
  void Read(Bytes into);
  // Not kNone: the end has arrived, and all bytes before it have been read.
  Ending ending() const { return readable() == 0 ? arrived_ending_ : Ending::kNone; }
  // Bytes that arrive from now on are answered with a reset.
  void StopReading();

  // Called outside or inside of any home: each callback posts. Null: none.
  void set_on_room(UniqueFunction<void()> on_room) { on_room_ = std::move(on_room); }
  void set_on_readable(UniqueFunction<void()> on_readable) { on_readable_ = std::move(on_readable); }

  // Delivers the bytes that can arrive now.
  void Pump();
  // A restarted host does not know this stream: it answers retransmissions with a reset.
  void AnswerForTheDead();

 private:
  void Put(std::vector<uint8_t> bytes, Ending ending);
  void PutWithFaults(std::vector<uint8_t> bytes);
  bool ArriveOne();
  void Lose();
  void AnswerWithReset();

  Network* const network_;
  Host* const from_;
  Host* const to_;
  std::weak_ptr<Stream> reverse_;
  Line line_;
  bool ended_by_sender_ = false;
  bool silent_ = false;
  bool deaf_ = false;  // the receiver has closed
  bool lost_ = false;  // bytes were lost: nothing arrives any more
  Status failure_;
  ReceiveBuffer received_;
  Ending arrived_ending_ = Ending::kNone;
  UniqueFunction<void()> on_room_, on_readable_;
};

// The streams between the hosts of a loopback network, as long as they are in use. Owns no stream: their ends and
// pending events do.
class Streams {
 public:
  explicit Streams(Network* network) : network_(*network) {}

  // Two streams that belong together: from `one` to `other`, and back.
  using Pair = std::pair<std::shared_ptr<Stream>, std::shared_ptr<Stream>>;
  Pair Connect(Host* one, Host* other);
  // In the order in which they were made.
  std::vector<std::shared_ptr<Stream>> InUse();
  // Delayed bytes may be due now.
  void PumpAll();

 private:
  Network& network_;
  std::vector<std::weak_ptr<Stream>> streams_;
};

}  // namespace fusewire::transport
