// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One end of a connection in a test: sends bytes, checks received ones, and verifies that the transport keeps its
// contract. Home: the connection's; what is atomic may be read from the test's thread. Fails: with fault().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// The byte at `offset` of a long text that both ends know.
inline uint8_t PatternAt(uint64_t offset) {
  uint64_t mixed = (offset / 8 + 1) * 0x9e3779b97f4a7c15ULL;
  return static_cast<uint8_t>((mixed ^ mixed >> 29) >> (offset % 8 * 8));
}

class Talker final : public ConnectionHandler {
 public:
  struct Manner {
    size_t block_bytes_max = 256 * 1024;  // the size of one Write
    size_t parts_max = 8;                 // in so many parts
    size_t landing_bytes_max = 64 * 1024;
    size_t look_ahead_max = 4096;
    bool landing = true;    // false: everything comes through OnBytes
    bool keep_text = true;  // for short talks: text() holds what was heard
  };

  Talker(uint64_t seed, Manner manner) : random_(seed), manner_(manner) {}
  explicit Talker(uint64_t seed) : Talker(seed, Manner()) {}

  // At home.
  void Meet(std::unique_ptr<Connection> connection) {
    connection_ = std::move(connection);
    inside_ = true;
    connection_->Start(this);
    inside_ = false;
    Push();
  }
  void Say(const std::string& text) {
    blocks_.emplace_back(text.begin(), text.end());
    Push();
  }
  // Sends the next `bytes` bytes of the common text.
  void SayPattern(uint64_t bytes) {
    pattern_left_ += bytes;
    Push();
  }
  // Once everything is sent.
  void CloseWhenSaid() {
    close_when_said_ = true;
    Push();
  }
  // Counts in `delivered` once all that was said has arrived.
  void AwaitDelivered() {
    bool outer = std::exchange(inside_, true);
    if (connection_->Delivered()) ++delivered;
    inside_ = outer;
  }
  void Close() {
    if (connection_ == nullptr) return;
    bool outer = std::exchange(inside_, true);
    connection_->Close(Status::Cancelled("enough"));
    inside_ = outer;
  }
  void Drop() { connection_.reset(); }
  Connection* connection() { return connection_.get(); }
  const std::string& text() const { return text_; }
  const std::string& fault() const { return fault_; }
  const Status& why() const { return why_; }

  // At home; what else to do when something happens.
  std::function<void()> on_heard, on_written, on_closed;

  // Any thread.
  std::atomic<uint64_t> heard{0}, said{0};
  std::atomic<int> closed{0}, delivered{0};
  // All received bytes were those of the common text.
  std::atomic<bool> as_pattern{true};

  size_t Landing(Bytes* parts, size_t parts_max) override {
    Watch("Landing");
    landing_.clear();
    landing_bytes_ = 0;
    size_t count = manner_.landing ? random_.Below(std::min<size_t>(parts_max, 5) + 1) : 0;
    for (size_t i = 0; i < count; ++i) {
      size_t size = Up(manner_.landing_bytes_max);
      landing_.push_back(std::make_unique<uint8_t[]>(size));
      parts[i] = Bytes(landing_.back().get(), size);
      landing_sizes_[i] = size;
      landing_bytes_ += size;
    }
    return count;
  }

  size_t LookAhead() override {
    look_ahead_ = landing_bytes_ == 0 ? Up(manner_.look_ahead_max) : random_.Below(manner_.look_ahead_max + 1);
    return look_ahead_;
  }

  void OnLanded(size_t bytes) override {
    Watch("OnLanded");
    if (bytes == 0 || bytes > landing_bytes_) Blame("landed more or less than asked for");
    landed_all_ = bytes == landing_bytes_;
    for (size_t i = 0; bytes > 0; ++i) {
      size_t part = std::min(bytes, landing_sizes_[i]);
      Hear(ConstBytes(landing_[i].get(), part));
      bytes -= part;
    }
  }

  void OnBytes(ConstBytes bytes) override {
    Watch("OnBytes");
    if (bytes.empty() || bytes.size > look_ahead_) Blame("looked further ahead than asked for");
    if (landing_bytes_ > 0 && !landed_all_) Blame("looked ahead before the landing was full");
    Hear(bytes);
  }

