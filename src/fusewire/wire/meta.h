// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The head that all layers above use: a Status as text.
// Home: none, pure functions. Fails: Decode* returns kCorrupt and has then changed nothing.
//   status := app_code:u32 cause:text peer:text phase:text next:text    text := bytes:u16 u8[bytes]
#pragma once

#include <cstddef>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::wire {

constexpr size_t kStatusTextBytesMax = 8192;  // for each text of a Status that we send; a longer text is truncated

// Appends the texts of an error; its code is in the frame header's aux.
void AppendStatus(const Status& status, std::string* out);
// Reads the peer's status into *out. The result says whether it could be read.
Status DecodeStatus(Code code, ConstBytes in, Status* out);

}  // namespace fusewire::wire
