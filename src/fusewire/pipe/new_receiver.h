// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a service makes what serves a new pipe of its own.
#pragma once

#include <memory>

#include "fusewire/base/unique_function.h"
#include "fusewire/pipe/pipe.h"

namespace fusewire::pipe {

// Makes the receiver of a new pipe. Called at the pipe's home, on any reactor of the pool; the pipe outlives the
// receiver, which is destroyed at home after OnClosed, or without it when the acceptor goes.
using NewReceiver = UniqueFunction<std::unique_ptr<Receiver>(Pipe& pipe)>;

}  // namespace fusewire::pipe
