// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The handles of UCX at one home, a context and a worker, with the worker's address and its descriptor; and their
// progress in the home's loop. The descriptor is watched like any other; before the loop parks, the worker is armed.
// UCX calls us back from inside of its own progress, where we only record what came; it is delivered afterwards.
// Home: that of the worker. Owns: the handles own both, until Close. Fails: Open, with the call that failed; Watch.
#pragma once

#include "fusewire/transport/ucx/library.h"

#if FUSEWIRE_HAS_UCX

#include <cstdint>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/reactor.h"
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

// ---- progress ----

class UcxProgressHandler {
 public:
  // At home, outside of UCX: delivers what came. True: there is more for the next turn.
  virtual bool DeliverReady() = 0;

 protected:
  ~UcxProgressHandler() = default;
};

class UcxProgress final : private reactor::Flushable, private reactor::FdHandler {
 public:
  UcxProgress(reactor::Reactor& home, const UcxHandles* handles, UcxProgressHandler* handler)
      : home_(home), handles_(*handles), handler_(*handler) {}
  Status Watch();
  void Unwatch();

  // Something was done or is to be delivered: look before the loop parks.
  void Touch() { home_.FlushLater(this); }
  // Looks once; delivers nothing. True: UCX did something.
  bool Look();
  bool LookAndDeliver();

  reactor::Reactor& home() const { return home_; }

 private:
  void Flush() override;
  void OnEvents(uint32_t) override {
    Touch();
    LookAndDeliver();
  }
  bool PollNow() override { return LookAndDeliver(); }

  reactor::Reactor& home_;
  const UcxHandles& handles_;
  UcxProgressHandler& handler_;
  bool watched_ = false;
  bool inside_ = false;  // UCX's progress runs: it must not be entered again
  int busy_turns_ = 0;
  reactor::Timer again_{[this] { Touch(); }};
};

}  // namespace fusewire::transport

#endif
