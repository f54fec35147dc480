// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The memory of answers that their callers have not taken yet. A request is the caller's credit again when its answer
// begins, so without a limit of its own here, a caller that asks and does not read could fill all memory with answers.
// Counts memory that exists for an answer alone (Buffer::is_own()): what a handler lends is its own anyway.
// Home: any thread; one sum for all servers of a process. Owns: a sum. Fails: Hold, with kOverloaded.
#pragma once

#include <cstdint>

#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"

namespace fusewire::rpc {

// Any thread. Counts the body until its last own segment is released. An answer that waits alone is held, however long.
Status HoldAnswer(Buffers* body, uint64_t bytes_max);
// Any thread.
uint64_t HeldAnswerBytes();

}  // namespace fusewire::rpc
