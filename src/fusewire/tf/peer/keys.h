// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Rendezvous keys as numbers. A key has about 150 bytes and is the same in every step: the receiver sends it once with
// a number, and afterwards only the number.
// Home: KeyNames at the receiver's channel, a KeyBook at its server, on any thread. Owns: the keys.
// Fails: an unknown number is an error of the whole request; the receiver then sends all its keys again.
//   wants := book:u64 count:varint want*
//   want  := tag:varint [key:text] [step:u64] [frame:text]
//   tag   := number << 3 | 1: the key follows | 2: another step than the want before | 4: not of the outermost frame
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>
#include <tensorflow/core/framework/rendezvous.h>
#include "fusewire/base/bytes.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/varint.h"
#include "fusewire/tf/peer/marks.h"

namespace fusewire::tf {

// The receiver's half: the number of each key.
class KeyNames {
 public:
  KeyNames();
  // Begins a request with this many wants.
  void Begin(size_t count, std::string* head);
  // Adds one want to it. Returns what the key's receives are recorded as; valid until the next call.
  const Mark& Append(absl::string_view full_key, int64_t step, std::string* head);
  // The highest number that has been sent with its key; an answer to that request confirms it.
  uint64_t said() const { return said_; }
  void Known(uint64_t said) {
    if (said > known_) known_ = said;
  }
  // The peer has dropped the book: all keys are sent again, in another one.
  void Forget();

 private:
  uint64_t book_;
  // Numbers rise, so one comparison tells whether the peer has a key.
  absl::flat_hash_map<std::string, uint64_t> numbers_;
  std::vector<Mark> marks_ = std::vector<Mark>(1);  // by number; 0 is that of keys without one
  size_t bytes_ = 0;
  uint64_t said_ = 0;
  uint64_t known_ = 0;
  int64_t last_step_ = 0;
  bool first_ = true;
};

// shared_ptr: the book may be dropped while a request that names its keys is being answered.
using KeyPtr = std::shared_ptr<const tensorflow::Rendezvous::ParsedKey>;
struct Want {
  int64_t step = 0;
  KeyPtr key;
  Mark mark = {};
};

// The keys of one receiver.
class KeyBook {
 public:
  // False: the number has no key.
  bool Read(VarReader* reader, std::vector<Want>* wants, TfStatus* error);
  // Any thread: about how many bytes it holds.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  Mutex mutex_;
  std::atomic<size_t> bytes_{0};
  std::vector<KeyPtr> keys_ FUSEWIRE_GUARDED_BY(mutex_);  // by number
  std::vector<std::string> texts_ FUSEWIRE_GUARDED_BY(mutex_);
  std::vector<Mark> marks_ FUSEWIRE_GUARDED_BY(mutex_);
};

// The books of all receivers of a server. If they are too many or too large, the least recently used are dropped.
class KeyLibrary {
 public:
  // Reads a whole request. False: the receiver has to send its keys again.
  bool Read(ConstBytes head, std::vector<Want>* wants, TfStatus* error);
  size_t bytes() {
    MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  // shared_ptr: a book is dropped while another thread reads in it.
  using BookPtr = std::shared_ptr<KeyBook>;
  BookPtr Find(uint64_t id);
  void DropOldest() FUSEWIRE_REQUIRES(mutex_);
  void Count(uint64_t id, size_t bytes);
  Mutex mutex_;
  std::list<uint64_t> used_ FUSEWIRE_GUARDED_BY(mutex_);  // the last used first
  struct Entry {
    BookPtr book;
    std::list<uint64_t>::iterator place;
    size_t bytes;
  };
  size_t bytes_ FUSEWIRE_GUARDED_BY(mutex_) = 0;  // of all books
  std::unordered_map<uint64_t, Entry> books_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
