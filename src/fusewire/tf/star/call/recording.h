// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// FUSEWIRE_STAR_RECORD: an observer that writes all requests of this task's steps to parameter servers to a file, for
// inspection or for a load generator (bench/replay). Home: any thread. Owns: the file, for the life of the process.
// Fails: it logs the error and stops recording; steps are not affected.
//   file   := "FWRECORD" record*
//   record := kind:u8 address:text part:u64 rest
//   kPlacePart rest := session:text fingerprint:text    the part stands at the address under this number
//   kRunPart   rest := head:text segments:varint text*  one call; calls of a step share its number in their heads
#pragma once

#include <cstdint>
#include <string>

namespace fusewire::tf {

// The largest record.
constexpr uint64_t kRecordBytesMax = 1u << 30;

// Starts a new file, unless this one is being written already; from then on the recording is the process's observer.
// Empty: none.
void RecordTo(const std::string& path);

}  // namespace fusewire::tf
