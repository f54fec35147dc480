// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A list whose links live in its members: no allocation, removal in O(1).
// Home: the owner's. Owns: nothing; a member unlinks itself when it is destroyed.
#pragma once

#include "fusewire/base/check.h"

namespace fusewire {

class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { Unlink(); }

  bool linked() const { return next_ != this; }
  void Unlink() {
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = this;
  }

 private:
  template <class T>
  friend class List;
  void InsertBefore(ListNode* place) {
    FUSEWIRE_DCHECK(!linked());
    previous_ = place->previous_;
    next_ = place;
    previous_->next_ = this;
    place->previous_ = this;
  }
  ListNode* previous_ = this;
  ListNode* next_ = this;
};

// T derives from ListNode.
template <class T>
class List {
 public:
  bool empty() const { return !head_.linked(); }
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): the analyzer does not follow a member that unlinked itself
  T* front() { return empty() ? nullptr : static_cast<T*>(head_.next_); }
  void PushBack(T* member) { static_cast<ListNode*>(member)->InsertBefore(&head_); }
  T* PopFront() {
    T* first = front();
    if (first != nullptr) static_cast<ListNode*>(first)->Unlink();
    return first;
  }
  // `visit` must not unlink any member.
  template <class Visit>
  void ForEach(Visit visit) {
    for (ListNode* it = head_.next_; it != &head_; it = it->next_) visit(static_cast<T*>(it));
  }
  // The first member for which `is_it` returns true, or null. `is_it` must not unlink any member.
  template <class IsIt>
  T* Find(IsIt is_it) {
    for (ListNode* it = head_.next_; it != &head_; it = it->next_) {
      if (is_it(static_cast<T*>(it))) return static_cast<T*>(it);
    }
    return nullptr;
  }
  // `place` is a member, or null for the end.
  void InsertBefore(T* place, T* member) {
    static_cast<ListNode*>(member)->InsertBefore(place == nullptr ? &head_ : static_cast<ListNode*>(place));
  }
  // Moves all members of `other` to the end of this list.
  void TakeAll(List* other) {
    while (T* member = other->PopFront()) PushBack(member);
  }

 private:
  ListNode head_;
};

}  // namespace fusewire
