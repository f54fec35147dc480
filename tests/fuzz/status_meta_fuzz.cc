// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := code:u8 status
#include <cstddef>
#include <cstdint>
#include <string>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/wire/wire.h"

namespace fusewire::wire {
namespace {

constexpr size_t kCopiesMax = 8;         // each detail that is added to a Status copies those before it
constexpr size_t kWordsBytesMax = 2000;  // for the Status itself, or an error

bool FitsUncut(const Status& status) {
  for (const std::string* text : {&status.cause(), &status.peer(), &status.phase(), &status.next()}) {
    if (text->size() > kStatusTextBytesMax) return false;
  }
  return true;
}

void CheckSame(const Status& left, const Status& right) {
  FUSEWIRE_CHECK(left.code() == right.code());
  FUSEWIRE_CHECK(left.app_code() == right.app_code());
  FUSEWIRE_CHECK(left.cause() == right.cause());
  FUSEWIRE_CHECK(left.peer() == right.peer());
  FUSEWIRE_CHECK(left.phase() == right.phase());
  FUSEWIRE_CHECK(left.next() == right.next());
}

void Try(Code code, ConstBytes in) {
  const Status untouched = Status::Internal("untouched");
  Status said = untouched;
  const AllocatedBytes allocated;
  const Status read = DecodeStatus(code, in, &said);
  FUSEWIRE_CHECK(allocated.sum() <= in.size * kCopiesMax + kWordsBytesMax);
  if (!read.ok()) {
    FUSEWIRE_CHECK(read.code() == Code::kCorrupt);
    CheckSame(said, untouched);
    return;
  }
  FUSEWIRE_CHECK(said.code() == code);
  FUSEWIRE_CHECK(said.cause().size() + said.peer().size() + said.phase().size() + said.next().size() + 12 == in.size);
  std::string encoded;
  AppendStatus(said, &encoded);
  if (FitsUncut(said)) FUSEWIRE_CHECK(encoded == in.ToString());
  // A text that was cut is not cut again.
  Status again;
  FUSEWIRE_CHECK(DecodeStatus(code, encoded, &again).ok());
  FUSEWIRE_CHECK(FitsUncut(again));
  std::string encoded_again;
  AppendStatus(again, &encoded_again);
  FUSEWIRE_CHECK(encoded_again == encoded);
}

}  // namespace
}  // namespace fusewire::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto code = static_cast<fusewire::Code>(data[0] % fusewire::kCodeMax + 1);
  fusewire::wire::Try(code, fusewire::ConstBytes(data + 1, size - 1));
  return 0;
}
