// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := piece_bytes:u8 stream
// The control messages over the lower transport, in pieces: never more room than a message may have, and a message that
// is taken encodes to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/transport/ucx/control_message.h"

namespace fusewire::transport {
namespace {

constexpr size_t kWordsBytesMax = 2000;

void CheckSame(const UcxControlReader& reader, ConstBytes taken) {
  if (!reader.address().empty() && !HasAddress(reader.message().kind)) return;  // which nobody here would write
  std::vector<uint8_t> again;
  EncodeControl(reader.message(), reader.address(), &again);
  FUSEWIRE_CHECK(again.size() == taken.size);
  FUSEWIRE_CHECK(std::equal(again.begin(), again.end(), taken.data));
}

void Try(size_t piece_bytes, ConstBytes in) {
  while (!in.empty()) {
    const AllocatedBytes allocated;
    UcxControlReader reader;
    const ConstBytes begin = in;
    auto state = UcxControlReader::State::kPartial;
    while (state == UcxControlReader::State::kPartial) {
      const Bytes room = reader.room();
      FUSEWIRE_CHECK(room.size > 0);
      FUSEWIRE_CHECK(room.size <= kUcxControlBytes + kUcxAddressBytesMax);
      const size_t bytes = std::min({room.size, piece_bytes, in.size});
      if (bytes == 0) return;
      CopyBytes(Bytes(room.data, bytes), in.Sub(0, bytes));
      in = in.From(bytes);
      state = reader.OnLanded(bytes);
    }
    if (state == UcxControlReader::State::kStranger) {
      FUSEWIRE_CHECK(reader.begun().size == begin.size - in.size);
      return;
    }
    if (state == UcxControlReader::State::kCorrupt) {
      FUSEWIRE_CHECK(reader.why().code() == Code::kCorrupt);
      FUSEWIRE_CHECK(allocated.sum() <= kWordsBytesMax + 4 * begin.size + kUcxAddressBytesMax);
      return;
    }
    CheckSame(reader, begin.Sub(0, begin.size - in.size));
  }
}

}  // namespace
}  // namespace fusewire::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  fusewire::transport::Try(data[0] + size_t{1}, fusewire::ConstBytes(data + 1, size - 1));
  return 0;
}
