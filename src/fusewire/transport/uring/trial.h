// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests whether this machine's io_uring does what we need, by using it: a sandbox may allow the ring and refuse the
// orders, or answer them wrongly.
#ifndef FUSEWIRE_TRANSPORT_URING_TRIAL_H_
#define FUSEWIRE_TRANSPORT_URING_TRIAL_H_

#include "fusewire/base/status.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire {
namespace transport {
namespace uring {

// Any thread but a home. A round trip over a socket pair through a ring at `home`, and a cancelled read.
Status TestRing(reactor::Reactor& home);

}  // namespace uring
}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_URING_TRIAL_H_
