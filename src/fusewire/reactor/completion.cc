// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/completion.h"

#include <algorithm>

#include "fusewire/reactor/reactor.h"

namespace fusewire::reactor {

bool Completion::Wait(Reactor& home, int64_t deadline_ns, Idling idling, Interrupts interrupts) {
  return home.Wait(&waiter_, deadline_ns, idling, interrupts);
}

bool Completion::PostAndWait(Reactor& home, Mail* mail, int64_t deadline_ns, Idling idling, Interrupts interrupts) {
  FUSEWIRE_DCHECK(!done());  // the mail will say so
  return home.PostAndWait(mail, &waiter_, deadline_ns, idling, interrupts);
}

Status Drain::Wait(Reactor& home, int64_t deadline_ns) {
  FUSEWIRE_CHECK(!home.AtHome());
  const int64_t began_ns = home.clock()->NowNs();
  Completion emptied;
  home.Run([this, &emptied] {
    if (empty()) {
      emptied.Done();
    } else {
      waiting_.push_back(&emptied);
    }
  });
  if (emptied.Wait(home, deadline_ns)) return Status::Ok();
  home.Run([this, &emptied] {
    const auto found = std::find(waiting_.begin(), waiting_.end(), &emptied);
    FUSEWIRE_CHECK((found == waiting_.end()) == emptied.done());
    if (found != waiting_.end()) waiting_.erase(found);
  });
  return emptied.done() ? Status::Ok() : StillOpen(home.clock()->NowNs() - began_ns);
}

void Drain::TellAll() {
  const std::vector<Completion*> waiting = std::exchange(waiting_, {});
  for (Completion* const emptied : waiting) emptied->Done();
}

Status Drain::StillOpen(int64_t waited_ns) const {
  return Status::Timeout(std::to_string(open()) + " " + what_ + " have not ended")
      .Phase("close")
      .AgeMs(waited_ns / kMillisecondNs)
      .Next("look at what keeps them, or allow more time");
}

}  // namespace fusewire::reactor
