// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := message
// The messages between members of a group: a control message with its fingerprint, or a fingerprint alone. An accepted
// message encodes to the same bytes, takes no more memory than its bytes justify, and can be described, whatever its
// numbers.
#include <cstddef>
#include <cstdint>
#include <string>

#include "allocations.h"
#include "fusewire/base/check.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/run/fingerprint.h"

namespace fusewire::collective {
namespace {

constexpr size_t kWordsBytesMax = 2000;

void TryFingerprint(ConstBytes in) {
  Result<Fingerprint> print = DecodeFingerprint(in);
  if (!print.ok()) {
    FUSEWIRE_CHECK(print.status().code() == Code::kCorrupt);
    return;
  }
  FUSEWIRE_CHECK(print.value().Describe().size() < 500);
  std::string again(kFingerprintBytes, '\0');
  EncodeFingerprint(print.value(), Bytes(again.data(), again.size()));
  FUSEWIRE_CHECK(again == in.ToString());
}

void TryControl(ConstBytes in) {
  const AllocatedBytes allocated;
  Result<ControlMessage> read = DecodeControl(in);
  FUSEWIRE_CHECK(allocated.sum() <= kWordsBytesMax + 4 * in.size);
  if (!read.ok()) {
    FUSEWIRE_CHECK(read.status().code() == Code::kCorrupt);
    return;
  }
  FUSEWIRE_CHECK(read.value().print.Describe().size() < 500);
  FUSEWIRE_CHECK(read.value().seats.size() <= kControlSeatsMax);
  // Texts may have been cut, and bits behind the last seat mean nothing: what is said again is read the same.
  const std::string again = EncodeControl(read.value());
  Result<ControlMessage> twice = DecodeControl(again);
  FUSEWIRE_CHECK(twice.ok());
  FUSEWIRE_CHECK(twice.value().seats == read.value().seats);
  FUSEWIRE_CHECK(twice.value().print == read.value().print);
  FUSEWIRE_CHECK(EncodeControl(twice.value()) == again);
}

}  // namespace
}  // namespace fusewire::collective

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > fusewire::collective::kControlBytesMax) return 0;
  fusewire::collective::TryFingerprint(fusewire::ConstBytes(data, size));
  fusewire::collective::TryControl(fusewire::ConstBytes(data, size));
  return 0;
}
