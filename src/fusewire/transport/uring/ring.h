// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The io_uring of one home: it gathers the orders of all connections during a turn and submits them with one system
// call, delivers their outcomes, and has a pool of buffers that receives share.
// Home: its reactor. The kernel finishes an order on the thread that submitted it, even if another thread is at home by
// then; it may therefore interrupt that thread, and reports ECANCELED if the thread has ended. Owns: the ring, its
// buffers.
// Fails: Make says why; a working ring does not fail.
#ifndef FUSEWIRE_TRANSPORT_URING_RING_H_
#define FUSEWIRE_TRANSPORT_URING_RING_H_

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/list.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/uring/abi.h"

namespace fusewire {
namespace transport {
namespace uring {

// The size of a buffer. Below kCopyBytesMax, so that no large piece of payload is copied out of it.
constexpr size_t kBufferBytes = kCopyBytesMax - 1;

struct Outcome {
  uint32_t order;
  int32_t result;
  uint32_t flags;
};

// The owner of an order. At home.
class RingUser : public ListNode {
 public:
  // The kernel is done with the order unless `flags` has kMoreToCome. A buffer that it took returns to the ring
  // afterwards.
  virtual void OnOutcome(const Outcome& outcome) = 0;
  // Requested by ArmLater: order the next read now.
  virtual void Arm() = 0;

 protected:
  ~RingUser() = default;
};

struct RingOptions {
  uint32_t orders = 256;  // gathered at most, before they are submitted
  // The kernel keeps outcomes that do not fit, which costs time only.
  uint32_t outcomes = 4096;
  uint32_t buffers = 64;  // a power of two
};

struct RingStats {
  uint64_t hand_ins = 0;          // system calls that submitted orders
  uint64_t orders = 0;            // submitted orders
  uint64_t overflows = 0;         // times that the kernel had to keep outcomes
  uint64_t short_of_buffers = 0;  // reads that found all buffers taken
  uint64_t lent = 0;              // sends that lent their memory
  uint64_t lent_in_vain = 0;      // of these, sends that were copied anyway
};

class Ring final : public reactor::Resident, private reactor::FdHandler, private reactor::Flushable {
 public:
  // At home.
  static Result<std::unique_ptr<Ring>> Make(reactor::Reactor& home, const RingOptions& options);
  ~Ring() override;

  // At home, all of them. Adds an order; the ring sets its user_data. The number identifies it until its last
  // outcome has been delivered.
  Sqe* Order(RingUser* user, uint32_t* number);
  // `count` pieces for the next order; they live until that has been submitted.
  iovec* Pieces(size_t count);
  // The first outcome will be ECANCELED, unless the order completes first.
  void Cancel(uint32_t number);
  // Cancels it; when this returns, the kernel no longer uses the order's memory. Its outcome is delivered later.
  void Withdraw(uint32_t number);
  // Forgets their owner. When it returns, the kernel no longer uses the orders' memory; numbers may be kNone.
  void Abandon(uint32_t first, uint32_t second);
  static constexpr uint32_t kNone = UINT32_MAX;

  void ArmLater(RingUser* user) {
    if (!user->linked()) to_arm_.PushBack(user);
    home_.FlushLast(this);
  }
  // Submits the orders now instead of at the end of the turn; delivers no outcomes.
  void HandIn();
  // Submits orders, lets the kernel work, and delivers the outcomes.
  bool Look();
  // The bytes of an outcome with kTookBuffer.
  ConstBytes BufferOf(const Outcome& outcome) const;
  // Memory of kBufferBytes for bytes after a landing.
  std::unique_ptr<uint8_t[]> TakeSpare();
  void GiveSpare(std::unique_ptr<uint8_t[]> spare);
  bool sends_without_copy() const { return sends_without_copy_; }
  RingStats& stats() { return stats_; }

 private:
  struct Entry {
    RingUser* user = nullptr;
    bool in_kernel = false;
  };
  struct Mapping {
    Mapping() = default;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();
    bool Map(int fd, int64_t offset, size_t bytes_in);  // fd -1: anonymous memory
    template <class T>
    T* At(size_t offset) const {
      return reinterpret_cast<T*>(data + offset);
    }
    uint8_t* data = nullptr;
    size_t bytes = 0;
  };

  explicit Ring(reactor::Reactor& home) : home_(home) {}
  Status Open(const RingOptions& options);
  Status OpenBuffers(uint32_t count);
  void Flush() override;
  void OnEvents(uint32_t) override { PollNow(); }
  bool PollNow() override;
  Sqe* Next();
  int Enter(uint32_t orders, uint32_t wait_for, int64_t wait_ns);
  bool Collect();
  void AwaitKernel(uint32_t first, uint32_t second);
  bool Tell();
  void GiveBack(uint32_t flags);
  void Hush(uint32_t number);
  bool InKernel(uint32_t number) const { return number != kNone && entries_[number].in_kernel; }

  reactor::Reactor& home_;
  Fd fd_;
  bool watched_ = false;
  Mapping queues_, orders_, buffers_, buffer_memory_;
  uint32_t* sq_tail_ = nullptr;
  const uint32_t* sq_flags_ = nullptr;
  uint32_t sq_mask_ = 0, sq_next_ = 0, gathered_ = 0;
  uint32_t* cq_head_ = nullptr;
  const uint32_t* cq_tail_ = nullptr;
  const Cqe* cqes_ = nullptr;
  uint32_t cq_mask_ = 0;
  uint16_t buffer_mask_ = 0, buffer_tail_ = 0;
  std::vector<iovec> pieces_;
  size_t pieces_used_ = 0;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  std::deque<Outcome> arrived_;  // taken from the kernel, not delivered yet
  List<RingUser> to_arm_;
  std::vector<std::unique_ptr<uint8_t[]>> spares_;
  bool sends_without_copy_ = false;
  RingStats stats_;
};

}  // namespace uring
}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_URING_RING_H_
