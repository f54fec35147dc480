// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The handles of UCX at one home: a context and a worker, with the worker's address and its descriptor.
// Home: that of the worker. Owns: both, until Close. Fails: Open, with the call that failed.
#pragma once

#include "fusewire/transport/ucx/library.h"

#if FUSEWIRE_HAS_UCX

#include <cstdint>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/transport/transports.h"

namespace fusewire::transport {

class UcxHandles {
 public:
  UcxHandles() = default;
  ~UcxHandles() { Close(); }
  UcxHandles(const UcxHandles&) = delete;
  UcxHandles& operator=(const UcxHandles&) = delete;

  // `on_message` is called with `self` from inside of UCX's progress.
  Status Open(const UcxOptions& options, ucp_am_recv_callback_t on_message, void* self);
  // UCX ends what is still under way: no memory that it holds may be freed before.
  void Close();

  bool open() const { return worker_ != nullptr; }
  const UcxLibrary& library() const { return library_; }
  ucp_worker_h worker() const { return worker_; }
  int event_fd() const { return event_fd_; }
  ConstBytes address() const { return ConstBytes(address_.data(), address_.size()); }

 private:
  Status MakeContext();
  Status MakeWorker();
  Status ReadAddress();
  Status SetMessageHandler(ucp_am_recv_callback_t on_message, void* self);
  Status Failed(const char* call, ucs_status_t status) const;

  UcxLibrary library_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<uint8_t> address_;
  int event_fd_ = -1;
};

// Of all messages of ours.
constexpr unsigned kUcxMessageId = 1;

}  // namespace fusewire::transport

#endif
