// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Little-endian integers and texts, one by one.
// Home: none. Fails: a Reader that runs out of bytes returns zeros from then on, and ok() is false.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/status.h"

namespace fusewire::wire {

inline Status Truncated(const char* what) { return Status::Corrupt(std::string(what) + ": cut off"); }

// Its own inverse: little-endian to the machine's order, and back.
template <class T>
T SwapIfBig(T value) {
  if constexpr (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ || sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  } else {
    return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
  }
}

template <class T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return SwapIfBig(value);
}

template <class T>
void Store(uint8_t* to, T value) {
  value = SwapIfBig(value);
  std::memcpy(to, &value, sizeof(value));
}

template <class T>
void Append(std::string* out, T value) {
  char bytes[sizeof(T)];
  value = SwapIfBig(value);
  std::memcpy(bytes, &value, sizeof(value));
  out->append(bytes, sizeof(bytes));
}

// text := bytes:u16 u8[bytes]
inline void AppendText(std::string* out, const char* text, size_t size) {
  FUSEWIRE_CHECK(size <= UINT16_MAX);
  Append(out, static_cast<uint16_t>(size));
  out->append(text, size);
}
inline void AppendText(std::string* out, const std::string& text) { AppendText(out, text.data(), text.size()); }

// Reads from the front of a view, never beyond its end; check ok() before using the values that were read.
class Reader {
 public:
  explicit Reader(ConstBytes in) : left_(in) {}

  bool ok() const { return ok_; }
  ConstBytes left() const { return left_; }

  ConstBytes Take(size_t size) {
    if (size > left_.size) {
      Fail();
      return ConstBytes();
    }
    ConstBytes taken = left_.Sub(0, size);
    left_ = left_.From(size);
    return taken;
  }
  template <class T>
  T Number() {
    ConstBytes taken = Take(sizeof(T));
    return taken.size == sizeof(T) ? Load<T>(taken.data) : T{0};
  }
  ConstBytes Text() { return Take(Number<uint16_t>()); }

 protected:
  void Fail() {
    ok_ = false;
    left_ = ConstBytes();
  }

 private:
  ConstBytes left_;
  bool ok_ = true;
};

}  // namespace fusewire::wire
