// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/ends.h"

#include "fusewire/base/check.h"
#include "fusewire/reactor/waiter.h"

namespace fusewire::p2p {

void Ends::Report(Op* op) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_DCHECK(op->run.state == OpRun::State::kEndMailed);
  FUSEWIRE_DCHECK(op->id() == 0);
  if (!posting_ || !op->then) {
    Tell(op);
    return;
  }
  later_.PushBack(op);
  home_.FlushLater(this);
}

// A caller that only submits an operation may hold locks of its own: then the next thread that runs the loop runs
// `then`.
void Ends::Flush() {
  List<Op> now;
  now.TakeAll(&later_);
  while (Op* op = now.PopFront()) {
    FUSEWIRE_DCHECK(op->then);
    if (home_.handing_in()) {
      home_.Post(static_cast<Mail*>(op));
    } else {
      OnMail(op);
    }
  }
}

void Ends::OnMail(Op* op) {
  FUSEWIRE_CHECK(op->run.state == OpRun::State::kEndMailed);
  Tell(op);
}

void Ends::Tell(Op* op) {
  FUSEWIRE_DCHECK(op->run.in_pipe == 0);
  FUSEWIRE_DCHECK(!op->linked());
  op->run.state = OpRun::State::kIdle;
  if (op->then) {
    op->run.word.store(OpRun::kEnded, std::memory_order_release);
    op->then();
  } else {
    uintptr_t waiter = op->run.word.exchange(OpRun::kEnded, std::memory_order_acq_rel);
    if (waiter != OpRun::kPending) reinterpret_cast<reactor::Waiter*>(waiter)->Signal();
  }
  drain_.Close();  // the operation may be gone
}

}  // namespace fusewire::p2p
