// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// FUSEWIRE_STAR_RECORD: all requests of this task's steps to parameter servers are written to a file, for inspection or
// for a load generator (bench/replay). Without it, a request costs one load. Home: any thread. Owns: the file, for the
// life of the process. Fails: it logs the error and stops recording; steps are not affected.
//   file   := "FWRECORD" record*
//   record := kind:u8 address:text part:u64 rest
//   kPlacePart rest := session:text fingerprint:text    the part stands at the address under this number
//   kRunPart   rest := head:text segments:varint text*  one call; calls of a step share its number in their heads
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "fusewire/buffer/buffer.h"
#include "fusewire/transport/transport.h"

namespace fusewire::tf {

// The largest record.
constexpr uint64_t kRecordBytesMax = 1u << 30;

// Starts a new file, unless this one is being written already. Empty: none.
void RecordTo(const std::string& path);

inline std::atomic<bool> records_calls{false};
inline bool RecordsCalls() { return records_calls.load(std::memory_order_acquire); }

// Any thread, several at once, while RecordsCalls(). The part is placed at the address, under this number.
void RecordPlaced(const transport::Address& address, uint64_t part, const std::string& session,
                  const std::string& fingerprint);
// The same. This is about to be sent, see heads/calls.h.
void RecordRun(const transport::Address& address, uint64_t part, const std::string& head, const Buffers& body);

}  // namespace fusewire::tf
