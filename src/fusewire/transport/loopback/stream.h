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
#include "fusewire/transport/loopback/network.h"

namespace fusewire::transport {

// shared_ptr from this: a pending event may outlive both ends.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Ending { kNone, kFinished, kReset };

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
  size_t readable() const { return readable_; }
  // Fills all of `into`, whose size is at most readable().
  void Read(Bytes into);
  // Not kNone: the end has arrived, and all bytes before it have been read.
  Ending ending() const { return readable_ == 0 ? arrived_ending_ : Ending::kNone; }
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
  struct Chunk {
    int64_t due_ns = 0;
    std::vector<uint8_t> bytes;
    Ending ending = Ending::kNone;
  };

  void Put(Chunk chunk);
  void PutWithFaults(std::vector<uint8_t> bytes);
  bool ArriveOne();
  void Lose();
  void AnswerWithReset();

  Network* const network_;
  Host* const from_;
  Host* const to_;
  std::weak_ptr<Stream> reverse_;
  std::deque<Chunk> on_the_way_;
  size_t bytes_on_the_way_ = 0;
  int64_t last_due_ns_ = 0;
  int64_t line_free_ns_ = 0;
  bool ended_by_sender_ = false;
  bool silent_ = false;
  bool deaf_ = false;  // the receiver has closed
  bool lost_ = false;  // bytes were lost: nothing arrives any more
  Status failure_;
  std::deque<std::vector<uint8_t>> received_;
  size_t read_of_first_ = 0;  // bytes of received_.front() that have been read
  size_t readable_ = 0;
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
