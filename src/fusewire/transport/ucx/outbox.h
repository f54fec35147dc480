// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages of one home that are under way, over all endpoints: each is kept until UCX is done with it.
// Home: one reactor. Owns: the messages; not the memory that is lent. Fails: what fails marks its peer as failed.
#pragma once

#include "fusewire/transport/ucx/handles.h"

#if FUSEWIRE_HAS_UCX

#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/list.h"
#include "fusewire/transport/ucx/endpoints.h"
#include "fusewire/transport/ucx/progress.h"
#include "fusewire/transport/ucx/record.h"

namespace fusewire::transport {

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
  // Lends `bytes`, which stay valid until the lender hears that they are back.
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
