// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/call/recording.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {
namespace {

class Recording {
 public:
  void Begin(const std::string& path) {
    MutexLock lock(mutex_);
    if (path == path_) return;
    if (file_ != nullptr) std::fclose(file_);
    path_ = path;
    recorded_bytes_ = 0;
    file_ = std::fopen(path.c_str(), "wb");
    if (file_ == nullptr || std::fwrite("FWRECORD", 8, 1, file_) != 1) return Stop(std::strerror(errno));
    records_calls.store(true, std::memory_order_release);
  }

  // Each record is one write: a reader of the growing file finds whole records.
  void Write(const std::string& record) {
    MutexLock lock(mutex_);
    if (file_ == nullptr) return;
    recorded_bytes_ += record.size();
    if (recorded_bytes_ > kRecordBytesMax) {
      Stop("it has reached its limit");
    } else if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() || std::fflush(file_) != 0) {
      Stop(std::strerror(errno));
    }
  }

 private:
  void Stop(const char* why) FUSEWIRE_REQUIRES(mutex_) {
    records_calls.store(false, std::memory_order_release);
    FUSEWIRE_LOG(kWarn, "the record %s ends: %s", path_.c_str(), why);
    if (file_ != nullptr) std::fclose(file_);
    file_ = nullptr;
  }

  Mutex mutex_;
  std::FILE* file_ FUSEWIRE_GUARDED_BY(mutex_) = nullptr;
  uint64_t recorded_bytes_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::string path_ FUSEWIRE_GUARDED_BY(mutex_);
};

Recording& TheRecording() {
  static auto* recording = new Recording;  // never freed: threads may outlive main
  return *recording;
}

std::string Start(MethodNumber kind, const transport::Address& address, uint64_t part) {
  FUSEWIRE_DCHECK(part != 0);  // no server gives this number
  std::string record(1, static_cast<char>(kind));
  AppendText(&record, address.ToString());
  AppendFixed64(&record, part);
  return record;
}

}  // namespace

void RecordTo(const std::string& path) {
  if (!path.empty()) TheRecording().Begin(path);
}

void RecordPlaced(const transport::Address& address, uint64_t part, const std::string& session,
                  const std::string& fingerprint) {
  std::string record = Start(kPlacePart, address, part);
  AppendText(&record, session);
  AppendText(&record, fingerprint);
  TheRecording().Write(record);
}

void RecordRun(const transport::Address& address, uint64_t part, const std::string& head, const Buffers& body) {
  std::string record = Start(kRunPart, address, part);
  AppendText(&record, head);
  AppendVarint(&record, body.size());
  for (const Buffer& segment : body)
    AppendText(&record, reinterpret_cast<const char*>(segment.bytes().data), segment.size());
  TheRecording().Write(record);
}

}  // namespace fusewire::tf
