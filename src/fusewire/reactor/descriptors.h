// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How many descriptors this process may have.
// Home: any thread. Fails: never; a limit that can't be read or raised is taken as it is.
#pragma once

#include <cstdint>

namespace fusewire::reactor {

// The soft limit. The first call raises it to the hard one, but not beyond a million, as some programs close every
// number up to it. Only select() needs a low limit, and only if it is called with a high number.
uint64_t DescriptorsMax();

}  // namespace fusewire::reactor
