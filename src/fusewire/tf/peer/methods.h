// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The methods that tasks call at each other, by number, and the formats of their messages.
//   A method of TensorFlow's WorkerService carries its protobufs: the request in the head, or, when it is long, in the
//   one segment of the body; answer := status content, the content likewise.
//   receive: wants (peer/keys.h) -> answer*, in parts as they get ready
//   answer  := index:varint kind:u8 [status | tensor]
#pragma once

#include <cstdint>

#include "fusewire/tf/heads/receives.h"

namespace fusewire::tf {

enum MethodNumber : uint16_t {
  kRunGraph = 1,  // request := cleanups:varint step:u64[cleanups] proto
  kRegisterGraph = 2,
  kDeregisterGraph = 3,
  kCleanupGraph = 4,  // request := cleanups:varint step:u64[cleanups]
  kCleanupAll = 5,
  kReceive = 6,
  kReceiveBuffer = 7,
  kCompleteInstance = 9,
  kGetStepSequence = 10,
  kAbortStep = 11,  // request := step:u64
  kPlacePart = 12,  // star/words.h
  kRunPart = 13,
  kKeepValues = 14,
  kEcho = 15,  // request := bytes:u64; answer := so many bytes of no meaning, head: the wire
};

// An application error of kReceive: send the keys again.
constexpr uint32_t kUnknownKeys = 1;
}  // namespace fusewire::tf
