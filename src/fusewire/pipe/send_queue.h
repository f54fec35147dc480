// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Messages that wait for the greeting, for credit, or for their turn: express ones, and those that keep their order.
// Pure: no socket, no clock.
// Home: the pipe's. Owns: these messages, and copies of their heads. Fails: never; HasRoom says whether one more fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/pipe/message.h"

namespace fusewire::pipe {

struct WaitingMessage {
  Message message;
  Buffer head;  // message.head lies in it
  Done done;
  uint64_t cost;
};

class SendQueue {
 public:
  explicit SendQueue(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // False: so much is waiting already that a message with such a head has no room.
  bool HasRoom(size_t head_bytes) const { return bytes_ + BytesOf(head_bytes) <= bytes_max_; }
  void Push(WaitingMessage waiting);

  bool empty() const { return express_.empty() && in_order_.empty(); }
  bool has_express() const { return !express_.empty(); }
  bool has_in_order() const { return !in_order_.empty(); }
  // The cost of the next one; there is one.
  uint64_t express_cost() const { return express_.front().cost; }
  uint64_t in_order_cost() const { return in_order_.front().cost; }
  WaitingMessage PopExpress() { return Pop(&express_); }
  WaitingMessage PopInOrder() { return Pop(&in_order_); }

  // The peer wants smaller chunks than we would take: what is longer now goes the long way.
  void DemoteLongExpress(uint32_t chunk_bytes);
  // The message that makes this call, if it waits here.
  std::optional<WaitingMessage> TakeBack(uint64_t call);
  // Nothing will be sent any more: every Done hears of it, in the order in which the messages would have been sent.
  void Fail(const Status& why);

 private:
  static size_t BytesOf(size_t head_bytes) { return head_bytes + sizeof(WaitingMessage); }
  WaitingMessage Pop(std::deque<WaitingMessage>* queue);

  const uint64_t bytes_max_;
  size_t bytes_ = 0;
  std::deque<WaitingMessage> express_;
  std::deque<WaitingMessage> in_order_;
};

}  // namespace fusewire::pipe
