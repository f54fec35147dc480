// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A lock-free queue into a thread: many threads push, one takes all, none waits.
// Home: Push from any thread; TakeAll on the owner's. Owns: nothing; a Mail belongs to its sender until it is
// delivered.
//
#pragma once

#include <atomic>

namespace fusewire {

// Work to be done at home. It may be part of a longer-lived object, so that sending needs no allocation.
class Mail {
 public:
  virtual void Deliver() = 0;  // at home, exactly once per Push; may delete this

 protected:
  virtual ~Mail() = default;

 private:
  friend class Mailbox;
  Mail* next_ = nullptr;
};

class Mailbox {
 public:
  // Any thread. True if the mailbox was empty: the caller must then wake the owner.
  bool Push(Mail* mail) {
    Mail* head = newest_.load(std::memory_order_relaxed);
    do {
      mail->next_ = head;
    } while (!newest_.compare_exchange_weak(head, mail, std::memory_order_seq_cst, std::memory_order_relaxed));
    return head == nullptr;
  }

  bool empty() const { return newest_.load(std::memory_order_seq_cst) == nullptr; }

  // At home. Delivers the current mail, oldest first; returns how many.
  int DeliverAll() {
    if (newest_.load(std::memory_order_relaxed) == nullptr) return 0;
    Mail* newest = newest_.exchange(nullptr, std::memory_order_acquire);
    Mail* oldest = nullptr;
    while (newest != nullptr) {
      Mail* next = newest->next_;
      newest->next_ = oldest;
      oldest = newest;
      newest = next;
    }
    int count = 0;
    while (oldest != nullptr) {
      Mail* next = oldest->next_;  // Deliver may delete the mail
      oldest->Deliver();
      oldest = next;
      ++count;
    }
    return count;
  }

 private:
  std::atomic<Mail*> newest_{nullptr};
};

}  // namespace fusewire
