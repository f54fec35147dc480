// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// An observer of the calls of parts at parameter servers by this task's steps: recording.h, and tests. Each call looks
// it up once, which costs one load if there is none.
// Home: any thread. Owns: nothing; an observer outlives every step. Fails: never; steps do not depend on an observer.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "fusewire/buffer/buffer.h"
#include "fusewire/transport/transport.h"

namespace fusewire::tf {

class CallObserver {
 public:
  // Any thread, several at once. The part is placed at the address, under this number.
  virtual void OnPlaced(const transport::Address& address, uint64_t part, const std::string& session,
                        const std::string& fingerprint) = 0;
  // Any thread, several at once. This is about to be sent, see words.h.
  virtual void OnRun(const transport::Address& address, uint64_t part, const std::string& head,
                     const Buffers& body) = 0;

 protected:
  ~CallObserver() = default;
};

inline std::atomic<CallObserver*> call_observer{nullptr};

// Any thread. Null: no observer from now on; a call that has looked up the previous one still uses it.
inline void SetCallObserver(CallObserver* observer) { call_observer.store(observer, std::memory_order_release); }
// Any thread. Null: there is no observer.
inline CallObserver* TheCallObserver() { return call_observer.load(std::memory_order_acquire); }

}  // namespace fusewire::tf
