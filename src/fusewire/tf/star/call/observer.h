// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Whoever looks on while this task's steps call parts at parameter servers: recording.h, and tests. A call asks for it
// once, which costs one load where nobody does.
// Home: any thread. Owns: nothing; an observer outlives every step. Fails: never; steps do not notice an observer.
#ifndef FUSEWIRE_TF_STAR_CALL_OBSERVER_H_
#define FUSEWIRE_TF_STAR_CALL_OBSERVER_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "fusewire/buffer/buffer.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace tf {

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

// Any thread. Null: nobody looks on from now on; a call that has asked before still tells the one that was there.
inline void SetCallObserver(CallObserver* observer) { call_observer.store(observer, std::memory_order_release); }
// Any thread. Null: nobody looks on.
inline CallObserver* TheCallObserver() { return call_observer.load(std::memory_order_acquire); }

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_CALL_OBSERVER_H_
