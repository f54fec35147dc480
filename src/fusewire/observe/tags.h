// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operations of one kind that this task makes with one peer under one name share a tag: a small number, found once,
// with which each of them is recorded and counted.
// Home: any thread. Owns: the names and the totals, until the process ends. Fails: never; when the table is full, names
// share the tag "(others)" of their peer, and after that tag 0.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fusewire/base/metrics.h"
#include "fusewire/base/mutex.h"

namespace fusewire::observe {

enum class Kind : uint8_t {
  kReceive = 0,  // a tensor from a peer
  kProvide,      // a tensor for a peer
  kRunOut,       // a part of a graph that a peer runs for this task
  kRunIn,        // a part that this task runs for a peer
  kCall,         // another call to a peer
  kStep,         // this task's part of a step
  kSession,      // a session's step, in the process that has called it
  kCollective,   // a collective operation of a group
};
constexpr int kKinds = 8;
// "receive", "provide" ...
const char* KindName(Kind kind);

// The operations of one kind with one peer.
struct Line {
  Kind kind = Kind::kCall;
  std::string task, peer;
  SharedHistogram duration_ns;
  SharedCounter bytes, failed;
  SharedCounter bytes_given;  // of these, what a part of a graph was given: the other way than its results
};

struct Tag {
  Kind kind = Kind::kCall;
  std::string task, peer, name;
  Line* line = nullptr;
  SharedCounter count, bytes, time_ns;
};

class Tags {
 public:
  static constexpr uint32_t kTagsMax = 8192;    // names, in all
  static constexpr uint32_t kOthersMax = 1024;  // "(others)", beyond these
  static constexpr size_t kLinesMax = 1024;
  static constexpr size_t kNameBytesMax = 256;  // a longer name is cut

  Tags();
  ~Tags();
  Tags(const Tags&) = delete;

  // Any thread; takes a lock. `task` is this task's own name.
  uint32_t Find(Kind kind, std::string_view task, std::string_view peer, std::string_view name);
  // Any thread. Its names never change.
  Tag& at(uint32_t tag) { return chunks_[tag / kChunk].load(std::memory_order_acquire)->tags[tag % kChunk]; }
  // Any thread. The number of tags, all of which `at` knows.
  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  std::vector<Line*> lines();

 private:
  static constexpr uint32_t kChunk = 256;
  static constexpr uint32_t kChunks = (kTagsMax + kOthersMax) / kChunk + 1;
  struct Chunk {
    std::array<Tag, kChunk> tags;
  };
  Line* LineOf(Kind kind, std::string_view task, std::string_view peer) FUSEWIRE_REQUIRES(mutex_);
  uint32_t Add(Kind kind, std::string_view task, std::string_view peer, std::string_view name, std::string key)
      FUSEWIRE_REQUIRES(mutex_);

  std::atomic<uint32_t> size_{0};
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  Mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> made_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Line>> lines_ FUSEWIRE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, uint32_t> numbers_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::observe
