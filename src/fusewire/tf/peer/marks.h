// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Under which names the operations of this plug-in are recorded (observe/recorder.h): made once for each key, part or
// method, and kept beside it.
// Home: any thread, pure functions but for the recorder's table of names. Fails: never; without a
// recorder, and for a key that can't be read, all marks are the same.
#pragma once

#include <cstdint>
#include <string>

#include <absl/strings/string_view.h>
#include <tensorflow/core/framework/rendezvous.h>
#include "fusewire/observe/recorder.h"

namespace fusewire::tf {

struct Mark {
  uint32_t tag = 0;
  uint64_t hash = 0;  // the same at both ends
};

// `key` is without the frame: it ends with ';'.
Mark MarkReceive(absl::string_view key);
Mark MarkProvide(absl::string_view key, const tensorflow::Rendezvous::ParsedKey& parsed);
// One operation of a step, at either end. 0 is none.
uint64_t FlowOf(const Mark& mark, int64_t step);
// A run of a part: the number that the task which runs it has given to the part.
Mark MarkRun(observe::Kind kind, absl::string_view task, absl::string_view peer, absl::string_view name,
             absl::string_view runner, uint64_t part);

}  // namespace fusewire::tf
