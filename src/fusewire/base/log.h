// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Log lines, one fact each, to stderr or to a sink of the host program.
//   FUSEWIRE_LOG(kWarn, "pipe %u closed: %s", id, status.ToString().c_str());
// Home: any thread. Fails: never; a line that cannot be written is lost.
#pragma once

#include <atomic>
#include <cstdint>

namespace fusewire {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kOff = 4 };

// Receives lines; `line` has no newline at its end and is valid during the call. Called from any thread.
using LogSink = void (*)(LogLevel level, const char* line, void* context);

// Any thread. A null sink means stderr.
void SetLogSink(LogSink sink, void* context);
// Any thread. Lines below this level cost one comparison. The default is kWarn.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void WriteLog(LogLevel level, const char* format, ...);

// Permits one line per interval and counts the others, so that a scanner can't fill a disk.
class LogLimiter {
 public:
  explicit LogLimiter(int64_t interval_ns) : interval_ns_(interval_ns) {}
  // Any thread. True if the line may be written; *suppressed is then the number of lines suppressed before it.
  bool Allow(int64_t now_ns, uint64_t* suppressed);

 private:
  const int64_t interval_ns_;
  std::atomic<int64_t> next_ns_{0};
  std::atomic<uint64_t> held_back_{0};
};

}  // namespace fusewire

#define FUSEWIRE_LOG(level, ...)                                      \
  do {                                                                \
    if (::fusewire::LogLevel::level >= ::fusewire::GetLogLevel())     \
      ::fusewire::WriteLog(::fusewire::LogLevel::level, __VA_ARGS__); \
  } while (false)
