// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Checksums over another transport.
//   stream := preamble record*
//   preamble := "FWSUM" 0:u8 version:u16, 8 bytes
//   record := bytes:u32 check:u32 u8[bytes]; check is the CRC-32C of bytes and u8[bytes]; 1 to 16384 bytes
// Numbers are little-endian. It protects from accidents, not from people: see TLS.
#include <algorithm>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/transport/layer_connection.h"
#include "fusewire/transport/transports.h"
#include "fusewire/wire/coder.h"
#include "fusewire/wire/wire.h"

namespace fusewire::transport {
namespace {

constexpr char kPreamble[] = {'F', 'W', 'S', 'U', 'M', 0, 1, 0};
constexpr size_t kHeadBytes = 8;
constexpr uint32_t kRecordBytesMax = 16 * 1024;

class ChecksumSession final : public Session {
 public:
  const char* wire() const override { return "checksum"; }

  // It says nothing first, so that a connection to which nothing was written can move to another home.
  Status Handshake() override {
    SetReady();
    return Status::Ok();
  }

  Result<size_t> Read(Bytes into) override {
    FUSEWIRE_DCHECK(is_ready());
    if (checked_ == 0) {
      Status status = met_ ? Status::Ok() : Meet();
      if (status.ok() && met_) status = CheckRecord();
      if (!status.ok()) return status;
    }
    const size_t taken = Take(Bytes(into.data, std::min<size_t>(into.size, checked_)));
    checked_ -= taken;
    return taken;
  }

  Status Write(ConstBytes said) override {
    FUSEWIRE_DCHECK(is_ready());
    if (!greeted_) Put(ConstBytes(kPreamble, sizeof(kPreamble)));
    greeted_ = true;
    while (!said.empty()) {
      // The copy first: the caller's memory may change meanwhile, as a variable's does.
      const auto bytes = static_cast<uint32_t>(std::min<size_t>(said.size, kRecordBytesMax));
      CopyBytes(Bytes(record_ + kHeadBytes, bytes), said.Sub(0, bytes));
      wire::Store<uint32_t>(record_, bytes);
      wire::Store<uint32_t>(record_ + 4, CheckOf(ConstBytes(record_, kHeadBytes + bytes)));
      Put(ConstBytes(record_, kHeadBytes + bytes));
      said = said.From(bytes);
    }
    return Status::Ok();
  }

 private:
  static uint32_t CheckOf(ConstBytes record) {
    return wire::Crc32c(record.From(kHeadBytes), wire::Crc32c(record.Sub(0, 4)));
  }

  Status Meet() {
    const ConstBytes preamble = Peek(sizeof(kPreamble));
    if (preamble.empty()) return Status::Ok();
    if (!std::equal(preamble.data, preamble.data + preamble.size, ConstBytes(kPreamble, sizeof(kPreamble)).data)) {
      return Status::Corrupt("the peer's data has no checksums").Next("set FUSEWIRE_CHECKSUM to the same at all tasks");
    }
    Drop(sizeof(kPreamble));
    met_ = true;
    return Status::Ok();
  }

  // Of the next record, if all of it has come.
  Status CheckRecord() {
    const ConstBytes head = Peek(kHeadBytes);
    if (head.empty()) return Status::Ok();
    const auto bytes = wire::Load<uint32_t>(head.data);
    const auto check = wire::Load<uint32_t>(head.data + 4);
    if (bytes == 0 || bytes > kRecordBytesMax) return Changed("a record has " + std::to_string(bytes) + " bytes");
    const ConstBytes record = Peek(kHeadBytes + bytes);
    if (record.empty()) return Status::Ok();
    if (CheckOf(record) != check) return Changed("the checksum of a record does not match");
    Drop(kHeadBytes);
    checked_ = bytes;
    return Status::Ok();
  }

  static Status Changed(const std::string& what) {
    return Status::Corrupt(what + ": bytes were changed on their way")
        .Next("check the memory and the network cards of both hosts, and what is between them");
  }

  bool greeted_ = false, met_ = false;
  uint32_t checked_ = 0;  // bytes of the current record that were not read yet
  uint8_t record_[kHeadBytes + kRecordBytesMax];
};

}  // namespace

std::unique_ptr<Session> MakeChecksumSession() { return std::make_unique<ChecksumSession>(); }

std::unique_ptr<Transport> MakeChecksum(std::unique_ptr<Transport> beneath) {
  return MakeLayer(std::move(beneath), 0,
                   [](bool) -> Result<std::unique_ptr<Session>> { return MakeChecksumSession(); });
}

}  // namespace fusewire::transport
