// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which end of a connection a pipe is at.
#ifndef FUSEWIRE_PIPE_ROLE_H_
#define FUSEWIRE_PIPE_ROLE_H_

namespace fusewire {
namespace pipe {

enum class Role { kDialer, kAcceptor };

}  // namespace pipe
}  // namespace fusewire

#endif  // FUSEWIRE_PIPE_ROLE_H_
