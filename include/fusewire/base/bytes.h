// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Views of memory, and the only function that copies payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fusewire {

// A view of memory that may be written. Another object owns it.
struct Bytes {
  uint8_t* data = nullptr;
  size_t size = 0;

  Bytes() = default;
  Bytes(void* start, size_t length) : data(static_cast<uint8_t*>(start)), size(length) {}
  bool empty() const { return size == 0; }
  uint8_t* end() const { return data + size; }
  Bytes Sub(size_t from, size_t length) const { return Bytes(data + from, length); }
  Bytes From(size_t from) const { return Bytes(data + from, size - from); }
};

// A view of memory that may only be read. Another object owns it.
struct ConstBytes {
  const uint8_t* data = nullptr;
  size_t size = 0;

  ConstBytes() = default;
  ConstBytes(const void* start, size_t length) : data(static_cast<const uint8_t*>(start)), size(length) {}
  // Implicit conversions from a writable view and from a string.
  ConstBytes(Bytes bytes) : data(bytes.data), size(bytes.size) {}                // NOLINT(google-explicit-constructor)
  ConstBytes(const std::string& text) : ConstBytes(text.data(), text.size()) {}  // NOLINT(google-explicit-constructor)
  bool empty() const { return size == 0; }
  const uint8_t* end() const { return data + size; }
  ConstBytes Sub(size_t from, size_t length) const { return ConstBytes(data + from, length); }
  ConstBytes From(size_t from) const { return ConstBytes(data + from, size - from); }
  std::string ToString() const { return std::string(reinterpret_cast<const char*>(data), size); }
};

// We never copy a piece of payload of this size or more; tests check that through CopyCounts().
constexpr size_t kCopyBytesMax = 16 * 1024;

// Counts of CopyBytes() in this process.
struct CopyCounts {
  uint64_t small_bytes = 0;   // in pieces under kCopyBytesMax
  uint64_t large_copies = 0;  // pieces of kCopyBytesMax or more: always 0, otherwise a bug
};

// Copies from.size bytes. Every copy of payload in Fusewire goes through here, so that it is counted.
// `to` must have room. Any thread.
void CopyBytes(Bytes to, ConstBytes from);

// Any thread.
CopyCounts ReadCopyCounts();

}  // namespace fusewire
