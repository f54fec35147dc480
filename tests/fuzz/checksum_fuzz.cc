// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := greets:u8 piece:u8 op[...]      op := what:u8 bytes[...], see Append
// A stream of records with right and wrong checks comes in pieces. What is read of it is what a reader of the whole
// stream finds before the first fault; the fault ends it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/transport/layer_session.h"
#include "fusewire/wire/coder.h"
#include "fusewire/wire/wire.h"
#include "op_bytes.h"

namespace fusewire::transport {
namespace {

constexpr size_t kHeadBytes = 8, kRecordBytesMax = 16 * 1024;
const std::string kPreamble("FWSUM\0\1\0", 8);

uint32_t CheckOf(const std::string& record) {
  return wire::Crc32c(ConstBytes(record).From(kHeadBytes), wire::Crc32c(ConstBytes(record).Sub(0, 4)));
}

void Append(OpBytes* in, std::string* stream) {
  const uint8_t what = in->Next();
  const std::string text = in->Text(what % 8 == 0 ? 0 : 200) + std::string(what % 8 == 1 ? 16300 : 0, 'x');
  if (what % 4 == 3) {
    *stream += text;
    return;
  }
  std::string record;
  wire::Append(&record, static_cast<uint32_t>(text.size()));
  wire::Append(&record, uint32_t{0});
  record += text;
  const uint32_t check = CheckOf(record);
  wire::Store(reinterpret_cast<uint8_t*>(record.data()) + 4, check);
  if (what % 4 == 2) record[in->Next() % record.size()] ^= static_cast<char>(in->Next());
  *stream += record;
}

// What a reader of the whole stream delivers, and whether it ends in a fault.
std::string Delivered(const std::string& stream, bool* is_faulty) {
  *is_faulty = stream.size() >= kPreamble.size() && stream.compare(0, kPreamble.size(), kPreamble) != 0;
  std::string delivered;
  size_t at = kPreamble.size();
  while (!*is_faulty && stream.size() >= at + kHeadBytes) {
    const auto* head = reinterpret_cast<const uint8_t*>(stream.data()) + at;
    const size_t bytes = wire::Load<uint32_t>(head);
    *is_faulty = bytes == 0 || bytes > kRecordBytesMax;
    if (*is_faulty || stream.size() < at + kHeadBytes + bytes) break;
    const std::string record = stream.substr(at, kHeadBytes + bytes);
    *is_faulty = CheckOf(record) != wire::Load<uint32_t>(head + 4);
    if (!*is_faulty) delivered += record.substr(kHeadBytes);
    at += record.size();
  }
  return delivered;
}

void Run(OpBytes* in) {
  std::string stream = in->Next() % 8 == 0 ? "" : kPreamble;
  const size_t piece = 1 + in->Next() * 11;
  while (!in->empty()) Append(in, &stream);
  std::unique_ptr<Session> session = MakeChecksumSession();
  FUSEWIRE_CHECK(session->Handshake().ok());
  std::string heard;
  Status status;
  for (size_t at = 0; at < stream.size() && status.ok(); at += piece) {
    session->Feed(ConstBytes(stream).Sub(at, std::min(piece, stream.size() - at)));
    uint8_t room[700];
    for (size_t got = 1; got > 0 && status.ok();) {
      Result<size_t> read = session->Read(Bytes(room, sizeof(room)));
      status = read.status();
      got = read.ok() ? read.value() : 0;
      heard.append(reinterpret_cast<const char*>(room), got);
    }
    session->KeepRest();
  }
  bool is_faulty = false;
  FUSEWIRE_CHECK(heard == Delivered(stream, &is_faulty));
  FUSEWIRE_CHECK(status.ok() != is_faulty);
  FUSEWIRE_CHECK(status.ok() || status.code() == Code::kCorrupt);
}

}  // namespace
}  // namespace fusewire::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4000) return 0;
  fusewire::OpBytes in(data, size);
  fusewire::transport::Run(&in);
  return 0;
}
