// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/completion.h"

#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {

bool Completion::Wait(Reactor& home, int64_t deadline_ns, Idling idling, Interrupts interrupts) {
  return home.Wait(&waiter_, deadline_ns, idling, interrupts);
}

bool Completion::PostAndWait(Reactor& home, Mail* mail, int64_t deadline_ns, Idling idling, Interrupts interrupts) {
  FUSEWIRE_DCHECK(!done());  // the mail will say so
  return home.PostAndWait(mail, &waiter_, deadline_ns, idling, interrupts);
}

}  // namespace fusewire::reactor
