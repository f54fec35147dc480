// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages of one home that are under way, over all endpoints: each is kept until UCX is done with it.
// Home: one reactor. Owns: the messages; not the memory that is lent. Fails: what fails marks its peer as failed.
#pragma once

#include "fusewire/transport/ucx/handles.h"

#if FUSEWIRE_HAS_UCX

#include <cstdint>

#include <cstddef>
#include "fusewire/base/bytes.h"
#include "fusewire/base/list.h"
#include "fusewire/transport/ucx/endpoints.h"

namespace fusewire::transport {

// The records that two ends exchange once they share UCX: one UCX message a record.
//   to        its receiver: a number that the receiver drew, which only the peer knows
//   sequence  of kBytes and kLoan, in the stream's order; UCX may deliver them in another one
//   value     of kTaken: what of the sender's records has been taken since the beginning, as Cost() counts
enum class UcxRecordKind : uint32_t { kBytes = 1, kLoan = 2, kTaken = 3 };

struct UcxRecord {
  uint64_t to = 0;
  uint64_t sequence = 0;
  uint64_t value = 0;  // kTaken: what was taken, in all; else: how many of our records its writer had seen
  UcxRecordKind kind = UcxRecordKind::kBytes;
  uint32_t unused = 0;
};
static_assert(sizeof(UcxRecord) == 32, "both ends count on it");

// In a message of its own, copied on both sides; less than what counts as a large copy.
constexpr size_t kUcxBytesMax = kCopyBytesMax - 1;
// Pieces from this size on land by UCX's rendezvous, in the receiver's own memory.
constexpr size_t kUcxLendBytesMin = kCopyBytesMax;
// Of one rendezvous: the most that a receiver sets aside when its handler has no room for it.
constexpr size_t kUcxLoanBytesMax = 1 << 20;
// How much may wait at a receiver whose handler does not read: 16 messages.
constexpr uint64_t kUcxWindowBytes = 256 * 1024;
// The cost of a record besides its bytes.
constexpr uint64_t kUcxRecordCost = 64;
constexpr uint64_t UcxCost(UcxRecordKind kind, size_t bytes) {
  return kUcxRecordCost + (kind == UcxRecordKind::kBytes ? bytes : 0);
}

class UcxOutbox;

class UcxLender {
 public:
  // Inside UCX. The memory is the lender's again.
  virtual void OnLoanBack(ucs_status_t status) = 0;

 protected:
  ~UcxLender() = default;
};

// A message that is under way: its header, and its bytes where they were copied.
struct UcxSend : public ListNode {
  UcxOutbox* outbox = nullptr;
  UcxRecord record;
  UcxLender* lender = nullptr;
  size_t bytes = 0;
  uint8_t data[kUcxBytesMax];
};

class UcxOutbox {
 public:
  UcxOutbox(const UcxHandles* handles, UcxProgress* progress) : handles_(*handles), progress_(*progress) {}
  // After the handles are closed: UCX reads a message until it is done.
  ~UcxOutbox();
  UcxOutbox(const UcxOutbox&) = delete;
  UcxOutbox& operator=(const UcxOutbox&) = delete;

  // A message to be filled and then sent.
  UcxSend* Take();
  void Send(UcxPeer* peer, UcxSend* send);
  // Lends `bytes`, which stay valid until the lender gets them back.
  void Lend(UcxPeer* peer, UcxSend* send, ConstBytes bytes, UcxLender* lender);

 private:
  void Post(UcxPeer* peer, UcxSend* send, ConstBytes bytes, uint32_t flags);
  void Finish(UcxSend* send, ucs_status_t status);
  static void OnSent(void* request, ucs_status_t status, void* user_data);

  const UcxHandles& handles_;
  UcxProgress& progress_;
  List<UcxSend> sends_, spare_;  // under way, and to be used again
  size_t spare_count_ = 0;
};

}  // namespace fusewire::transport

#endif
