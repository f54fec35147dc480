// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "fusewire/base/check.h"

namespace fusewire {
namespace {

struct Target {
  LogSink sink;
  void* context;
  const Target* replaced;
};

std::atomic<int> min_level{static_cast<int>(LogLevel::kWarn)};
// Replaced as a whole; the old sink is kept, as a thread may still be writing a line to it. Setting a sink is rare.
std::atomic<const Target*> target{nullptr};

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarn: return "warn";
    case LogLevel::kError: return "error";
    case LogLevel::kOff: break;
  }
  return "off";
}

void WriteToStderr(LogLevel level, const char* text) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &parts);
  char line[1200];
  int length = std::snprintf(line, sizeof(line), "%s.%03ldZ fusewire %s: %s\n", stamp, now.tv_nsec / 1000000,
                             LevelName(level), text);
  if (length < 0) return;
  if (static_cast<size_t>(length) >= sizeof(line)) {
    length = sizeof(line) - 1;
    line[length - 1] = '\n';
  }
  // One write per line, so lines of several threads don't mix.
  ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
  (void)written;
}

}  // namespace

void SetLogSink(LogSink sink, void* context) {
  auto* next = new Target{sink, context, target.load(std::memory_order_relaxed)};
  while (!target.compare_exchange_weak(next->replaced, next, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void SetLogLevel(LogLevel level) { min_level.store(static_cast<int>(level), std::memory_order_relaxed); }

LogLevel GetLogLevel() { return static_cast<LogLevel>(min_level.load(std::memory_order_relaxed)); }

void WriteLog(LogLevel level, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  // It may contain text from a peer, which must not look like a second line.
  for (char* at = text; *at != 0; ++at) {
    if (static_cast<unsigned char>(*at) < 0x20) *at = ' ';
  }
  const Target* to = target.load(std::memory_order_acquire);
  if (to != nullptr && to->sink != nullptr) {
    to->sink(level, text, to->context);
  } else {
    WriteToStderr(level, text);
  }
}

bool LogLimiter::Allow(int64_t now_ns, uint64_t* suppressed) {
  int64_t next = next_ns_.load(std::memory_order_relaxed);
  if (now_ns < next || !next_ns_.compare_exchange_strong(next, now_ns + interval_ns_, std::memory_order_relaxed)) {
    held_back_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  *suppressed = held_back_.exchange(0, std::memory_order_relaxed);
  return true;
}

// Not by WriteLog: the log itself may be broken.
void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "fusewire: broken promise at %s:%d: %s. This is a bug in Fusewire: please report this line.\n",
               file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace fusewire
