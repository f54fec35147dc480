// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/group_notes.h"

#include <algorithm>

#include "fusewire/wire/coder.h"

namespace fusewire {
namespace collective {
namespace {

constexpr uint8_t kNoteVersion = 1;
constexpr size_t kTextBytesMax = 1000;

void AppendShort(std::string* out, const std::string& text) {
  wire::AppendText(out, text.data(), std::min(text.size(), kTextBytesMax));
}

}  // namespace

std::string EncodeNote(const Note& note) {
  std::string out;
  wire::Append(&out, kNoteVersion);
  wire::Append(&out, static_cast<uint8_t>(note.verb));
  wire::Append(&out, note.epoch);
  wire::Append(&out, note.round);
  uint8_t print[kFingerprintBytes];
  EncodeFingerprint(note.print, Bytes(print, sizeof(print)));
  out.append(reinterpret_cast<const char*>(print), sizeof(print));
  wire::Append(&out, static_cast<uint8_t>(note.status.code()));
  AppendShort(&out, note.status.cause());
  AppendShort(&out, note.status.peer());
  AppendShort(&out, note.status.next());
  wire::Append(&out, static_cast<uint32_t>(note.seats.size()));
  for (size_t i = 0; i < note.seats.size(); i += 8) {
    uint8_t bits = 0;
    for (size_t j = i; j < std::min(note.seats.size(), i + 8); ++j) {
      bits = static_cast<uint8_t>(bits | ((note.seats[j] ? 1 : 0) << (j - i)));
    }
    wire::Append(&out, bits);
  }
  return out;
}

Result<Note> DecodeNote(ConstBytes in) {
  wire::Reader reader(in);
  Note note;
  const auto version = reader.Number<uint8_t>();
  const auto verb = reader.Number<uint8_t>();
  note.epoch = reader.Number<uint32_t>();
  note.round = reader.Number<uint64_t>();
  const ConstBytes print = reader.Take(kFingerprintBytes);
  const auto code = reader.Number<uint8_t>();
  const ConstBytes cause = reader.Text();
  const ConstBytes peer = reader.Text();
  const ConstBytes next = reader.Text();
  const auto seats = reader.Number<uint32_t>();
  const ConstBytes bits = reader.Take(seats <= kNoteSeatsMax ? (seats + 7) / 8 : SIZE_MAX);
  const bool short_enough = std::max({cause.size, peer.size, next.size}) <= kTextBytesMax;
  const bool known = version == kNoteVersion && verb >= 1 && verb <= static_cast<uint8_t>(NoteVerb::kDecided);
  if (!reader.ok() || !known || !short_enough || code > kCodeMax || !reader.left().empty())
    return Status::Corrupt("a note of " + std::to_string(in.size) + " bytes that no member of a group would write");
  note.verb = static_cast<NoteVerb>(verb);
  Result<Fingerprint> decoded = DecodeFingerprint(print);
  if (!decoded.ok()) return decoded.status();
  note.print = decoded.value();
  if (code != 0) {
    note.status = Status(static_cast<Code>(code), cause.ToString());
    if (!peer.empty()) note.status = note.status.Peer(peer.ToString());
    if (!next.empty()) note.status = note.status.Next(next.ToString());
  }
  note.seats.resize(seats);
  for (uint32_t i = 0; i < seats; ++i) note.seats[i] = (bits.data[i / 8] >> (i % 8) & 1) != 0;
  return note;
}

}  // namespace collective
}  // namespace fusewire
