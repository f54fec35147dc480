// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Apart from home.h, which sources of C++17 include.
#pragma once

namespace fusewire::reactor {

class Home;

// The home of this thread, if it is at one. Handover sets it (handover.h); Home::AtHome reads it.
extern thread_local constinit const Home* current_home;

}  // namespace fusewire::reactor
