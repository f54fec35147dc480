// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <string>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

constexpr size_t kHalvesBytes = 4096;

// The dialler's comes first. A fresh file reads as zeros, which is what both halves begin with.
Half& HalfOf(uint8_t* memory, bool dialler) { return reinterpret_cast<Half*>(memory)[dialler ? 0 : 1]; }

size_t BytesOf(uint32_t ring_bytes) { return kHalvesBytes + 2 * size_t{ring_bytes}; }

Status OutOfSomething(const char* call) {
  return Status::FromErrno(Code::kOverloaded, call, errno)
      .Phase("make shared memory")
      .Next("raise the limit of open files (ulimit -n) or vm.max_map_count, or give the task more memory");
}

}  // namespace

Result<std::unique_ptr<Segment>> Segment::Make(uint32_t ring_bytes, Fd* file) {
  *file = Fd(memfd_create("fusewire", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file->valid()) return OutOfSomething("memfd_create");
  if (ftruncate(file->get(), static_cast<off_t>(BytesOf(ring_bytes))) != 0) return OutOfSomething("ftruncate");
  // Reading beyond the end of a file that was cut short kills the reader: no process can cut this one.
  if (fcntl(file->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return OutOfSomething("fcntl");
  return Map(End::kDialler, file->get(), ring_bytes);
}

Result<std::unique_ptr<Segment>> Segment::Attach(const Fd& file, uint32_t ring_bytes) {
  if (ring_bytes < kRingBytesMin || ring_bytes > kRingBytesMax || !std::has_single_bit(ring_bytes))
    return Status::Corrupt("ring_bytes in the peer's hello is " + std::to_string(ring_bytes) +
                           ", and must be a power of two from " + std::to_string(kRingBytesMin) + " to " +
                           std::to_string(kRingBytesMax));
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status::Corrupt("the file in the peer's hello is not sealed against becoming smaller");
  struct stat is = {};
  if (fstat(file.get(), &is) != 0 || is.st_size != static_cast<off_t>(BytesOf(ring_bytes)))
    return Status::Corrupt("the file in the peer's hello has " + std::to_string(is.st_size) + " bytes, not " +
                           std::to_string(BytesOf(ring_bytes)));
  return Map(End::kListener, file.get(), ring_bytes);
}

Result<std::unique_ptr<Segment>> Segment::Map(End end, int fd, uint32_t ring_bytes) {
  FUSEWIRE_CHECK(std::has_single_bit(ring_bytes));
  FUSEWIRE_CHECK(ring_bytes >= kRingBytesMin);
  const size_t bytes = BytesOf(ring_bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return OutOfSomething("mmap");
  // A child of this process is not an end of the connection.
  (void)madvise(memory, bytes, MADV_DONTFORK);
  return std::unique_ptr<Segment>(new Segment(end, ring_bytes, memory, bytes));
}

Segment::Segment(End end, uint32_t ring_bytes, void* memory, size_t bytes)
    : ring_bytes_(ring_bytes),
      memory_(static_cast<uint8_t*>(memory)),
      bytes_(bytes),
      own_(HalfOf(memory_, end == End::kDialler)),
      peer_(HalfOf(memory_, end != End::kDialler)),
      own_ring_(memory_ + kHalvesBytes + (end == End::kDialler ? 0 : ring_bytes_)),
      peer_ring_(memory_ + kHalvesBytes + (end == End::kDialler ? ring_bytes_ : 0)) {}

Segment::~Segment() {
  const int unmapped = munmap(memory_, bytes_);
  FUSEWIRE_CHECK(unmapped == 0);
}

}  // namespace fusewire::transport
