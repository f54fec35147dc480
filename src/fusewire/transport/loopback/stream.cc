// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/loopback/stream.h"

#include <algorithm>
#include <cerrno>

#include "fusewire/base/check.h"

namespace fusewire::transport {

// ---- the sender's end ----

size_t Stream::Room() const {
  size_t limit = faults().send_buffer_bytes;
  return ended_by_sender_ || silent_ || bytes_on_the_way_ >= limit ? 0 : limit - bytes_on_the_way_;
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
  if (random.Chance(how.duplicate_chance)) Put({0, bytes, Ending::kNone});
  Put({0, std::move(bytes), Ending::kNone});
}

void Stream::Put(Chunk chunk) {
  const LoopbackFaults& how = faults();
  int64_t leaves_ns = std::max(network_->now_ns(), line_free_ns_);
  if (how.bytes_per_second > 0) {
    leaves_ns += static_cast<int64_t>(static_cast<double>(chunk.bytes.size()) /
                                      static_cast<double>(how.bytes_per_second) * static_cast<double>(kSecondNs));
  }
  line_free_ns_ = leaves_ns;
  auto latency_ns = static_cast<int64_t>(
      network_->random().Between(static_cast<uint64_t>(how.latency_ns_min),
                                 static_cast<uint64_t>(std::max(how.latency_ns_min, how.latency_ns_max))));
  chunk.due_ns = last_due_ns_ = std::max(last_due_ns_, leaves_ns + latency_ns);
  bytes_on_the_way_ += chunk.bytes.size();
  network_->At(chunk.due_ns, [self = shared_from_this()] { self->Pump(); });
  on_the_way_.push_back(std::move(chunk));
}

void Stream::Finish() {
  if (ended_by_sender_ || silent_) return;
  ended_by_sender_ = true;
  Put({0, {}, Ending::kFinished});
}

void Stream::Reset(bool at_once) {
  if (arrived_ending_ != Ending::kNone) return;
  if (at_once || lost_) {
    on_the_way_.clear();
    bytes_on_the_way_ = 0;
    line_free_ns_ = 0;
    lost_ = false;
  } else if (ended_by_sender_ && !on_the_way_.empty()) {
    return;  // the end is in flight already
  }
  ended_by_sender_ = true;
  Put({0, {}, Ending::kReset});
}

// ---- the path ----

void Stream::Pump() {
  size_t before = bytes_on_the_way_;
  bool arrived = false;
  while (ArriveOne()) arrived = true;
  if (bytes_on_the_way_ < before && on_room_) on_room_();
  if (arrived && on_readable_) on_readable_();
}

bool Stream::ArriveOne() {
  if (on_the_way_.empty() || on_the_way_.front().due_ns > network_->now_ns()) return false;
  const LoopbackFaults& how = faults();
  if (how.clogged || lost_) return false;
  if (how.lost || to_->fate == Host::Fate::kSilent) {
    Lose();
    return false;
  }
  bool full = readable_ > 0 && readable_ + on_the_way_.front().bytes.size() > how.receive_buffer_bytes;
  if (full) return false;
  Chunk chunk = std::move(on_the_way_.front());
  on_the_way_.pop_front();
  bytes_on_the_way_ -= chunk.bytes.size();
  network_->AddToFingerprint(chunk.bytes.size() ^ (chunk.bytes.empty() ? 256U : chunk.bytes[0]));
  if (deaf_ || to_->fate == Host::Fate::kAnswersForTheDead) {
    if (!chunk.bytes.empty()) AnswerWithReset();
    return true;
  }
  if (chunk.ending != Ending::kNone) {
    arrived_ending_ = chunk.ending;
  } else {
    readable_ += chunk.bytes.size();
    received_.push_back(std::move(chunk.bytes));
  }
  return true;
}

// Lost bytes are never acknowledged: the sender's buffer fills, and after a while its kernel gives up.
void Stream::Lose() {
  lost_ = true;
  network_->At(network_->now_ns() + faults().user_timeout_ns, [self = shared_from_this()] {
    if (!self->lost_ || self->bytes_on_the_way_ == 0) return;
    self->failure_ = Status::FromErrno(Code::kUnavailable, "send", ETIMEDOUT);
    if (self->on_room_) self->on_room_();
  });
}

void Stream::AnswerWithReset() {
  // shared_ptr: the other direction may have been let go by both ends.
  if (std::shared_ptr<Stream> reverse = reverse_.lock()) reverse->Reset(false);
}

void Stream::AnswerForTheDead() {
  if (lost_ && bytes_on_the_way_ > 0) {
    // The sender's retransmissions get their answer now.
    // shared_ptr: the other direction may have been let go by both ends.
    if (std::shared_ptr<Stream> reverse = reverse_.lock()) reverse->Reset(true);
  }
  lost_ = false;
  Pump();
}

// ---- the receiver's end ----

void Stream::Read(Bytes into) {
  FUSEWIRE_CHECK(into.size <= readable_);
  readable_ -= into.size;
  while (!into.empty()) {
    const std::vector<uint8_t>& first = received_.front();
    size_t part = std::min(into.size, first.size() - read_of_first_);
    std::copy_n(first.data() + read_of_first_, part, into.data);
    into = into.From(part);
    read_of_first_ += part;
    if (read_of_first_ == first.size()) {
      received_.pop_front();
      read_of_first_ = 0;
    }
  }
  Pump();  // there is room again
}

void Stream::StopReading() {
  deaf_ = true;
  received_.clear();
  readable_ = 0;
  Pump();
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
