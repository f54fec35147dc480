// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/call/recording.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/varint.h"
#include "fusewire/tf/peer/methods.h"

namespace fusewire {
namespace tf {

std::atomic<bool> is_recording{false};

namespace {

Mutex mutex;
std::FILE* file FUSEWIRE_GUARDED_BY(mutex) = nullptr;
uint64_t recorded_bytes FUSEWIRE_GUARDED_BY(mutex) = 0;

std::string& Path() FUSEWIRE_REQUIRES(mutex) {
  static auto* path = new std::string;  // never freed: threads may outlive main
  return *path;
}

void Stop(const char* why) FUSEWIRE_REQUIRES(mutex) {
  is_recording.store(false, std::memory_order_relaxed);
  FUSEWIRE_LOG(kWarn, "the record %s ends: %s", Path().c_str(), why);
  if (file != nullptr) std::fclose(file);
  file = nullptr;
}

// Whoever reads the file while it grows finds whole records: each goes out at once.
void Write(const std::string& record) {
  MutexLock lock(mutex);
  if (file == nullptr) return;
  recorded_bytes += record.size();
  if (recorded_bytes > kRecordBytesMax) {
    Stop("it has reached its limit");
  } else if (std::fwrite(record.data(), 1, record.size(), file) != record.size() || std::fflush(file) != 0) {
    Stop(std::strerror(errno));
  }
}

std::string Begin(MethodNumber kind, const transport::Address& address, uint64_t part) {
  std::string record(1, static_cast<char>(kind));
  AppendText(&record, address.ToString());
  AppendFixed64(&record, part);
  return record;
}

}  // namespace

void RecordTo(const std::string& path) {
  MutexLock lock(mutex);
  if (path.empty() || path == Path()) return;
  if (file != nullptr) std::fclose(file);
  Path() = path;
  recorded_bytes = 0;
  file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite("FWRECORD", 8, 1, file) != 1) {
    Stop(std::strerror(errno));
    return;
  }
  is_recording.store(true, std::memory_order_relaxed);
}

void RecordPlaced(const transport::Address& address, uint64_t part, const std::string& session,
                  const std::string& fingerprint) {
  std::string record = Begin(kPlacePart, address, part);
  AppendText(&record, session);
  AppendText(&record, fingerprint);
  Write(record);
}

void RecordRun(const transport::Address& address, uint64_t part, const std::string& head, const Buffers& body) {
  std::string record = Begin(kRunPart, address, part);
  AppendText(&record, head);
  AppendVarint(&record, body.size());
  for (const Buffer& segment : body)
    AppendText(&record, reinterpret_cast<const char*>(segment.bytes().data), segment.size());
  Write(record);
}

}  // namespace tf
}  // namespace fusewire
