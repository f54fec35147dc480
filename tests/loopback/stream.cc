// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "loopback/stream.h"

#include <algorithm>
#include <cerrno>

#include "fusewire/base/check.h"

namespace fusewire::transport {

// ---- the sender's end ----

size_t Stream::Room() const {
  size_t limit = faults().send_buffer_bytes;
  return ended_by_sender_ || silent_ || line_.bytes() >= limit ? 0 : limit - line_.bytes();
}

void Stream::Send(std::vector<uint8_t> bytes) {
  FUSEWIRE_CHECK(!ended_by_sender_);
  if (!faults().split) {
    PutWithFaults(std::move(bytes));
    return;
  }
  for (size_t at = 0; at < bytes.size() && !ended_by_sender_;) {
    size_t part = network_->RandomLength(bytes.size() - at, faults());
    auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    PutWithFaults(std::vector<uint8_t>(begin, begin + static_cast<std::ptrdiff_t>(part)));
    at += part;
  }
}

void Stream::PutWithFaults(std::vector<uint8_t> bytes) {
  const LoopbackFaults& how = faults();
  Random& random = network_->random();
  if (random.Chance(how.cut_chance)) {
    Reset(true);
    // shared_ptr: the other direction may have been let go by both ends.
    if (std::shared_ptr<Stream> reverse = reverse_.lock()) reverse->Reset(true);
    return;
  }
  if (random.Chance(how.corrupt_chance)) {
    bytes[random.Below(bytes.size())] ^= static_cast<uint8_t>(1U << random.Below(8));
  }
  if (random.Chance(how.drop_chance)) return;
  if (random.Chance(how.duplicate_chance)) Put(bytes, Ending::kNone);
  Put(std::move(bytes), Ending::kNone);
}

void Stream::Put(std::vector<uint8_t> bytes, Ending ending) {
  const int64_t due_ns = line_.Put({0, std::move(bytes), ending}, faults(), network_);
  network_->At(due_ns, [self = shared_from_this()] { self->Pump(); });
}

int64_t Line::Put(Chunk chunk, const LoopbackFaults& how, Network* network) {
  int64_t leaves_ns = std::max(network->now_ns(), free_ns_);
  if (how.bytes_per_second > 0) {
    leaves_ns += static_cast<int64_t>(static_cast<double>(chunk.bytes.size()) /
                                      static_cast<double>(how.bytes_per_second) * static_cast<double>(kSecondNs));
  }
  free_ns_ = leaves_ns;
  auto latency_ns = static_cast<int64_t>(
      network->random().Between(static_cast<uint64_t>(how.latency_ns_min),
                                static_cast<uint64_t>(std::max(how.latency_ns_min, how.latency_ns_max))));
  chunk.due_ns = last_due_ns_ = std::max(last_due_ns_, leaves_ns + latency_ns);
  bytes_ += chunk.bytes.size();
  chunks_.push_back(std::move(chunk));
  return last_due_ns_;
}

Line::Chunk Line::Pop() {
  Chunk chunk = std::move(chunks_.front());
  chunks_.pop_front();
  bytes_ -= chunk.bytes.size();
  return chunk;
}

void Line::Clear() {
  chunks_.clear();
  bytes_ = 0;
  free_ns_ = 0;
}

void Stream::Finish() {
  if (ended_by_sender_ || silent_) return;
  ended_by_sender_ = true;
  Put({}, Ending::kFinished);
}

void Stream::Reset(bool at_once) {
  if (arrived_ending_ != Ending::kNone) return;
  if (at_once || lost_) {
    line_.Clear();
    lost_ = false;
  } else if (ended_by_sender_ && !line_.empty()) {
    return;  // the end is in flight already
  }
  ended_by_sender_ = true;
  Put({}, Ending::kReset);
}

// ---- the path ----

void Stream::Pump() {
  size_t before = line_.bytes();
  bool arrived = false;
  while (ArriveOne()) arrived = true;
  if (line_.bytes() < before && on_room_) on_room_();
  if (arrived && on_readable_) on_readable_();
}

bool Stream::ArriveOne() {
  if (!line_.IsDue(network_->now_ns())) return false;
  const LoopbackFaults& how = faults();
  if (how.clogged || lost_) return false;
  if (how.lost || to_->fate == Host::Fate::kSilent) {
    Lose();
    return false;
  }
  bool full = readable() > 0 && readable() + line_.front().bytes.size() > how.receive_buffer_bytes;
  if (full) return false;
  Line::Chunk chunk = line_.Pop();
  network_->AddToFingerprint(chunk.bytes.size() ^ (chunk.bytes.empty() ? 256U : chunk.bytes[0]));
  if (deaf_ || to_->fate == Host::Fate::kAnswersForTheDead) {
    if (!chunk.bytes.empty()) AnswerWithReset();
    return true;
  }
  if (chunk.ending != Ending::kNone) {
    arrived_ending_ = chunk.ending;
  } else {
    received_.Push(std::move(chunk.bytes));
  }
  return true;
}

// Lost bytes are never acknowledged: the sender's buffer fills, and after a while its kernel gives up.
void Stream::Lose() {
  lost_ = true;
  network_->At(network_->now_ns() + faults().user_timeout_ns, [self = shared_from_this()] {
    if (!self->lost_ || self->line_.bytes() == 0) return;
    self->failure_ = Status::FromErrno(Code::kUnavailable, "send", ETIMEDOUT);
    if (self->on_room_) self->on_room_();
  });
}

void Stream::AnswerWithReset() {
  // shared_ptr: the other direction may have been let go by both ends.
  if (std::shared_ptr<Stream> reverse = reverse_.lock()) reverse->Reset(false);
}

void Stream::AnswerForTheDead() {
  if (lost_ && line_.bytes() > 0) {
    // The sender's retransmissions get their answer now.
    // shared_ptr: the other direction may have been let go by both ends.
    if (std::shared_ptr<Stream> reverse = reverse_.lock()) reverse->Reset(true);
  }
  lost_ = false;
  Pump();
}

// ---- the receiver's end ----

void Stream::Read(Bytes into) {
  received_.Read(into);
  Pump();  // there is room again
}

void Stream::StopReading() {
  deaf_ = true;
  received_.Clear();
  Pump();
}

void ReceiveBuffer::Push(std::vector<uint8_t> bytes) {
  size_ += bytes.size();
  pieces_.push_back(std::move(bytes));
}

void ReceiveBuffer::Clear() {
  pieces_.clear();
  read_of_first_ = 0;
  size_ = 0;
}

void ReceiveBuffer::Read(Bytes into) {
  FUSEWIRE_CHECK(into.size <= size_);
  size_ -= into.size;
  while (!into.empty()) {
    const std::vector<uint8_t>& first = pieces_.front();
    size_t part = std::min(into.size, first.size() - read_of_first_);
    std::copy_n(first.data() + read_of_first_, part, into.data);
    into = into.From(part);
    read_of_first_ += part;
    if (read_of_first_ == first.size()) {
      pieces_.pop_front();
      read_of_first_ = 0;
    }
  }
}

// ---- all of them ----

Streams::Pair Streams::Connect(Host* one, Host* other) {
  // shared_ptr: each end, the other direction and pending events hold a stream, and any of them may be the last.
  auto there = std::make_shared<Stream>(&network_, one, other);
  // shared_ptr: as above.
  auto back = std::make_shared<Stream>(&network_, other, one);
  there->set_reverse(back);
  back->set_reverse(there);
  streams_.push_back(there);
  streams_.push_back(back);
  return {std::move(there), std::move(back)};
}

std::vector<std::shared_ptr<Stream>> Streams::InUse() {
  // shared_ptr: the callee may release the last other reference.
  std::vector<std::shared_ptr<Stream>> alive;
  std::vector<std::weak_ptr<Stream>> still;
  for (const auto& stream : streams_) {
    if (auto held = stream.lock()) {
      alive.push_back(std::move(held));
      still.push_back(stream);
    }
  }
  streams_ = std::move(still);
  return alive;
}

void Streams::PumpAll() {
  for (const auto& stream : InUse()) stream->Pump();
}

}  // namespace fusewire::transport
