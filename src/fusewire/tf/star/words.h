// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages between a worker and a parameter server about parts of graphs.
//   place (kPlacePart)  := session:text fingerprint:text, and in the body, if it is asked for, the part as TensorFlow
//                          registers a partition: a RegisterGraphRequest
//   answer              := status [part:u64]       0: the part is not known here, send it
//   run (kRunPart)      := part:u64 step:u64 flags:u8 tensor*
//   answer              := status [tensor* [stats:text]]
//   keep (kKeepValues)  := session:text step:u64 (number:varint takers:varint tensor)*     between parameter servers
//   answer              := nothing
#pragma once

#include <cstdint>

#include "fusewire/tf/heads/calls.h"

namespace fusewire::tf {

// An application error of kRunPart: place the part again.
constexpr uint32_t kUnknownPart = 2;

}  // namespace fusewire::tf
