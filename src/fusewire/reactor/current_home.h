// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#ifndef FUSEWIRE_REACTOR_CURRENT_HOME_H_
#define FUSEWIRE_REACTOR_CURRENT_HOME_H_

namespace fusewire {
namespace reactor {

class Home;

// The home of this thread, if it is at one. Handover sets it (handover.h); Home::AtHome reads it.
extern thread_local constinit const Home* current_home;

}  // namespace reactor
}  // namespace fusewire

#endif  // FUSEWIRE_REACTOR_CURRENT_HOME_H_
