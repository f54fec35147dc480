// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Status says how an operation ended: a code that implies what to do next, and for an error which peer was
// involved, what was being done, why it failed, since when, and what to do.
// Home: any thread; values are immutable. Owns: its text. See docs/errors.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/unique_function.h"

namespace fusewire {

enum class Code : uint8_t {
  kOk = 0,
  kInvalid = 1,      // fix the call
  kUnavailable = 2,  // the peer can't be reached: reconnect, retry
  kOverloaded = 3,   // a limit was reached: back off
  kTimeout = 4,      // the deadline passed: the outcome is unknown
  kCancelled = 5,    // you asked for it
  kCorrupt = 6,      // the peer violated the protocol: its pipe is closed
  kRefused = 7,      // the peer refused us, or we refused it: fix the settings
  kApplication = 8,  // the peer's handler failed; app_code() is its own number
  kInternal = 9,     // a bug of ours: report it
};
constexpr uint8_t kCodeMax = 9;

// "ok", "invalid", ...
const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string cause);

  static Status Ok() { return Status(); }
  static Status Invalid(std::string cause) { return Status(Code::kInvalid, std::move(cause)); }
  static Status Unavailable(std::string cause) { return Status(Code::kUnavailable, std::move(cause)); }
  static Status Overloaded(std::string cause) { return Status(Code::kOverloaded, std::move(cause)); }
  static Status Timeout(std::string cause) { return Status(Code::kTimeout, std::move(cause)); }
  static Status Cancelled(std::string cause) { return Status(Code::kCancelled, std::move(cause)); }
  static Status Corrupt(std::string cause) { return Status(Code::kCorrupt, std::move(cause)); }
  static Status Refused(std::string cause) { return Status(Code::kRefused, std::move(cause)); }
  static Status Internal(std::string cause) { return Status(Code::kInternal, std::move(cause)); }
  static Status Application(uint32_t app_code, std::string cause);
  // "connect: connection refused" from an errno.
  static Status FromErrno(Code code, const char* call, int error);

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ == nullptr ? Code::kOk : rep_->code; }
  uint32_t app_code() const { return rep_ == nullptr ? 0 : rep_->app_code; }
  const std::string& cause() const;  // why, in words
  const std::string& peer() const;   // the peer: a name and an address
  const std::string& phase() const;  // what was being done: "connect", "hello", "read", "call 7 of method 3" ...
  const std::string& next() const;   // what to do now
  int64_t age_ms() const { return rep_ == nullptr ? -1 : rep_->age_ms; }         // since when, or -1
  int system_error() const { return rep_ == nullptr ? 0 : rep_->system_error; }  // the errno of FromErrno here, or 0

  // Each returns a copy with this field set. A field that is set stays: the code nearest to the fault knows best.
  Status Peer(std::string who) const;
  Status Phase(std::string what) const;
  Status Next(std::string hint) const;
  Status AgeMs(int64_t age_ms) const;
  // For an operation that began before the code nearest to the fault did.
  Status AgeMsAtLeast(int64_t age_ms) const;

  // "unavailable: connection reset, peer ps:0 at 10.0.0.7:5555, while reading, since 1.2 s; next: ..."
  std::string ToString() const;
  // The same for a person who has only this line: it ends with "; see: fusewire explain errors#unavailable".
  std::string Explained() const;

 private:
  struct Rep {
    Code code = Code::kOk;
    uint32_t app_code = 0;
    int system_error = 0;
    int64_t age_ms = -1;
    std::string cause, peer, phase, next;
  };
  template <class Set>
  Status With(Set set) const;

  // shared_ptr: one broken pipe ends thousands of calls with the same text, on many threads.
  std::shared_ptr<const Rep> rep_;
};

// A T, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    FUSEWIRE_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    FUSEWIRE_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    FUSEWIRE_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    FUSEWIRE_CHECK(ok());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;  // in place: decoding a frame's header needs no allocation
  Status status_;
};

// Called exactly once, always.
using Done = UniqueFunction<void(Status)>;

// For FUSEWIRE_TRY.
inline const Status& StatusOf(const Status& status) { return status; }
template <class T>
const Status& StatusOf(const Result<T>& result) {
  return result.status();
}
inline void ValueOf(Status&&) {}
template <class T>
T ValueOf(Result<T>&& result) {
  return std::move(result).value();
}

}  // namespace fusewire

// Leaves the function early with the error of `expression`, a Status or a Result. Its value is that of the Result.
#define FUSEWIRE_TRY(expression)                                           \
  __extension__({                                                          \
    auto fusewire_tried = (expression);                                    \
    if (!fusewire_tried.ok()) return ::fusewire::StatusOf(fusewire_tried); \
    ::fusewire::ValueOf(std::move(fusewire_tried));                        \
  })
