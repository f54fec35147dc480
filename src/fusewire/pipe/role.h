// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which end of a connection a pipe is at.
#pragma once

namespace fusewire::pipe {

enum class Role { kDialer, kAcceptor };

}  // namespace fusewire::pipe
