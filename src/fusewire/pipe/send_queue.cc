// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/send_queue.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::pipe {

void SendQueue::Push(WaitingMessage waiting) {
  FUSEWIRE_DCHECK(waiting.message.head.data == waiting.head.bytes().data);
  FUSEWIRE_DCHECK(HasRoom(waiting.head.size()));
  bytes_ += BytesOf(waiting.head.size());
  (waiting.message.express ? express_ : in_order_).push_back(std::move(waiting));
}

WaitingMessage SendQueue::Pop(std::deque<WaitingMessage>* queue) {
  FUSEWIRE_DCHECK(!queue->empty());
  WaitingMessage waiting = std::move(queue->front());
  queue->pop_front();
  FUSEWIRE_DCHECK(BytesOf(waiting.head.size()) <= bytes_);
  bytes_ -= BytesOf(waiting.head.size());
  return waiting;
}

void SendQueue::DemoteLongExpress(uint32_t chunk_bytes) {
  std::deque<WaitingMessage> express;
  express.swap(express_);
  for (WaitingMessage& waiting : express) {
    (waiting.cost > chunk_bytes ? in_order_ : express_).push_back(std::move(waiting));
  }
}

std::optional<WaitingMessage> SendQueue::TakeBack(uint64_t call) {
  for (std::deque<WaitingMessage>* queue : {&express_, &in_order_}) {
    auto found = std::find_if(queue->begin(), queue->end(), [call](const WaitingMessage& waiting) {
      return waiting.message.kind == wire::FrameKind::kCall && waiting.message.call == call;
    });
    if (found == queue->end()) continue;
    WaitingMessage taken_back = std::move(*found);
    queue->erase(found);
    FUSEWIRE_CHECK(BytesOf(taken_back.head.size()) <= bytes_);
    bytes_ -= BytesOf(taken_back.head.size());
    return taken_back;
  }
  return std::nullopt;
}

void SendQueue::Fail(const Status& why) {
  for (std::deque<WaitingMessage>* queue : {&express_, &in_order_}) {
    while (!queue->empty()) {
      WaitingMessage waiting = Pop(queue);
      waiting.message.body.clear();
      if (waiting.done) waiting.done(why);
    }
  }
  FUSEWIRE_CHECK(bytes_ == 0);
}

}  // namespace fusewire::pipe
