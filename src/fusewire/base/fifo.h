// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// First in, first out. Unlike a std::deque, which has 576 bytes from the beginning, it takes no memory before its first
// member: thousands of connections have one each, and most of these stay empty.
// Home: the owner's. Owns: its members, in one piece of memory, kept until Trim. Fails: never.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"

namespace fusewire {

// T is moved, and then owns nothing.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == members_.size(); }
  size_t size() const { return members_.size() - first_; }
  T* begin() { return members_.data() + first_; }
  T* end() { return members_.data() + members_.size(); }
  const T* begin() const { return members_.data() + first_; }
  const T* end() const { return members_.data() + members_.size(); }
  T& front() { return *begin(); }
  const T& front() const { return *begin(); }
  T& back() { return members_.back(); }
  const T& back() const { return members_.back(); }

  void Push(T member) { members_.push_back(std::move(member)); }
  T Pop() {
    FUSEWIRE_DCHECK(!empty());
    T popped = std::move(members_[first_++]);
    if (empty()) {
      Clear();
    } else if (first_ >= kGoneMax && first_ * 2 >= members_.size()) {
      // A member that has gone costs one move of another at most.
      members_.erase(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    return popped;
  }
  // Takes one of them out of its turn.
  T Take(T* member) {
    FUSEWIRE_DCHECK(begin() <= member);
    FUSEWIRE_DCHECK(member < end());
    T taken = std::move(*member);
    std::move(member + 1, end(), member);
    members_.pop_back();
    return taken;
  }
  void Clear() {
    members_.clear();
    first_ = 0;
  }
  // Gives back its memory, if it is empty.
  void Trim() {
    if (empty()) *this = Fifo();
  }

 private:
  static constexpr size_t kGoneMax = 16;

  std::vector<T> members_;
  size_t first_ = 0;  // those before it have gone
};

}  // namespace fusewire
