// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/meta.h"

#include <algorithm>

#include "fusewire/wire/coder.h"

namespace fusewire::wire {
namespace {

// Not in the middle of a UTF-8 character.
void AppendCutText(const std::string& text, std::string* out) {
  size_t size = std::min(text.size(), kStatusTextBytesMax);
  if (size < text.size()) {
    while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xc0) == 0x80) --size;
  }
  AppendText(out, text.data(), size);
}

}  // namespace

void AppendStatus(const Status& status, std::string* out) {
  Append(out, status.app_code());
  AppendCutText(status.cause(), out);
  AppendCutText(status.peer(), out);
  AppendCutText(status.phase(), out);
  AppendCutText(status.next(), out);
}

Status DecodeStatus(Code code, ConstBytes in, Status* out) {
  Reader reader(in);
  const uint32_t app_code = reader.Number<uint32_t>();
  const ConstBytes cause = reader.Text();
  const ConstBytes peer = reader.Text();
  const ConstBytes phase = reader.Text();
  const ConstBytes next = reader.Text();
  if (!reader.ok()) return Truncated("status");
  if (!reader.left().empty()) {
    return Status::Corrupt("status: " + std::to_string(reader.left().size) + " bytes behind its end");
  }
  if (app_code != 0 && code != Code::kApplication) {
    return Status::Corrupt("status: app_code " + std::to_string(app_code) + " with code " + CodeName(code));
  }
  Status status =
      code == Code::kApplication ? Status::Application(app_code, cause.ToString()) : Status(code, cause.ToString());
  *out = status.Peer(peer.ToString()).Phase(phase.ToString()).Next(next.ToString());
  return Status();
}

}  // namespace fusewire::wire
