// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// UCX in a home's loop. The worker's descriptor is watched like any other; before the loop parks, the worker is armed.
// UCX calls us back from inside of its own progress, where we only record what came; it is delivered afterwards.
// Home: one reactor. Owns: nothing; the handles are the worker's. Fails: Watch says why.
#pragma once

#include "fusewire/transport/ucx/handles.h"

#if FUSEWIRE_HAS_UCX

#include "fusewire/reactor/reactor.h"

namespace fusewire::transport {

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