  void OnWritten(size_t bytes) override {
    Watch("OnWritten");
    if (offers_.empty()) return Blame("an answer to no Write");
    if (bytes > offers_.front()) Blame("written more than offered");
    if (bytes < offers_.front() && offers_.size() > 1) Blame("took a Write behind one that it had not taken whole");
    offers_.pop_front();
    // Memory that was given back is ours: nobody may look at it any more.
    std::fill_n(blocks_.front().begin() + static_cast<std::ptrdiff_t>(block_said_), bytes, uint8_t{0xEE});
    block_said_ += bytes;
    said += bytes;
    if (block_said_ == blocks_.front().size()) {
      blocks_.pop_front();
      block_said_ = 0;
    }
    if (on_written) on_written();
    if (!pushing_) Push();
  }

  void OnDelivered() override {
    Watch("OnDelivered");
    if (inside_) Blame("OnDelivered from inside a call");
    ++delivered;
  }

  void OnClosed(Status why) override {
    Watch("OnClosed");
    if (inside_) Blame("OnClosed from inside a call");
    why_ = std::move(why);
    landing_.clear();
    ++closed;
    if (on_closed) on_closed();
  }

 private:
  size_t Up(size_t max) {
    return static_cast<size_t>(random_.Between(1, std::max<size_t>(1, max >> random_.Below(12))));
  }

  void Push() {
    if (connection_ == nullptr || pushing_) return;
    pushing_ = true;
    while (closed == 0 && (offers_.empty() || connection_->TakesMore()) && MakeBlock()) {
      std::vector<ConstBytes> parts;
      std::vector<uint8_t>& block = blocks_[offers_.size()];
      const size_t said_of_it = offers_.empty() ? block_said_ : 0;
      size_t offered = 0;
      size_t left = block.size() - said_of_it;
      for (size_t i = 0; left > 0 && i < manner_.parts_max; ++i) {
        size_t part = i + 1 == manner_.parts_max ? left : std::min(left, Up(2 * left / manner_.parts_max + 1));
        parts.emplace_back(block.data() + said_of_it + offered, part);
        offered += part;
        left -= part;
      }
      offers_.push_back(offered);
      bool outer = std::exchange(inside_, true);
      connection_->Write(parts.data(), parts.size());
      inside_ = outer;
    }
    bool all_said = blocks_.empty() && pattern_left_ == 0;
    if (close_when_said_ && all_said) Close();
    pushing_ = false;
  }

  // One that has not been offered.
  bool MakeBlock() {
    if (blocks_.size() == offers_.size() && pattern_left_ > 0) {
      std::vector<uint8_t> block(static_cast<size_t>(std::min<uint64_t>(pattern_left_, Up(manner_.block_bytes_max))));
      for (uint8_t& byte : block) byte = PatternAt(pattern_said_++);
      pattern_left_ -= block.size();
      blocks_.push_back(std::move(block));
    }
    return blocks_.size() > offers_.size();
  }

  void Hear(ConstBytes bytes) {
    uint64_t at = heard;
    bool same = true;
    for (size_t i = 0; i < bytes.size; ++i) same &= bytes.data[i] == PatternAt(at + i);
    if (!same) as_pattern = false;
    if (manner_.keep_text && text_.size() < 1 << 16) text_ += bytes.ToString();
    heard += bytes.size;
    if (on_heard) on_heard();
  }

  void Watch(const char* call) {
    if (closed > 0) Blame(std::string(call) + " after OnClosed");
  }
  void Blame(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }

  Random random_;
  const Manner manner_;
  std::unique_ptr<Connection> connection_;
  std::deque<std::vector<uint8_t>> blocks_;
  size_t block_said_ = 0;
  uint64_t pattern_left_ = 0, pattern_said_ = 0;
  bool pushing_ = false, inside_ = false, close_when_said_ = false;
  std::deque<size_t> offers_;  // unanswered
  std::vector<std::unique_ptr<uint8_t[]>> landing_;
  size_t landing_sizes_[8] = {};
  size_t landing_bytes_ = 0, look_ahead_ = 0;
  bool landed_all_ = false;
  std::string text_, fault_;
  Status why_;
};

}  // namespace fusewire::transport
